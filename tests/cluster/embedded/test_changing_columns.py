"""Random stories of tables whose columns change between writes, against a model: every reader sees the rows with its own columns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.embedded import PATH, ManualClock, make_table, scan, split_of
from support.depth import examples
from support.schema.changing_columns import Columns, Field, random_field
from tiering.cluster.embedded.kv.state import KvState, remove_state, state_file
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import AppendedRange
from tiering.errors import SourceChanged
from tiering.model.schema.changes import ChangeComment
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import BucketKey, BucketOffsets, ChangeType, TableInfo

STEPS = 40
KEYS = ["id", "region"]
Row = dict[int, Any]


@dataclass
class Write:
    """A write that a client may send again."""

    kind: str
    rows: pa.Table
    sequence: int
    ranges: Sequence[AppendedRange]


@dataclass
class Look:
    """A reader that looked the table up before later changes."""

    info: TableInfo
    columns: Columns
    ends: dict[BucketKey, BucketOffsets]
    rows: dict[int, Row]


class Story:
    """One partitioned table in two buckets, with a random history."""

    def __init__(self, root: Path, seed: int, is_keyed: bool) -> None:
        self.chance = random.Random(seed)
        self.root, self.clock, self.is_keyed = root, ManualClock(), is_keyed
        keys = [Field("id", "int64", nullable=False), Field("region", "string", nullable=False)]
        strict = Field("strict", "int8", nullable=False)
        self.columns = Columns([*keys, strict, *(random_field(self.chance) for _ in range(3))], fixed={*KEYS})
        self.id, self.region = (key.identity for key in keys)
        self.storage = EmbeddedStorage(root, self.clock)
        self.table = make_table(
            self.storage,
            bucket_count=2,
            bucket_keys=("id",),
            partition_keys=("region",),
            primary_key=tuple(KEYS) if is_keyed else (),
            schema=self.columns.schema,
            properties={"table.log.ttl": "1 min", "table.kv.snapshot.interval": "365 d"},
        )
        self.rows: dict[int, Row] = {}
        """The present rows by id; an id is always in the same region."""
        self.writes: list[Write] = []
        self.looks: list[Look] = []
        self.next_id = 0

    def step(self) -> None:
        steps = {self.change: 4, self.write: 4, self.repeat: 2, self.look: 1, self.restart: 1, self.check_looks: 1}
        if self.is_keyed:
            steps |= {self.delete: 2, self.snapshot: 2, self.lose_state: 1, self.cut_the_log: 1}
        self.chance.choices(list(steps), list(steps.values()))[0]()

    def change(self) -> None:
        changes = [self.columns.change(self.chance) for _ in range(self.chance.choice([1, 1, 2]))]
        before = self.table
        self.table = self.storage.alter_table(PATH, {}, changes, f"change {len(self.writes)} {self.chance.random()}")
        assert self.table.schema == self.columns.schema
        is_changed = not self.table.schema.equals(before.schema, check_metadata=True)
        assert self.table.schema_id == before.schema_id + is_changed
        assert is_changed or all(isinstance(change, ChangeComment) or before.schema == self.table.schema for change in changes)
        assert set(self.table.added_columns) == {
            column.name for column in self.columns.fields if column.identity not in self.columns.created
        }

    def write(self) -> None:
        rows: list[Row] = []
        for _ in range(self.chance.randrange(1, 4)):
            rows.append({column.identity: column.value(self.chance) for column in self.columns.fields})
            rows[-1][self.id] = (
                self.chance.choice([*self.rows]) if self.is_keyed and self.rows and self.chance.random() < 0.5 else self.next_id
            )
            rows[-1][self.region] = f"r{rows[-1][self.id] % 3}"
            self.next_id += rows[-1][self.id] == self.next_id
        named = [name for name in self.columns.schema.names if name not in self.table.added_columns or self.chance.random() < 0.6]
        for column in self.columns.fields:
            if column.name not in named:
                for row in rows:
                    row[column.identity] = None
        shown = pa.Table.from_pylist([self.columns.shown(row) for row in rows], schema=self.columns.schema).select(named)
        self._send("upsert" if self.is_keyed else "append", shown)
        self.rows |= {row[self.id]: row for row in rows}

    def delete(self) -> None:
        ids = [number for number in range(self.next_id) if self.chance.random() < 0.3]
        keys = pa.table({"id": pa.array(ids, pa.int64()), "region": pa.array([f"r{number % 3}" for number in ids], pa.string())})
        self._send("delete", keys)
        self.rows = {number: row for number, row in self.rows.items() if number not in ids}

    def _send(self, kind: str, rows: pa.Table) -> None:
        ranges = getattr(self.storage, kind)(PATH, rows, "writer", len(self.writes))
        self.writes.append(Write(kind, rows, len(self.writes), ranges))

    def repeat(self) -> None:
        """A write is sent again, after any number of changes, as its client built it."""
        if self.writes:
            write = self.chance.choice(self.writes)
            assert list(getattr(self.storage, write.kind)(PATH, write.rows, "writer", write.sequence)) == list(write.ranges)

    def look(self) -> None:
        self.looks.append(Look(self.table, self.columns.copy(), dict(self.storage.offsets(self.table)), dict(self.rows)))

    def check_looks(self) -> None:
        """A reader with former columns reads what was there, with these columns; later records ask it to look again."""
        for look in self.looks:
            now = self.storage.offsets(self.table)
            if all(now[bucket].log_start == 0 for bucket in look.ends):
                logs = {bucket: scan(self.storage, look.info, bucket, 0, ends.log_end) for bucket, ends in look.ends.items()}
                assert self._replayed(logs) == {number: look.columns.shown(row) for number, row in look.rows.items()}
            for bucket, ends in now.items():
                segments = self.storage.log_index.segments(look.info.table_id, bucket, ends.log_start, ends.log_end)
                if any(segment.schema_id > look.info.schema_id for segment in segments):
                    with pytest.raises(SourceChanged, match="were changed since"):
                        self.storage.reader(look.info, split_of(look.info, bucket, ends.log_start, ends.log_end))

    def restart(self) -> None:
        self.storage.close()
        self.storage = EmbeddedStorage(self.root, self.clock)
        assert self.storage.table(PATH) == self.table
        assert self.storage.table(PATH).schema.equals(self.table.schema, check_metadata=True)

    def lose_state(self) -> None:
        self.storage.close()
        remove_state(state_file(self.root, self.table.table_id))
        self.storage = EmbeddedStorage(self.root, self.clock)

    def snapshot(self) -> None:
        self.storage.take_kv_snapshots(PATH)

    def cut_the_log(self) -> None:
        self.clock.advance(120)
        self.storage.maintenance.run()

    def check(self) -> None:
        expected = {number: self.columns.shown(row) for number, row in self.rows.items()}
        bounds = self.storage.offsets(self.table)
        if all(ends.log_start == 0 for ends in bounds.values()):
            logs = {bucket: scan(self.storage, self.table, bucket, 0, ends.log_end) for bucket, ends in bounds.items()}
            assert self._replayed(logs) == expected
            self._check_projections(logs)
        if self.is_keyed:
            assert self._state() == expected
            assert self._snapshots_with_log(bounds) == expected

    def _check_projections(self, logs: dict[BucketKey, pa.Table]) -> None:
        names = self.chance.sample(self.table.schema.names, self.chance.randrange(len(self.table.schema.names) + 1))
        for bucket, rows in logs.items():
            reader = self.storage.reader(self.table, split_of(self.table, bucket, 0, rows.num_rows))
            projected = list(reader.read_columns([*names, "__offset"]))
            assert [row for batch in projected for row in batch.to_pylist()] == rows.select([*names, "__offset"]).to_pylist()

    def _replayed(self, logs: dict[BucketKey, pa.Table], base: dict[int, Any] | None = None) -> dict[int, Any]:
        """The present rows after the logs. Each image before a change is the row that was there."""
        rows: dict[int, Any] = dict(base or {})
        for log in logs.values():
            for record in log.to_pylist():
                kind = ChangeType(record.pop("__change_type", ChangeType.APPEND))
                row = {name: value for name, value in record.items() if not name.startswith("__")}
                if kind in (ChangeType.UPDATE_BEFORE, ChangeType.DELETE):
                    assert rows.pop(row["id"]) == row
                else:
                    assert row["id"] not in rows
                    rows[row["id"]] = row
        return rows

    def _snapshots_with_log(self, bounds: Any) -> dict[int, Any]:
        rows: dict[int, Any] = {}
        for bucket, ends in bounds.items():
            kept = self.storage.primary_key_tables._snapshots(self.table.table_id, bucket)
            starts = [(self._snapshot(bucket, stored.snapshot_id, stored.log_offset), stored.log_offset) for stored in kept]
            starts += [({}, 0)] if ends.log_start == 0 else []
            results = [self._replayed({bucket: scan(self.storage, self.table, bucket, at, ends.log_end)}, base) for base, at in starts]
            assert all(result == results[0] for result in results)
            rows |= results[0]
        return rows

    def _snapshot(self, bucket: BucketKey, snapshot_id: int, log_offset: int) -> dict[int, Any]:
        split = TieringSnapshotSplit(PATH, bucket, None, snapshot_id, log_offset, log_offset)
        read = [row for batch in self.storage.reader(self.table, split).read() for row in batch.to_pylist()]
        return {row["id"]: {name: value for name, value in row.items() if not name.startswith("__")} for row in read}

    def _state(self) -> dict[int, Any]:
        rows: dict[int, Any] = {}

        def read(kv: KvState) -> None:
            for bucket in self.storage.offsets(self.table):
                rows.update({row["id"]: row for batch in kv.rows(bucket) for row in batch.to_pylist()})

        with self.storage.primary_key_tables.exclusive(self.table.table_id):
            self.storage.primary_key_tables._using(self.table, read)
        return rows


@pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "primary key"])
@pytest.mark.parametrize("seed", range(examples(3)))
def test_rows_of_all_versions_of_the_columns_are_read_with_the_present_ones(tmp_path: Path, seed: int, is_keyed: bool) -> None:
    story = Story(tmp_path, seed, is_keyed)
    try:
        for _ in range(STEPS):
            story.step()
            story.check()
    finally:
        story.storage.close()
