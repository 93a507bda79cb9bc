"""A primary-key table of any backend, beside a model of dicts that was told the same changes.

Every write is compared with what the model says its changelog must be. After every round the lake must hold exactly the rows of the
table as of the offsets of its marker: each key once, with every value and the offset of its last change, or -1 if it came from a
KV snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from support.behaviours.behaviour_world import Row, TieredTable, placed
from support.behaviours.lacks import Lack
from tiering.cluster.capabilities import KvSnapshotsOnDemand
from tiering.cluster.writable import AppendedRange, TableSpec
from tiering.lake.marker import Marker, TieredRange
from tiering.model.tables import CHANGE_TYPE_COLUMN, SNAPSHOT_OFFSET, BucketKey, ChangeType
from tiering.round.steps.actions import RoundOutcome
from tiering.validate.results import Level
from tiering.validate.run import validate

Key = tuple[object, ...]
REGION, ID = pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)
NAME = pa.field("name", pa.string())


@dataclass(frozen=True)
class Shape:
    """Columns and keys of a table. `needs`: what a backend must not lack."""

    columns: Sequence[pa.Field]
    primary_key: tuple[str, ...]
    partition_keys: tuple[str, ...] = ()
    bucket_keys: tuple[str, ...] = ()
    needs: frozenset[Lack] = frozenset()


SHAPES: Mapping[str, Shape] = {
    "one key": Shape([REGION, ID, NAME], ("id",)),
    "two keys": Shape([NAME, REGION, ID], ("id", "region"), needs=frozenset({Lack.SEVERAL_BUCKET_KEYS})),
    "two keys, one of them of the buckets": Shape([NAME, REGION, ID], ("id", "region"), bucket_keys=("id",)),
    "partitioned": Shape([ID, REGION, NAME], ("region", "id"), ("region",)),
    "keys only": Shape([REGION, ID], ("region", "id"), bucket_keys=("id",)),
}


@dataclass(frozen=True)
class Logged:
    """One record of a changelog."""

    kind: ChangeType
    row: Row


@dataclass
class PrimaryKeyBehaviour(TieredTable):
    """See the module. `history` has the whole changelog of each living bucket, also what was cut from the log since."""

    shape: str
    now: dict[Key, Row] = field(default_factory=dict)
    history: dict[BucketKey, list[Logged | None]] = field(default_factory=dict)
    left: list[Row] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    """Events, counted at every check."""

    def spec(self) -> TableSpec:
        shape = SHAPES[self.shape]
        self.key = shape.primary_key
        properties = {"table.datalake.enabled": "true", **self.backend.table_properties}
        return TableSpec(pa.schema(list(shape.columns)), 2, shape.bucket_keys, properties, self.key, shape.partition_keys)

    def lengths(self) -> Mapping[BucketKey, int]:
        return {bucket: len(log) for bucket, log in self.history.items()}

    def upsert(self, rows: Sequence[Row]) -> None:
        """Whole rows; columns of later that they lack become NULL. Of a key that comes twice the last row counts."""
        schema, writer = self.table.schema, self.writer()
        whole = [{name: row.get(name) for name in schema.names} for row in rows]
        batch = pa.Table.from_pylist(whole, schema=schema)
        wanted = {self._key(row): row for row in whole}
        expected = {key: self._upserted(key, row) for key, row in wanted.items()}
        self._took(self.cluster.upsert(self.path, batch, writer, 0), expected)
        self.now |= wanted

    def delete(self, rows: Sequence[Row]) -> None:
        """Deletes the keys of these rows, whether they exist or not."""
        keys = [{name: row[name] for name in self.key} for row in rows]
        batch = pa.Table.from_pylist(keys, schema=pa.schema([self.table.schema.field(name) for name in self.key]))
        present = {key for key in map(self._key, keys) if key in self.now}
        expected = {key: [Logged(ChangeType.DELETE, self._as_it_is(key))] for key in present}
        self._took(self.cluster.delete(self.path, batch, self.writer(), 0), expected)
        for key in present:
            del self.now[key]

    def _key(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    def _as_it_is(self, key: Key) -> Row:
        """With a NULL in columns that came since."""
        return {name: self.now[key].get(name) for name in self.table.schema.names}

    def _upserted(self, key: Key, row: Row) -> list[Logged]:
        if key not in self.now:
            return [Logged(ChangeType.INSERT, row)]
        return [Logged(ChangeType.UPDATE_BEFORE, self._as_it_is(key)), Logged(ChangeType.UPDATE_AFTER, row)]

    def _took(self, ranges: Sequence[AppendedRange], expected: dict[Key, list[Logged]]) -> None:
        """A write left `expected` in the log, the records of a key next to each other, and nothing else."""
        for appended_range in ranges:
            records = self.log(appended_range.bucket, appended_range.starting_offset, appended_range.stopping_offset, CHANGE_TYPE_COLUMN)
            with_gaps = [None if row is None else Logged(ChangeType(row.pop(CHANGE_TYPE_COLUMN)), row) for row in records]
            log = self.history.setdefault(appended_range.bucket, [])
            assert len(log) == appended_range.starting_offset
            log.extend(with_gaps)
            logged = [record for record in with_gaps if record is not None]
            while logged:
                mine = expected.pop(self._key(logged[0].row))
                assert logged[: len(mine)] == mine
                del logged[: len(mine)]
        assert not expected

    def snapshot(self) -> None:
        assert isinstance(self.cluster, KvSnapshotsOnDemand)
        self.cluster.take_kv_snapshots(self.path)

    def age(self) -> None:
        """The cluster keeps house: what is old, tiered and not needed any more goes from the log."""
        self.cluster.maintenance.run()  # type: ignore[attr-defined]

    def drop_partition(self, region: str) -> None:
        """Drops a partition. Its rows in the lake stay; other rows are lost."""
        marker, tiered = self.marker(), self.drop(region)
        living = self.cluster.offsets(self.table)
        for bucket in [bucket_key for bucket_key in self.history if bucket_key not in living]:
            log = self.history.pop(bucket)
            if bucket in tiered:
                assert marker is not None
                self.left += self._as_of(log, marker.buckets[bucket], bucket)
        self.now = {key: row for key, row in self.now.items() if row["region"] != region}

    def check(self) -> None:
        """The lake holds the table as of the marker's offsets, and nothing else."""
        marker = self.marker()
        if marker is not None:
            for bucket, stop in self.tiered.items():
                last = self.history[bucket][stop - 1] if stop else None
                assert last is None or last.kind is not ChangeType.UPDATE_BEFORE
            mine = self._mine(marker)
            self.assert_lake_holds(mine + self.left)
            self._note(marker, len(mine))

    def _note(self, marker: Marker, rows: int) -> None:
        ends = self.cluster.offsets(self.table)
        self.events["compared rows"] += rows
        self.events["from a KV snapshot"] += any(entry.start > 0 for entry in marker.buckets.values())
        self.events["partly tiered"] += any(0 < stop < len(self.history.get(bucket, [])) for bucket, stop in self.tiered.items())
        self.events["log cut"] += any(bucket.log_start > 0 for bucket in ends.values())

    def run_round(self, **how: Any) -> RoundOutcome:
        outcome = super().run_round(**how)
        self.events["rows deleted"] += outcome.stats.deletes_written
        return outcome

    def _mine(self, marker: Marker) -> list[Row]:
        return [row for bucket in self.tiered for row in self._as_of(self.history.get(bucket, []), marker.buckets[bucket], bucket)]

    def _as_of(self, log: Sequence[Logged | None], entry: TieredRange, bucket: BucketKey) -> list[Row]:
        rows: dict[Key, tuple[Row, int]] = {}
        for offset, record in enumerate(log[: entry.tiered]):
            if record is None:
                continue
            if record.kind in (ChangeType.INSERT, ChangeType.UPDATE_AFTER):
                rows[self._key(record.row)] = (record.row, offset if offset >= entry.start else SNAPSHOT_OFFSET)
            elif record.kind is ChangeType.DELETE:
                del rows[self._key(record.row)]
        return [placed(bucket, row, offset) for row, offset in rows.values()]

    def prove(self) -> Marker | None:
        """After a round to the end: the lake is the table as it is now, and DuckDB, which reads files and log itself, says so too."""
        self.assert_all_tiered()
        marker = self.marker()
        if marker is not None:
            assert {self._key(row) for row in self._mine(marker)} == set(self.now)
            results = validate(self.cluster, self.lake, self.path, Level.ROWS)
            assert not [result for result in results if result.ok is False], results
        return marker
