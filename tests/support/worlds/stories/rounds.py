"""Steps of a story: time, processes and rounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.background import tick
from support.worlds.data_folders import FolderWorld
from support.worlds.lake_world import FRESHNESS_S, SteppedRound
from support.worlds.leases import keeper
from support.worlds.stories.tables import TableSteps
from tiering.clock import RandomIds
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.round.runner import RoundEnvironment, RoundRunner
from tiering.round.steps import actions as act
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.wire.model_codecs import ASSIGNMENT

MAX_BACKOFF_S = 301
FRESH_ROWS = 0.7
"""How often a round finds something new for sure."""
STOPS = (act.ReadLake, act.EnsureLakeTable, act.RecordPlan, act.RunSplits, act.BeginCommit, act.CommitLake, act.Ack)


class RunningCluster:
    """The cluster as it runs now: a tierer's client finds it again after a restart."""

    def __init__(self, world: FolderWorld) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.storage, name)


class RoundSteps(TableSteps):
    """Rounds that end, that stop somewhere, and that come back. `abandoned`: those of tierers that are away."""

    abandoned: list[SteppedRound]

    def wait(self) -> str:
        seconds = self.rng.choice((1, 30, FRESHNESS_S + 1, 200, MAX_BACKOFF_S))
        self.world.clock.advance(seconds)
        tick(self.world.coordinator)
        return f"{seconds} s"

    def restart(self) -> str:
        if self.rng.random() < 0.5:
            self.world.restart()
            return "coordinator"
        self.restart_cluster()
        return "cluster and coordinator"

    def restart_cluster(self, after_close: Callable[[Path], object] = lambda root: None) -> None:
        """Rounds that run reach the new one. `after_close` gets the cluster's folder while nothing runs."""
        self.world.coordinator.close()
        self.world.storage.close()
        after_close(self.world.storage.root)
        self.world.storage = _opened_again(self.world)
        self.world.coordinator = self.world._start()

    def begin(self) -> SteppedRound | None:
        """Whatever is due."""
        world = self.world
        answer = world.beat(request_table=True)
        if not answer.HasField("tiering_table"):
            return None
        assignment = ASSIGNMENT.from_pb(answer.tiering_table, coordinator_epoch=answer.coordinator_epoch)
        inline = InlineTaskRunner()
        cluster: Any = RunningCluster(world)
        parts = RoundEnvironment(
            world.transport, cluster, lambda _: world.lake, inline, inline, world.clock, RandomIds(), 1 << 40, keeper(world.transport)
        )
        return SteppedRound(world, assignment, RoundRunner(parts, assignment))

    def tier(self) -> str | None:
        if self.rng.random() < FRESH_ROWS:
            self.attempt("write", self.write)
        self.world.clock.advance(FRESHNESS_S + 1)
        tick(self.world.coordinator)
        taken = self.begin()
        return None if taken is None else self.end(taken)

    def end(self, taken: SteppedRound) -> str:
        outcome = taken.end()
        if outcome.error is not None:
            self.judge(outcome.error)
        return f"round of {taken.assignment.path}: {outcome.state} {outcome.error!r}"

    def lose_an_ack(self) -> str | None:
        self.world.transport.lose_acks = True
        try:
            return self.tier()
        finally:
            self.world.transport.lose_acks = False

    def abandon(self) -> str | None:
        """A round comes to some place, and is not heard of any more, for now."""
        if self.rng.random() < FRESH_ROWS:
            self.attempt("write", self.write)
        self.world.clock.advance(FRESHNESS_S + 1)
        tick(self.world.coordinator)
        taken = self.begin()
        if taken is None:
            return None
        stop = self.rng.choice(STOPS)
        while not isinstance(taken.runner.next_action, (stop, act.End)):
            if taken.runner.advance() is not None:
                break
        self.abandoned.append(taken)
        return f"{taken.assignment.path} before {type(taken.runner.next_action).__name__}"

    def come_back(self) -> str | None:
        """A tierer that was away goes on with its round."""
        return self.end(self.abandoned.pop(self.rng.randrange(len(self.abandoned)))) if self.abandoned else None


def _opened_again(world: FolderWorld) -> EmbeddedStorage:
    return EmbeddedStorage(world.storage.root, world.clock, RandomIds(), world.lake.check_schema)
