"""One table of any backend, tiered by inline rounds in this process: the part that is the same for every kind of table.

What the lake must hold after a round is told by a model of plain dicts: `behaviour_log`, `behaviour_primary_key`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from support.behaviours.backends import Backend, OwnedCluster
from support.piecewise_reader import PiecewiseReader
from support.worlds.leases import DirectLeaseCalls
from tiering.clock import RandomIds, SystemClock
from tiering.cluster.writable import TableSpec
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.tierers.leases import Leases
from tiering.errors import Fenced, ServiceUnreachable
from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, Phase, RecordedLakeSnapshot
from tiering.model.schema.changes import additions
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import DEFAULT_FRESHNESS_MS, OFFSET_COLUMN, BucketKey, Offsets, TableInfo, TablePath
from tiering.round.lease_keeper import LeaseKeeper
from tiering.round.ports import HeartbeatCall, ProgressReport, ProposedCommit, ReportAnswer, SplitTask, TaskOutcome, WorkLimits
from tiering.round.progress import RoundMeter
from tiering.round.runner import RoundEnvironment, RoundRunner
from tiering.round.steps.actions import RoundOutcome
from tiering.round.tasks.inline_runner import InlineTaskRunner

MEMORY_LIMIT = 1 << 62
"""Every round is small enough to run inline."""

BATCH_ROWS = 3

Row = dict[str, Any]


@dataclass
class Tierers(DirectLeaseCalls):
    """A `Transport` that remembers what a coordinator does; `refuse_fence` and `lose_ack` are for the next round."""

    cluster: OwnedCluster
    lake_table_uuid: str | None = None
    passed_head: int | None = None
    recorded: RecordedLakeSnapshot | None = None
    refuse_fence: bool = False
    lose_ack: bool = False

    def lease_service(self) -> Leases:
        return Leases(self.cluster, cast(TableRecords, None))  # they are for snapshots that cannot be leased

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        self.lake_table_uuid = lake_table_uuid

    def begin_lake_commit(self, assignment: Assignment, proposed: ProposedCommit) -> Mapping[str, str]:
        if self.refuse_fence:
            raise Fenced("an older epoch")
        return self.cluster.prepare_lake_commit(self.cluster.table(assignment.path), proposed.offsets)

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        if self.lose_ack:
            raise ServiceUnreachable("the coordinator is gone")
        tiered = {bucket: entry.tiered for bucket, entry in marker.buckets.items()}
        self.recorded = RecordedLakeSnapshot(lake_snapshot_id, tiered)
        self.cluster.record_lake_snapshot(self.cluster.table(assignment.path), self.recorded)

    def report_progress(
        self, assignment: Assignment, phase: Phase, report: ProgressReport, answered: Callable[[ReportAnswer], None]
    ) -> None:
        """Not looked at."""

    def heartbeat(self, request: object, timeout_ms: int) -> HeartbeatCall:
        raise AssertionError("a round sends no heartbeat")


class InSmallBatches(InlineTaskRunner):
    """A round may stop anywhere, between `-U` and `+U` as well."""

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        return super().run(round_id, [replace(task, reader=PiecewiseReader(task.reader, BATCH_ROWS)) for task in tasks], limits, meter)


@dataclass
class TieredTable:
    """See the module. A subclass says which table, and what the lake must hold: `spec`, `lengths` and `check`."""

    folder: Path
    backend: Backend

    def __post_init__(self) -> None:
        self.path = self._new_path()
        self.cluster = self._open_cluster()
        self.lake = self.backend.open_lake(self.folder)
        self.tierers = Tierers(self.cluster)
        self.tiered: dict[BucketKey, int] = {}
        """By living bucket, what the marker said when it was looked at last."""
        self._numbers = itertools.count(1)
        self.cluster.create_database(self.path.database_name)
        self.cluster.create_table(self.path, self.spec())

    def _new_path(self) -> TablePath:
        return TablePath(self.backend.new_database(), "orders")

    def _open_cluster(self) -> OwnedCluster:
        return self.backend.open_cluster(self.folder, self.path.database_name)

    def spec(self) -> TableSpec:
        raise NotImplementedError

    def lengths(self) -> Mapping[BucketKey, int]:
        """By living bucket that was written to, the end of its log."""
        raise NotImplementedError

    def check(self) -> None:
        """Compares lake and model; notes `tiered`."""
        raise NotImplementedError

    def close(self) -> None:
        self.cluster.close()
        self.backend.forget(self.path.database_name)

    @property
    def table(self) -> TableInfo:
        return self.cluster.table(self.path)

    @property
    def regions(self) -> list[str]:
        return [partition.partition_name for partition in self.cluster.partitions(self.table)]

    def add_column(self, name: str, kind: pa.DataType) -> None:
        self.cluster.alter_table(self.path, {}, additions([pa.field(name, kind)]))

    def writer(self) -> str:
        """A new writer's id."""
        return f"writer-{next(self._numbers)}"

    def log(self, bucket: BucketKey, start: int, stop: int, *more: str) -> list[Row | None]:
        """Returns the log of one bucket at these offsets, in the table's columns and in `more`; None where there is no record."""
        names = {partition.partition_id: partition.partition_name for partition in self.cluster.partitions(self.table)}
        name = None if bucket.partition_id is None else names[bucket.partition_id]
        reader = self.cluster.reader(self.table, TieringLogSplit(self.path, bucket, name, start, stop, stop))
        columns = [*self.table.schema.names, *more, OFFSET_COLUMN]
        rows = [row for batch in reader.read() for row in batch.select(columns).to_pylist()]
        by_offset = {row.pop(OFFSET_COLUMN): row for row in rows}
        assert len(by_offset) == len(rows)
        return [by_offset.get(offset) for offset in range(start, stop)]

    def drop(self, region: str) -> dict[BucketKey, int]:
        """Drops a partition; how far its buckets were tiered."""
        ids = {partition.partition_id for partition in self.cluster.partitions(self.table) if partition.partition_name == region}
        self.cluster.drop_partition(self.path, region)
        return {bucket: self.tiered.pop(bucket) for bucket in list(self.tiered) if bucket.partition_id in ids}

    def restart(self) -> None:
        """Everything is opened anew; what only the tierer knew is lost."""
        self.cluster.close()
        self.cluster = self.tierers.cluster = self._open_cluster()
        self.lake = self.backend.open_lake(self.folder)

    def run_round(self, *, refuse_fence: bool = False, lose_ack: bool = False, max_duration_ms: int = DEFAULT_FRESHNESS_MS) -> RoundOutcome:
        """One round; then the lake is compared with the model."""
        self.tierers.refuse_fence, self.tierers.lose_ack = refuse_fence, lose_ack
        number, known = next(self._numbers), self.tierers
        assignment = Assignment(
            self.table.table_id,
            self.path,
            number,
            1,
            f"round-{number}",
            known.lake_table_uuid,
            known.passed_head,
            known.recorded,
            max_duration_ms,
        )
        inline, clock = InSmallBatches(), SystemClock()
        leases = LeaseKeeper(known, clock, f"lease-{number}")
        world = RoundEnvironment(known, self.cluster, lambda _: self.lake, inline, inline, clock, RandomIds(), MEMORY_LIMIT, leases)
        outcome = RoundRunner(world, assignment).run()
        leases.close()
        if outcome.passed_head is not None:
            known.passed_head = outcome.passed_head
        self.check()
        return outcome

    def marker(self) -> Marker | None:
        """The lake's; `tiered` is what it says of living buckets."""
        view = self.lake.view(self.path)
        marker = None if view is None else view.marker
        if marker is None:
            assert not self.tiered
        else:
            living = self.cluster.offsets(self.table)
            assert self.cluster.offsets_of([self.table]) == {self.table.table_id: living}
            self.tiered = {bucket: entry.tiered for bucket, entry in marker.buckets.items() if bucket in living}
        return marker

    def assert_lake_holds(self, expected: Sequence[Row]) -> None:
        """Exactly these rows, each once."""
        lake_rows = self.backend.by_hand(self.folder).rows(self.path)
        names = [name for name in lake_rows.column_names if name != "__timestamp"]
        assert _counted(lake_rows.select(names).to_pylist(), names) == _counted(expected, names)

    def assert_all_tiered(self) -> None:
        """Everything in the log is in the lake."""
        lengths = self.lengths()
        assert self.tiered == dict(lengths) | {bucket: 0 for bucket in self.tiered if not lengths.get(bucket)}


def placed(bucket: BucketKey, row: Row, offset: int) -> Row:
    """The row as the lake has it, but for the timestamp."""
    return {**row, "__bucket": bucket.bucket_id, "__offset": offset}


def _counted(rows: Sequence[Row], names: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(repr(row.get(name)) for name in names) for row in rows)
