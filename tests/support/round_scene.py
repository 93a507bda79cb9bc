"""One round over a cluster and a lake in memory, with a coordinator that grants what it is told to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from support.clusters.memory_cluster import MemoryCluster, log_table
from support.lakes.memory_lake import MemoryLake
from support.worlds.leases import NoLeaseCalls, keeper
from tiering.errors import LakewardError, ServiceUnreachable
from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, Phase, RoundProgress
from tiering.model.tables import BucketKey, Offsets
from tiering.round.ports import ProgressReport, ProposedCommit, ReportAnswer
from tiering.round.runner import RoundEnvironment, RoundRunner
from tiering.round.steps.actions import RoundOutcome
from tiering.round.tasks.inline_runner import InlineTaskRunner

TABLE = log_table()
B0, B1 = BucketKey(None, 0), BucketKey(None, 1)


class HandClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic_ms(self) -> int:
        return self.ms


class CountingIds:
    def __init__(self) -> None:
        self._numbers = itertools.count()

    def new_id(self) -> str:
        return f"id-{next(self._numbers)}"


class Coordinator(NoLeaseCalls):
    """A `Transport` that grants what it is told to and writes down what it hears."""

    def __init__(self) -> None:
        self.grants: list[ProposedCommit] = []
        self.acks: list[tuple[str, int]] = []
        self.plans: list[Offsets] = []
        self.refuse: LakewardError | None = None
        self.lose_acks = False
        self.snapshot_properties: dict[str, str] = {}
        self.at_fence: Callable[[], None] = lambda: None
        self.on_progress: Callable[[RoundProgress], None] = lambda progress: None

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        self.plans.append(stops)

    def begin_lake_commit(self, assignment: Assignment, proposed: ProposedCommit) -> Mapping[str, str]:
        self.at_fence()
        if self.refuse is not None:
            raise self.refuse
        self.grants.append(proposed)
        return self.snapshot_properties

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        if self.lose_acks:
            raise ServiceUnreachable("gone")
        self.acks.append((marker.round_id, lake_snapshot_id))

    def report_progress(
        self, assignment: Assignment, phase: Phase, report: ProgressReport, answered: Callable[[ReportAnswer], None]
    ) -> None:
        self.on_progress(report.progress)
        answered(ReportAnswer.TAKEN)

    def heartbeat(self, request: object, timeout_ms: int) -> object:
        raise AssertionError("a round sends no heartbeat")


@dataclass
class Scene:
    cluster: MemoryCluster
    lake: MemoryLake
    coordinator: Coordinator
    numbers: Iterator[int]
    clock: HandClock = field(default_factory=HandClock)

    def assignment(self, **changes: object) -> Assignment:
        number = next(self.numbers)
        return replace(Assignment(TABLE.table_id, TABLE.path, number, 1, f"round-{number}"), **changes)  # type: ignore[arg-type]

    def world(self) -> RoundEnvironment:
        return RoundEnvironment(
            self.coordinator,
            self.cluster,
            lambda _: self.lake,
            InlineTaskRunner(),
            InlineTaskRunner(),
            self.clock,
            CountingIds(),
            0,
            keeper(self.coordinator),
        )

    def runner(self, **changes: object) -> RoundRunner:
        return RoundRunner(self.world(), self.assignment(**changes))

    def run(self, **changes: object) -> RoundOutcome:
        return self.runner(**changes).run()

    def offsets_in_lake(self) -> list[tuple[int, int]]:
        return sorted((bucket.bucket_id, offset) for bucket, start, end, _ in self.lake.rows(TABLE.path) for offset in range(start, end))


def new_scene() -> Scene:
    """Seven records in one bucket and two in the other."""
    scene = Scene(MemoryCluster(TABLE), MemoryLake(), Coordinator(), itertools.count(1))
    scene.cluster.append(TABLE, 0, 7)
    scene.cluster.append(TABLE, 1, 2)
    return scene
