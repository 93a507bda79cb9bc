"""Rounds over tables of any columns and values, through the real writer and commit, read back by pyiceberg and by DuckDB.

Batches lie at odd addresses and are parts of larger ones. `LAKEWARD_FUZZ_EXAMPLES` looks at more of them than the suite does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.clusters.primary_key_table import PrimaryKeyTable, primary_key_info
from support.depth import examples
from support.lakes.lake_kit import LakeKit
from support.lakes.lake_rows import rows_by_duckdb
from support.values.fuzzed_values import KEYS, Kind, kinds, nullable
from support.values.plain_rows import plain_rows
from support.values.unaligned import unaligned
from tiering.lake.base import Committable, WriterInitContext
from tiering.lake.marker import TieredRange
from tiering.library_guards.bucket_hash import bucket_ids_of
from tiering.model.tables import BucketKey, TableInfo

EXAMPLES = examples(5)
BUCKETS = 3
ROUNDS = 3
SYSTEM = ("__bucket", "__offset", "__timestamp")

fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES < 100,
    phases=[Phase.generate],  # an example takes a second: what fails is not made smaller
    suppress_health_check=list(HealthCheck),
)


def by_pyiceberg(kit: LakeKit, table: TableInfo) -> list[str]:
    rows = kit.catalog().load_table(str(table.path)).scan().to_arrow()
    return as_lines(rows.select(table.lake_schema().names), empty_for_null=True)


def as_lines(rows: pa.Table | pa.RecordBatch, *, empty_for_null: bool = False) -> list[str]:
    return sorted(repr(row) for row in plain_rows(rows, empty_for_null=empty_for_null))


def check(kit: LakeKit, table: TableInfo, expected: pa.Table) -> None:
    assert as_lines(rows_by_duckdb(kit, table)) == as_lines(expected)
    assert by_pyiceberg(kit, table) == as_lines(expected, empty_for_null=True)


def drawn_schema(data: st.DataObject, keys: list[Kind]) -> tuple[pa.Schema, list[Kind]]:
    """Key columns k0, k1, ... that are NOT NULL, and up to four more."""
    others = data.draw(st.lists(kinds(), max_size=4), label="columns")
    fields = [pa.field(f"k{number}", kind.type, nullable=False) for number, kind in enumerate(keys)]
    return pa.schema([*fields, *(pa.field(f"c{number}", kind.type) for number, kind in enumerate(others))]), others


@fuzzed
@given(data=st.data())
def test_the_lake_of_a_log_table_holds_every_row_as_it_was(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(KEYS), label="bucket key")
    schema, others = drawn_schema(data, [key])
    with TemporaryDirectory() as folder:
        kit = LakeKit(Path(folder))
        table = kit.table(schema=schema, bucket_keys=("k0",), bucket_count=BUCKETS)
        logs: dict[int, int] = dict.fromkeys(range(BUCKETS), 0)
        written: list[pa.RecordBatch] = []
        for number in range(data.draw(st.integers(1, ROUNDS), label="rounds")):
            count = data.draw(st.integers(1, 12), label="rows")
            columns = [pa.array(data.draw(st.lists(key.values, min_size=count, max_size=count)), key.type)]
            columns += [pa.array(data.draw(st.lists(nullable(field), min_size=count, max_size=count)), field.type) for field in others]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            parts = {bucket: batch.filter(pa.array(bucket_ids_of(columns[0], BUCKETS) == bucket)) for bucket in range(BUCKETS)}
            ready = {bucket: with_system_columns(table, part, bucket, logs[bucket]) for bucket, part in parts.items()}
            written += ready.values()
            tier_log(kit, table, f"round-{number}", ready, logs, data)
            check(kit, table, pa.Table.from_batches(written))


def with_system_columns(table: TableInfo, part: pa.RecordBatch, bucket: int, first: int) -> pa.RecordBatch:
    offsets = np.arange(first, first + part.num_rows)
    system = [
        pa.array(np.full(part.num_rows, bucket, np.int32)),
        pa.array(offsets),
        pa.array(offsets * 1_000_000, pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays([*part.columns, *system], schema=table.lake_schema())


def tier_log(
    kit: LakeKit, table: TableInfo, round_id: str, parts: Mapping[int, pa.RecordBatch], logs: dict[int, int], data: st.DataObject
) -> None:
    """One round; `logs` has the ends before it, and then those after it."""
    prepared = kit.prepare(table, round_id, {})
    results = []
    for bucket, part in parts.items():
        writer = prepared.factory.create_writer(
            WriterInitContext(table, prepared.base.table_uuid, BucketKey(None, bucket), None, round_id, f"n{bucket}")
        )
        moved = unaligned(part, data.draw(st.integers(0, 16), label="shift"))
        cut = data.draw(st.integers(0, part.num_rows), label="cut")
        writer.write(moved.slice(0, cut))
        writer.write(moved.slice(cut))
        results.append(writer.complete(logs[bucket], logs[bucket] + part.num_rows))
        logs[bucket] += part.num_rows
    buckets = {BucketKey(None, bucket): TieredRange(0, end) for bucket, end in logs.items()}
    committer = prepared.committer()
    committer.commit(Committable(round_id, tuple(results)), prepared.base, replace(prepared.marker, buckets=buckets))


class FuzzedTable(PrimaryKeyTable):
    """A primary-key table of one bucket, whose batches lie `shift` bytes off."""

    shift = 0

    def batch(self, key: BucketKey, start: int, stop: int) -> pa.RecordBatch:
        return unaligned(super().batch(key, start, stop), self.shift)

    def expected_rows(self) -> pa.Table:
        """Returns the rows at the log's end: the last change of each key."""
        living: dict[tuple[Any, ...], pa.RecordBatch] = {}
        for bucket, log in self.logs.items():
            for offset, change in enumerate(log):
                living.pop(self._key(change.row), None)
                if change.kind.name in ("INSERT", "UPDATE_AFTER"):
                    living[self._key(change.row)] = super().batch(bucket, offset, offset + 1)
        names = self.info.lake_schema().names
        return pa.Table.from_batches([row.select(names) for row in living.values()], schema=self.info.lake_schema())


@fuzzed
@given(data=st.data())
def test_the_lake_of_a_primary_key_table_holds_the_last_row_of_every_key(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3), label="key")
    schema, others = drawn_schema(data, keys)
    names = tuple(f"k{number}" for number in range(len(keys)))
    pool = data.draw(st.lists(st.tuples(*(key.values for key in keys)), min_size=1, max_size=8, unique=True), label="keys")
    with TemporaryDirectory() as folder:
        info = primary_key_info("fuzzed", schema, names, bucket_count=1)
        table = FuzzedTable(LakeKit(Path(folder)), info, lambda _: (BucketKey(None, 0), None), batch_rows=3)
        for number in range(data.draw(st.integers(1, ROUNDS), label="rounds")):
            for key in data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=10), label="changes"):
                row = dict(zip(names, key, strict=True))
                if data.draw(st.booleans(), label="put"):
                    table.put(row | {f"c{place}": data.draw(nullable(kind)) for place, kind in enumerate(others)})
                else:
                    table.delete(row)
            if not table.logs:
                continue
            table.shift = data.draw(st.integers(0, 16), label="shift")
            table.tier(f"round-{number}")
            check(table.kit, info, table.expected_rows())
