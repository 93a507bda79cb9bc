"""Clean Paimon tables after Paimon's own compaction: what proves them then, what is still found, and rounds that go on."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.fluss_paimon.compaction import compact
from support.worlds.paimon_world import PaimonWorld
from support.worlds.validated import check, faults, replace_column
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.errors import SchemaDrift
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.validate.results import Level

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])


def tier(world: PaimonWorld, table: TableInfo, start: int) -> None:
    rows = pa.table({"id": range(start, start + 60), "n": range(60)}, schema=COLUMNS)
    if table.primary_key:
        world.storage.upsert(table.path, rows, "w", start)
    else:
        LogWriter(world.storage, table.path, f"w{start}").append(rows)
    assert world.tier(table).state is RoundState.SUCCEEDED


@pytest.mark.parametrize("bucket_keys", [(), ("id",)], ids=["no bucket key", "a bucket key"])
def test_a_compacted_log_table_is_proved_by_totals_and_goes_on(world: PaimonWorld, bucket_keys: tuple[str, ...]) -> None:
    table = world.create("orders", TableSpec(COLUMNS, 2, bucket_keys), datalake_layout="clean")
    for start in (0, 60, 120):
        tier(world, table, start)
    compact(world.kit.warehouse, table.path)
    view = world.kit.view(table)
    assert view.snapshots[view.head or 0].operation == "COMPACT"
    results = check(world, table)
    assert not faults(results)
    scopes = {"0", "1"} if bucket_keys else {"table"}
    assert {(result.scope, result.details) for result in results if result.check == "values"} == {
        (scope, "by the ledger of rounds and by the log") for scope in scopes
    }
    assert not world.kit.lake.column_changes(table, view)
    with pytest.raises(SchemaDrift, match="the rows of the file have no offsets"):
        world.kit.lake.row_offsets(table, view, {})
    tier(world, table, 180)
    assert not faults(check(world, table))
    assert sorted(world.kit.read(table)["id"].to_pylist()) == list(range(240))
    compacted = next(file for file in world.data_files(table) if file.name.startswith("data-"))
    kept = compacted.read_bytes()
    values = pq.read_table(compacted, partitioning=None)["n"].to_pylist()
    replace_column(compacted, "n", [-1, *values[1:]])
    assert {name for name, _, _ in faults(check(world, table))} == {"values"}
    compacted.write_bytes(kept)
    assert not faults(check(world, table))


def test_a_compacted_primary_key_table_is_proved_by_its_rows_and_goes_on(world: PaimonWorld) -> None:
    table = world.create("planes", TableSpec(COLUMNS, 2, primary_key=("id",)), datalake_layout="clean")
    for start in (0, 30, 60):
        tier(world, table, start)
    compact(world.kit.warehouse, table.path)
    results = check(world, table)
    assert not faults(results)
    assert "cover" not in {result.check for result in results}
    assert {result.scope for result in results if result.check == "values"} == {"0", "1"}
    tier(world, table, 90)
    assert not faults(check(world, table))
    rows = world.kit.read(table)
    assert dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))[149] == 59
    assert rows.num_rows == 150
    some, other = (file for file in world.data_files(table) if file.name.startswith("data-"))
    shutil.copy(some, other)
    assert faults(check(world, table, Level.COUNTS))
