"""One table of any cluster, tiered to any lake by inline rounds in this process, beside a model of plain dicts.

The model is made from what was appended. After every round the lake must hold exactly the model's rows below the
offsets of its marker: each once, with every value, NULL in columns that came later.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from support.leases import NoLeaseCalls, keeper
from tiering.cluster.embedded.base import EmbeddedCluster, TableSpec
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.effects import RandomIds, SystemClock
from tiering.errors import Fenced, ServiceUnreachable
from tiering.lake.base import Lake
from tiering.lake.marker import Marker
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.model import Assignment, BucketKey, Offsets, Phase, RecordedLakeSnapshot, TableInfo, TablePath, TieringLogSplit
from tiering.round.actions import RoundOutcome
from tiering.round.base import Grant, HeartbeatCall
from tiering.round.inline import InlineTaskRunner
from tiering.round.runner import RoundRunner, RoundWorld

PATH = TablePath("sales", "orders")
COLUMNS = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
MEMORY_LIMIT = 1 << 62
"""Every round is small enough to run inline."""

Row = dict[str, Any]


@dataclass(frozen=True)
class LakeBackend:
    """How to open one lake format in a folder, and how anybody else reads a table of it."""

    open: Callable[[Path], Lake]
    read: Callable[[Path, TablePath], pa.Table]


def _read_iceberg(folder: Path, path: TablePath) -> pa.Table:
    return load_catalog("lake", **local_lake_properties(folder)).load_table(str(path)).scan().to_arrow()


ClusterBackend = Callable[[Path], EmbeddedCluster]
CLUSTERS: Mapping[str, ClusterBackend] = {"embedded": lambda folder: EmbeddedStorage(folder / "cluster")}
LAKES: Mapping[str, LakeBackend] = {
    "iceberg": LakeBackend(lambda folder: open_lake("iceberg", local_lake_properties(folder)), _read_iceberg)
}


@dataclass
class Tierers(NoLeaseCalls):
    """A `Transport` that remembers what a coordinator does; `refuse_fence` and `lose_ack` are for the next round."""

    cluster: EmbeddedCluster
    lake_table_uuid: str | None = None
    passed_head: int | None = None
    recorded: RecordedLakeSnapshot | None = None
    refuse_fence: bool = False
    lose_ack: bool = False

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        self.lake_table_uuid = lake_table_uuid

    def begin_lake_commit(self, assignment: Assignment, grant: Grant) -> None:
        if self.refuse_fence:
            raise Fenced("an older epoch")

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        if self.lose_ack:
            raise ServiceUnreachable("the coordinator is gone")
        tiered = {bucket: entry.tiered for bucket, entry in marker.buckets.items()}
        self.recorded = RecordedLakeSnapshot(lake_snapshot_id, tiered)
        self.cluster.record_lake_snapshot(self.cluster.table(assignment.path), self.recorded)

    def report_progress(self, assignment: Assignment, phase: Phase, splits_done: int, splits_total: int) -> None:
        """Not looked at."""

    def heartbeat(self, request: object, timeout_ms: int) -> HeartbeatCall:
        raise AssertionError("a round sends no heartbeat")


@dataclass
class Behaviour:
    """See the module. `rows` has the log of each living bucket, `left` the lake's rows of partitions that are gone."""

    folder: Path
    open_cluster: ClusterBackend
    lake_backend: LakeBackend
    partitioned: bool
    bucket_keys: tuple[str, ...]
    rows: dict[BucketKey, list[Row]] = field(default_factory=dict)
    left: list[Row] = field(default_factory=list)
    tiered: dict[BucketKey, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = self.open_cluster(self.folder)
        self.lake = self.lake_backend.open(self.folder)
        self.tierers = Tierers(self.cluster)
        self._numbers = itertools.count(1)
        self._ids = itertools.count()
        partition_keys = ("region",) if self.partitioned else ()
        properties = {"table.datalake.enabled": "true"}
        self.cluster.create_database(PATH.database_name)
        self.cluster.create_table(PATH, TableSpec(COLUMNS, 2, self.bucket_keys, properties, (), partition_keys))

    def close(self) -> None:
        self.cluster.close()  # type: ignore[attr-defined]

    @property
    def table(self) -> TableInfo:
        return self.cluster.table(PATH)

    @property
    def regions(self) -> list[str]:
        return [partition.partition_name for partition in self.cluster.partitions(self.table)]

    def append(self, rows: Sequence[tuple[str, Row]]) -> None:
        """Rows of (region, other values); ids are given here, so that every row is one of its kind."""
        schema = self.table.schema
        whole = [{"region": region, "id": next(self._ids), **values} for region, values in rows]
        batch = pa.Table.from_pylist(whole, schema=schema)
        ranges = self.cluster.append(PATH, batch, f"writer-{next(self._numbers)}", 0)
        appended = [row for one in ranges for row in self._log(one.bucket, one.starting_offset, one.stopping_offset)]
        assert sorted(appended, key=_id) == [{name: row.get(name) for name in schema.names} for row in whole]
        for one in ranges:
            log = self.rows.setdefault(one.bucket, [])
            assert len(log) == one.starting_offset
            log.extend(self._log(one.bucket, one.starting_offset, one.stopping_offset))

    def _log(self, bucket: BucketKey, start: int, stop: int) -> list[Row]:
        names = {partition.partition_id: partition.partition_name for partition in self.cluster.partitions(self.table)}
        name = None if bucket.partition_id is None else names[bucket.partition_id]
        reader = self.cluster.reader(self.table, TieringLogSplit(PATH, bucket, name, start, stop, stop))
        return [row for batch in reader.read() for row in batch.select(self.table.schema.names).to_pylist()]

    def add_column(self, name: str, kind: pa.DataType) -> None:
        self.cluster.alter_table(PATH, {}, [pa.field(name, kind)])

    def drop_partition(self, region: str) -> None:
        """What the lake has of it stays there; what it has not is gone."""
        gone = {one.partition_id for one in self.cluster.partitions(self.table) if one.partition_name == region}
        self.cluster.drop_partition(PATH, region)
        for bucket in [one for one in self.rows if one.partition_id in gone]:
            self.left += _placed(bucket, self.rows.pop(bucket)[: self.tiered.pop(bucket, 0)])

    def restart(self) -> None:
        """Everything is opened anew; what only the tierer knew is lost."""
        self.close()
        self.cluster = self.tierers.cluster = self.open_cluster(self.folder)
        self.lake = self.lake_backend.open(self.folder)

    def run_round(self, *, refuse_fence: bool = False, lose_ack: bool = False) -> RoundOutcome:
        """One round; then the lake is compared with the model."""
        self.tierers.refuse_fence, self.tierers.lose_ack = refuse_fence, lose_ack
        number = next(self._numbers)
        known = self.tierers
        assignment = Assignment(
            self.table.table_id, PATH, number, 1, f"round-{number}", known.lake_table_uuid, known.passed_head, known.recorded
        )
        inline = InlineTaskRunner()
        world = RoundWorld(
            known, self.cluster, lambda _: self.lake, inline, inline, SystemClock(), RandomIds(), MEMORY_LIMIT, keeper(known)
        )
        outcome = RoundRunner(world, assignment).run()
        if outcome.passed_head is not None:
            known.passed_head = outcome.passed_head
        self.check()
        return outcome

    def check(self) -> None:
        """The lake holds the model's rows below the marker's offsets, each once, and nothing else."""
        view = self.lake.view(PATH)
        marker = None if view is None else view.marker
        if marker is None:
            assert not self.tiered
            return
        self.tiered = {bucket: entry.tiered for bucket, entry in marker.buckets.items() if bucket in self.rows}
        expected = [row for bucket, stop in self.tiered.items() for row in _placed(bucket, self.rows[bucket][:stop])] + self.left
        found = self.lake_backend.read(self.folder, PATH)
        names = [name for name in found.column_names if name != "__timestamp"]
        assert _counted(found.select(names).to_pylist(), names) == _counted(expected, names)

    def assert_all_tiered(self) -> None:
        """Every row of the log is in the lake."""
        assert self.tiered == {bucket: len(log) for bucket, log in self.rows.items()} | {
            bucket: 0 for bucket in self.tiered if not self.rows.get(bucket)
        }


def _id(row: Row) -> int:
    number: int = row["id"]
    return number


def _placed(bucket: BucketKey, rows: Sequence[Row]) -> list[Row]:
    return [{**row, "__bucket": bucket.bucket_id, "__offset": offset} for offset, row in enumerate(rows)]


def _counted(rows: Sequence[Row], names: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(repr(row.get(name)) for name in names) for row in rows)
