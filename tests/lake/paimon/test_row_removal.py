"""Rows that go from a Paimon table in a commit of ours: doubled ones, those behind a gap, whole buckets of a primary-key table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from support.lakes.paimon_kit import B0, CLUSTER_ID, COLUMNS, CREATED, KeyedRounds, PaimonKit
from tiering.errors import BaseMoved
from tiering.lake.base import Committable, LakeView, WriteResult
from tiering.lake.maintenance import Removal
from tiering.lake.marker import Marker, TieredRange
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TablePath, TableType

B1 = BucketKey(None, 1)
PLACES = {B0: (None, 0), B1: (None, 1)}


def commit(
    kit: PaimonKit, table: TableInfo, base: LakeView, results: Sequence[WriteResult], ends: dict[BucketKey, int], round_id: str = "mend"
) -> None:
    """Commits as `reconcile_lake` does."""
    ranges = {bucket: TieredRange(0, end) for bucket, end in ends.items()}
    marker = Marker(CLUSTER_ID, table.table_id, base.table_uuid, round_id, 2, None if base.marker is None else base.marker.round_id, ranges)
    before = {bucket: tiered.tiered for bucket, tiered in base.ranges.items()}
    moved = [
        replace(result, starting_offset=before.get(result.bucket, 0), reached_offset=ends[result.bucket])
        for result in results
        if result.bucket in ends
    ]
    left = [result for result in results if result.bucket not in ends]
    kit.lake.tiering_factory(table).create_committer().commit(Committable(round_id, (*moved, *left)), base, marker)


def by_another(kit: PaimonKit, table: TableInfo, rows: list[dict[str, Any]]) -> None:
    """All rows in one file, as a compaction leaves them."""
    lake = kit.by_pypaimon(table)
    builder = lake.new_batch_write_builder()
    writer = builder.new_write()
    schema = pa.schema([field.with_nullable(True) for field in table.lake_schema()])
    schema = schema.set(schema.get_field_index("__timestamp"), pa.field("__timestamp", pa.timestamp("ms", "UTC")))
    writer.write_arrow(pa.Table.from_pylist(rows, schema=schema))
    builder.new_commit().commit(writer.prepare_commit())


def offsets(kit: PaimonKit, table: TableInfo) -> list[tuple[int, int]]:
    rows = kit.read(table)
    return sorted(zip(rows["__bucket"].to_pylist(), rows["__offset"].to_pylist(), strict=True))


def test_of_doubled_rows_one_stays_and_those_behind_a_gap_go_also_from_files_that_lack_a_column(kit: PaimonKit) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", range(6))
    wider = replace(table, schema=COLUMNS.append(pa.field("note", pa.string())), added_columns=("note",))
    kit.lake.ensure_table(wider)
    foreign = [(0, offset) for offset in range(3, 8)] + [(1, 0), (1, 0), (1, 2)]
    by_another(
        kit,
        wider,
        [
            {"id": 10 * bucket + offset, "name": "x", "note": "n", "__bucket": bucket, "__offset": offset, "__timestamp": CREATED}
            for bucket, offset in foreign
        ],
    )
    base = kit.view(wider)
    results = kit.lake.remove_rows(wider, base, "mend", Removal(PLACES, {B1: 1}))
    assert {result.bucket: result.deletes for result in results} == {B0: 3, B1: 2}
    assert offsets(kit, wider) == sorted([*((0, offset) for offset in range(6)), *foreign])  # nothing is visible before the commit
    commit(kit, wider, base, results, {B0: 8, B1: 1})
    assert offsets(kit, wider) == [*((0, offset) for offset in range(8)), (1, 0)]
    view = kit.view(wider)
    assert (view.records, view.snapshots[view.head or 0].operation) == (9, "OVERWRITE")
    notes = {row["__offset"]: row["note"] for row in kit.read(wider).to_pylist() if row["__bucket"] == 0}
    assert notes == {**dict.fromkeys(range(6)), 6: "n", 7: "n"}
    assert kit.lake.remove_rows(wider, kit.view(wider), "again", Removal(PLACES)) == []


def test_files_that_are_gone_meanwhile_are_no_commit(kit: PaimonKit) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", range(6))
    base = kit.view(table)
    results = kit.lake.remove_rows(table, base, "mend", Removal({B0: (None, 0)}, {B0: 4}))
    other = kit.lake.remove_rows(table, base, "other", Removal({B0: (None, 0)}, {B0: 5}))
    commit(kit, table, base, other, {B0: 5}, "other")
    with pytest.raises(BaseMoved, match="do not exist any more"):
        commit(kit, table, kit.view(table), results, {B0: 5})
    assert offsets(kit, table) == [(0, offset) for offset in range(5)]


def test_a_bucket_of_a_primary_key_table_is_emptied(kit: PaimonKit) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    table = TableInfo(8, TablePath("sales", "customers"), TableType.PRIMARY_KEY, columns, 1, CREATED, primary_key=("id",))
    rounds = KeyedRounds(kit, table)
    for number in range(2):
        rounds.tier(f"r{number}", [(ChangeType.INSERT, {"id": key, "name": "x"}) for key in range(number, number + 3)])
    base = kit.view(table)
    results = kit.lake.remove_rows(table, base, "mend", Removal({B0: (None, 0)}, emptied=frozenset({B0})))
    assert [(result.bucket, result.deletes) for result in results] == [(B0, 6)]
    commit(kit, table, base, results, {})
    assert kit.read(table).num_rows == 0
    assert kit.view(table).ranges == {}
