"""Beside Flink: all steps of its committers, of ours, of network and users, and the way out of every state."""

from __future__ import annotations

from collections.abc import Iterator

from faults.model.search import Result, Search, WaysOut
from faults.model.shared import coordinator, flink, invariants, rounds, users
from faults.model.shared.flink import Step
from faults.model.shared.looks import Refusal, stand_of
from faults.model.shared.starts import start
from faults.model.shared.world import Size, World

QUIET, PEACE = 0, 1
"""Phases of a continuation: everything comes to rest, and then a healthy round of Flink's and one of ours follow each other."""


class SharedModel:
    """The model in one size."""

    def __init__(self, size: Size) -> None:
        self.size = size

    def search(self, depth: int, states: int | None = None, seconds: float | None = None) -> Result:
        """Every story of so many steps; of each of its states, whether the table can be healed."""
        return self._search().run(depth, states, seconds)

    def walk(self, depth: int, seconds: float) -> Result:
        """Stories of up to so many steps, drawn at random for so many seconds; whether the table can be healed at their ends."""
        return self._search().walk(depth, seconds)

    def _search(self) -> Search[World]:
        return Search(start(self.size), self.steps, WaysOut(self.is_at_peace, self.next_step))

    def steps(self, world: World) -> Iterator[Step]:
        """Everything that may happen next."""
        yield from flink.steps(self.size, world)
        yield from rounds.steps(self.size, world)
        yield from coordinator.steps(self.size, world)
        yield from users.steps(self.size, world)

    def is_at_peace(self, world: World) -> bool:
        """Whether both services went on, and nothing is wrong."""
        return world.peace == PEACE and self.is_quiet(world) and not invariants.complaint(world, world.log.end)

    def is_quiet(self, world: World) -> bool:
        """Whether the table is at rest, at the log's end, and coordinator and cluster name its newest snapshot with that end."""
        record, own = world.record, world.record.own
        is_busy = world.round or world.flinks or world.requests or world.ack or world.call or world.turn
        if is_busy or record.error or record.unresolved is not None or own is None or not world.cluster.is_readable:
            return False
        stand = stand_of(rounds.look(self.size, world, world.known(), world.recorded()))
        if isinstance(stand, Refusal) or stand.ahead or stand.needs_commit:
            return False
        newest = (world.cluster.latest, world.cluster.end)
        return (own.snapshot_id, own.end) == newest and own.end == world.log.end

    def next_step(self, world: World) -> Step | None:
        """The next step of a continuation without faults, in which users do what errors say."""
        if self.is_quiet(world):
            complaint = invariants.complaint(world, world.log.end)
            return ("all comes to rest", world._replace(broken=complaint)) if complaint else self._healthy_round(world)
        following = self._continued(world)
        if following is None or world.peace != PEACE:
            return following
        step, after = following
        if after.record.error or step.endswith("fails"):
            after = after._replace(broken=f"all was quiet, and a healthy round ends in {after.record.error or 'a failure of Flink'}")
        return step, after

    def _continued(self, world: World) -> Step | None:
        if world.requests:
            return rounds.deliver(self.size, world, world.requests[0])
        if world.ack is not None:
            return coordinator.advance(self.size, world, world.ack)
        if world.flinks:
            return flink.advance(self.size, world, world.flinks[0])
        if world.call is not None:
            return users.end_reconcile(self.size, world, world.call)
        if world.round is not None:
            return next(rounds.round_steps(self.size, world._replace(faults=0), world.round))
        if world.record.error:
            return self._mended(world)
        return rounds.assign(world)

    def _healthy_round(self, world: World) -> Step | None:
        """Flink's, of a record that comes now."""
        grown = world._replace(log=world.log._replace(end=world.log.end + 1), peace=PEACE)
        return next(flink.plan(self.size, grown), None)

    def _mended(self, world: World) -> Step | None:
        """Follows the hint. If its statement is refused, any other action that succeeds, which the refusal names."""
        hinted = sorted(world.record.hints, key=lambda action: action != "deduplicate")
        others = [action for action in users.ACTIONS if action not in hinted]
        for action in (*hinted, *others):
            for step in users.begin_reconcile(self.size, world, action):
                return step
        return None
