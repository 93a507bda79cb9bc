"""A primary-key table of a real Fluss cluster with another merge engine, changelog or way to delete, tiered by rounds in this process.

Two things tell what the lake must hold. After every round it is the fold of the log up to the offsets of the marker, with the offset of
each key's last change. After a round to the end it is what the tablet servers themselves have, by a bounded scan of each bucket.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import fluss
import pyarrow as pa

from support.behaviours.backends import FlussBackend
from support.behaviours.behaviour_world import Row, TieredTable, placed
from support.behaviours.fluss_creation import create_table
from support.behaviours.fluss_database import FlussDatabase
from support.clusters.fluss_tables import connected, primary_key_rows
from support.running.fluss_health import restart_coordinators
from support.running.processes import wait_for
from tiering.cluster.writable import TableSpec
from tiering.errors import ClusterUnavailable
from tiering.lake.layouts import Layout
from tiering.lake.marker import TieredRange
from tiering.lake.table_options import ENABLED, FORMAT, FRESHNESS, LAYOUT
from tiering.model.leases import KvSnapshot
from tiering.model.tables import CHANGE_TYPE_COLUMN, SNAPSHOT_OFFSET, BucketKey, ChangeType, TableInfo, TablePath
from tiering.validate.results import Level
from tiering.validate.run import validate

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("version", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("amount", pa.int64()),
    ]
)
DATABASE = "merged"
VALUES = ("version", "text", "amount")
KEYS = range(12)
BUCKETS = 2
LEADER_SECONDS = 10.0


@dataclass(frozen=True)
class MergeEngine:
    """How the servers merge what is written to a key, how they log it, and what a client may write."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    """Functions of aggregation, by column."""
    may_delete: bool = True
    may_write_some_columns: bool = True
    auto_increment: Sequence[str] = ()
    """Columns that the servers number; no client writes them."""

    def columns(self, rng: random.Random) -> list[str] | None:
        """Columns of the next write; None = all."""
        if not self.may_write_some_columns or (not self.auto_increment and rng.random() < 0.5):
            return None
        writable = [name for name in VALUES if name not in self.auto_increment]
        return ["id", *sorted(rng.sample(writable, rng.randint(1, len(writable))), key=writable.index)]


_IGNORED_DELETES = {"table.delete.behavior": "ignore"}
_VERSIONED = {"table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "version"}
_WAL = {"table.changelog.image": "WAL"}
ENGINES = (
    MergeEngine("default"),
    MergeEngine("default, whole rows, WAL", _WAL, may_write_some_columns=False),
    MergeEngine("default, some columns, WAL", _WAL),
    MergeEngine("default, deletes ignored", _IGNORED_DELETES),
    MergeEngine("default, deletes disabled, WAL", {"table.delete.behavior": "disable", **_WAL}, may_delete=False),
    MergeEngine("first_row", {"table.merge-engine": "first_row"}, may_write_some_columns=False),
    MergeEngine("versioned", _VERSIONED, may_write_some_columns=False),
    MergeEngine("versioned, WAL", {**_VERSIONED, **_WAL}, may_write_some_columns=False),
    MergeEngine(
        "aggregation",
        {"table.merge-engine": "aggregation", "table.delete.behavior": "allow"},
        {"version": "max", "text": "listagg", "amount": "sum"},
    ),
    MergeEngine("aggregation, deletes ignored", {"table.merge-engine": "aggregation"}, {"version": "min", "text": "first_value"}),
    MergeEngine("auto-increment, WAL", _WAL, auto_increment=("amount",)),
)


@dataclass(frozen=True)
class Write:
    """One change that a client asks for."""

    verb: str
    columns: Sequence[str] | None
    row: Row


class _Database(FlussDatabase):
    """Makes tables with a merge engine, and hides KV snapshots from rounds until `show_kv_snapshots` is called.

    `layout`: of new lake tables. A cluster of 0.9.1 has no option for it.
    """

    engine: MergeEngine
    layout: Layout
    hides_kv_snapshots = True

    def create_database(self, name: str, ignore_if_exists: bool = True) -> None:
        super().create_database(name, ignore_if_exists)

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        create_table(self._client, path, spec, self.engine.functions, self.engine.auto_increment)
        table = self.table(path)
        try:
            self._wait_for_leaders(table, LEADER_SECONDS)
        except AssertionError:
            restart_coordinators()  # the coordinator of 0.9.1 at times never hears of a table
            self._wait_for_leaders(table)
        return table

    def _wait_for_leaders(self, table: TableInfo, seconds: float = 180) -> None:
        def has_leaders() -> bool:
            with suppress(ClusterUnavailable):
                return bool(self.offsets(table))
            return False

        wait_for(f"leaders of {table.path}", has_leaders, seconds)

    def table(self, path: TablePath) -> TableInfo:
        table = super().table(path)
        return replace(table, properties={**table.properties, LAYOUT.name: self.layout.value})

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        return {} if self.hides_kv_snapshots else super().kv_snapshots(table)


@dataclass
class MergingTable(TieredTable):
    """See the module."""

    backend: FlussBackend
    engine: MergeEngine

    def _new_path(self) -> TablePath:
        """In a database that stays: the coordinator of 0.9.1 at times never hears of a table that is created just after a drop."""
        return TablePath(DATABASE, self.backend.new_database())

    def _open_cluster(self) -> _Database:
        database = _Database(self.backend.servers, self.folder / "cluster", self.path.database_name, self.backend.writer)
        database.engine, database.layout = self.engine, self.backend.kind.layout
        return database

    def spec(self) -> TableSpec:
        lake = {ENABLED.name: "true", FRESHNESS.name: "12h", FORMAT.name: self.backend.kind.format}
        return TableSpec(SCHEMA, BUCKETS, ("id",), {**lake, **self.engine.properties}, ("id",))

    def lengths(self) -> Mapping[BucketKey, int]:
        return {bucket: bounds.log_end for bucket, bounds in self.cluster.offsets(self.table).items()}

    def close(self) -> None:
        """Leaves the table where it is: see `_new_path`."""
        self.cluster.close()

    def write(self, writes: Sequence[Write]) -> None:
        """Writes in this order. The servers may ignore some of them."""

        async def work(connection: Any) -> None:
            table = await connection.get_table(self._native_path)
            for columns, writes_of_columns in itertools.groupby(writes, key=lambda write: write.columns):
                upsert = table.new_upsert()
                writer = (upsert if columns is None else upsert.partial_update_by_name([*columns])).create_writer()
                handles = [getattr(writer, write.verb)(write.row) for write in writes_of_columns]
                await writer.flush()  # pyfluss refuses writes of other columns until then
                for handle in handles:
                    await handle.wait()

        connected(self.backend.servers, work)

    def rows(self) -> list[Row]:
        """The rows that the tablet servers have now."""
        return primary_key_rows(self.backend.servers, self.table)

    @property
    def _native_path(self) -> Any:
        return fluss.TablePath(self.path.database_name, self.path.table_name)

    def show_kv_snapshots(self) -> None:
        """Returns once each bucket that was written to has a KV snapshot of some of its records. Rounds use them from now on."""
        assert isinstance(self.cluster, _Database)
        self.cluster.hides_kv_snapshots = False
        written = {bucket for bucket, end in self.lengths().items() if end}
        wait_for(f"KV snapshots of {self.path}", lambda: self.cluster.kv_snapshots(self.table).keys() >= written)

    def check(self) -> None:
        """The lake holds the fold of the log up to the marker's offsets, and nothing else."""
        marker = self.marker()
        if marker is None:
            return
        expected: list[Row] = []
        for bucket in self.tiered:
            expected += self._as_of(bucket, marker.buckets[bucket])
        self.assert_lake_holds(expected)

    def _as_of(self, bucket: BucketKey, tiered: TieredRange) -> list[Row]:
        rows: dict[int, tuple[Row, int]] = {}
        for offset, record in enumerate(self.log(bucket, 0, tiered.tiered, CHANGE_TYPE_COLUMN)):
            if record is None:
                continue
            change = ChangeType(record.pop(CHANGE_TYPE_COLUMN))
            if change is ChangeType.DELETE:
                rows.pop(record["id"])
            elif change is not ChangeType.UPDATE_BEFORE:
                rows[record["id"]] = (record, offset if offset >= tiered.start else SNAPSHOT_OFFSET)
        return [placed(bucket, row, offset) for row, offset in rows.values()]

    def prove(self) -> None:
        """After a round to the end the lake has the rows of the tablet servers, and validation finds no difference."""
        self.assert_all_tiered()
        lake = self.backend.by_hand(self.folder).rows(self.path).select(SCHEMA.names)
        assert _sorted(lake.to_pylist()) == _sorted(self.rows())
        results = validate(self.cluster, self.lake, self.path, Level.ROWS)
        assert {result.check for result in results} >= {"rows", "keys", "values"}
        assert not [result for result in results if result.ok is not True], results


def _sorted(rows: Sequence[Row]) -> list[str]:
    return sorted(repr([row[name] for name in SCHEMA.names]) for row in rows)
