"""The faults that happen to real processes, each as a story: what fails, when it is over, and that everything is well afterwards."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from support.faulty.deployment import ORDERS, FaultyDeployment
from support.faulty.network import FaultyNetwork
from support.faulty.preloaded import FailingSyncs, MovedClock
from support.lake_kinds.kinds import ICEBERG
from support.running.cluster_of_processes import SERVICE_TIMEOUT_MS, is_stopped, wait_stopped, wake
from support.running.processes import Process, wait_for
from tiering import crash_points
from tiering.errors import LakewardError

DAY = 24 * 3_600
TRANSACTIONS = 24
ANSWERS = 30
ASLEEP_POINTS = (crash_points.AFTER_FILES, crash_points.BEFORE_FENCE, crash_points.AFTER_FENCE, crash_points.AFTER_LAKE_COMMIT)
COORDINATOR_POINTS = (
    *(f"{point}@{number}" for point in crash_points.IN_COORDINATOR[:2] for number in range(1, TRANSACTIONS + 1)),
    crash_points.ACK_STORED,
    *crash_points.IN_KV,
)


class Story:
    """One deployment, with a tierer behind a faulty network; both processes have clocks that can be moved."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.scene = FaultyDeployment(folder)
        self.random = random.Random(seed)
        self.happened: list[str] = []
        self._folder = folder
        self._clocks = {name: MovedClock(folder / f"{name}-clock") for name in ("coordinator", "tierer")}
        self._reconciled = 0

    def begin(self) -> None:
        self.scene.start_coordinator(**self._clocks["coordinator"].env)
        self.scene.make_tables()
        self.network = FaultyNetwork(self.scene.port)
        self.tierer = self._start_tierer()
        self.scene.write()
        self.scene.settle()

    def close(self) -> None:
        self.scene.close()
        if hasattr(self, "network"):
            self.network.close()

    def next_fault(self) -> str:
        """Lets one fault happen, chosen by the seed, and asserts that all is well after it. Its name."""
        name = self.random.choice(list(STORIES))
        self.happened.append(name)
        self.scene.write()
        STORIES[name](self)
        self.scene.write()
        self.scene.settle()
        return name

    def tierer_killed(self) -> None:
        self._replace_tierer(self.random.choice(crash_points.IN_ROUND))
        assert self.tierer.wait_ended() == -signal.SIGKILL
        self._replace_tierer()

    def tierer_asleep(self) -> None:
        self._replace_tierer(f"{self.random.choice(ASLEEP_POINTS)}:stop")
        wait_stopped(self.tierer)
        sleeper, self.tierer = self.tierer, self._start_tierer("other")
        self.scene.write()
        if self.random.random() < 0.7:
            self.scene.settle()
        wake(sleeper)
        self.scene.write()
        self.scene.settle()
        sleeper.close()

    def coordinator_killed(self) -> None:
        """Once more before it is well: the next one dies somewhere else."""
        for _ in range(self.random.randrange(1, 4)):
            self.scene.kill_coordinator()
            point = self.random.choice(COORDINATOR_POINTS)
            dying = self.scene.start_coordinator(port=self.scene.port, crash_point=point, **self._clocks["coordinator"].env)
            for _ in range(3):
                with suppress(LakewardError):
                    self.scene.write()
            if dying.popen.poll() is None:
                dying.send(signal.SIGKILL)
            dying.wait_ended()
        self._start_coordinator()

    def coordinator_asleep(self) -> None:
        coordinator = self.scene.coordinator
        coordinator.send(signal.SIGSTOP)
        wait_stopped(coordinator)
        self._sleep_of_the_service()
        wake(coordinator)

    def answer_lost_after_its_effect(self) -> None:
        self.scene.kill_coordinator()
        place = f"{crash_points.STORE_AFTER_COMMIT}@{self.random.randrange(1, TRANSACTIONS)}:stop"
        coordinator = self.scene.start_coordinator(port=self.scene.port, crash_point=place, **self._clocks["coordinator"].env)
        wait_for("it serves or sleeps", lambda: is_stopped(coordinator) or "lakeward is ready" in coordinator.output(), 90)
        wait_for("it sleeps", lambda: is_stopped(coordinator), 90)
        self.network.drop()
        wake(coordinator)
        coordinator.wait_ready()
        self.network.heal()

    def network_gone(self) -> None:
        self.network.drop()
        self._away()

    def network_hanging(self) -> None:
        self.network.hang()
        self._away()

    def answers_cut(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            before = self.network.cuts
            self.network.cut_answer(self.random.randrange(ANSWERS))
            self.scene.write()
            wait_for("an answer is cut", lambda before=before: self.network.cuts > before)

    def coordinator_taken_over(self) -> None:
        first = self.scene.coordinator
        self._clocks["coordinator"] = MovedClock(self._folder / f"coordinator-clock-{len(self.happened)}")  # on another machine
        self._move("coordinator")
        arguments = ("-m", "tiering.cli.main", *self.scene.coordinator_arguments(self.scene.port))
        second = self.scene.start_program(*arguments, log_name="coordinator", env=self._clocks["coordinator"].env)
        wait_for("the second one waits", lambda: "waiting for another coordinator" in second.output())
        first.send(signal.SIGKILL)
        second.wait_ready()

    def coordinator_clock_moved(self) -> None:
        self._move("coordinator")

    def coordinator_clock_moved_before_its_start(self) -> None:
        self.scene.kill_coordinator()
        self._move("coordinator")
        self._start_coordinator()

    def tierer_clock_moved(self) -> None:
        self._move("tierer")

    def coordinator_syncs_fail(self) -> None:
        self.scene.kill_coordinator()
        syncs = FailingSyncs(self._folder)
        syncs.process = self.scene.start_coordinator(port=self.scene.port, **syncs.env)
        syncs.begin()
        for _ in range(2):
            with suppress(LakewardError):
                self.scene.write()
        syncs.end()

    def tierer_syncs_fail(self) -> None:
        syncs = FailingSyncs(self._folder)
        self.tierer.close()
        syncs.process = self.tierer = self.scene.start_inline_tierer("unsynced", self.network.uri, **syncs.env)
        wait_for("it is ready", lambda: "tierer is ready" in self.tierer.output())
        syncs.begin()
        self.scene.write()
        wait_for("the table fails", lambda: self.scene.status(ORDERS).last_error)
        syncs.end()

    def sweep_killed(self) -> None:
        self.tierer.close()
        self.scene.write()
        self.scene.leave_dead_files()
        self._replace_tierer()
        self.scene.settle()
        self._call_to_a_dying(self.random.choice(crash_points.IN_SWEEP), lambda: self._sweep())
        self._sweep()

    def reconciliation_killed(self) -> None:
        self.scene.by_hand(ICEBERG).drop(ORDERS)
        self.scene.write()
        wait_for("the dropped lake table is an error", lambda: self.scene.status(ORDERS).error_class == "LakeTableReplaced", 90)
        self._reconciled += 1
        self._call_to_a_dying(self.random.choice(crash_points.IN_RECONCILE), self._reconcile)
        self._reconcile()

    def _sweep(self) -> None:
        with self.scene.client() as client:
            client.sweep_lake(ORDERS, older_than_ms=0)

    def _reconcile(self) -> None:
        with self.scene.client() as client:
            client.reconcile_lake(ORDERS, "retier", idempotency_key=f"key-{self._reconciled}")

    def _call_to_a_dying(self, point: str, call: Callable[[], None]) -> None:
        self.scene.kill_coordinator()
        dying = self.scene.start_coordinator(port=self.scene.port, crash_point=point, **self._clocks["coordinator"].env)
        dying.wait_ready()
        with suppress(LakewardError):
            call()
        assert dying.wait_ended() == -signal.SIGKILL
        self._start_coordinator()

    def _away(self) -> None:
        self._sleep_of_the_service()
        self.scene.write()
        self.network.heal()

    def _sleep_of_the_service(self) -> None:
        """Makes the service sleep at most as long as the service timeout."""
        signal.sigtimedwait([], self.random.uniform(0.2, 2.5) * SERVICE_TIMEOUT_MS / 1_000)

    def _move(self, whose: str) -> None:
        self._clocks[whose].move(self.random.choice((-400, -5, 0, 1, 5, 400)) * DAY)

    def _start_coordinator(self) -> None:
        self.scene.start_coordinator(port=self.scene.port, **self._clocks["coordinator"].env)

    def _start_tierer(self, name: str = "one", crash_point: str | None = None) -> Process:
        return self.scene.start_inline_tierer(name, self.network.uri, crash_point, **self._clocks["tierer"].env)

    def _replace_tierer(self, crash_point: str | None = None) -> None:
        self.tierer.close()
        self.tierer = self._start_tierer("one", crash_point)
        if crash_point is not None:
            self.scene.write()


STORIES: dict[str, Callable[[Story], None]] = {
    story.__name__: story
    for story in (
        Story.tierer_killed,
        Story.tierer_asleep,
        Story.coordinator_killed,
        Story.coordinator_asleep,
        Story.answer_lost_after_its_effect,
        Story.network_gone,
        Story.network_hanging,
        Story.answers_cut,
        Story.coordinator_taken_over,
        Story.coordinator_clock_moved,
        Story.coordinator_clock_moved_before_its_start,
        Story.tierer_clock_moved,
        Story.coordinator_syncs_fail,
        Story.tierer_syncs_fail,
        Story.sweep_killed,
        Story.reconciliation_killed,
    )
}
