"""Rows that Fluss's own tiering wrote, compacted ones too, read from their files in SQL as pypaimon reads them."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from support.clusters.fluss_tables import FlussTables
from support.fluss_paimon.flink_tiering import WHEN_MS, FlinkTiering
from support.lakes.paimon_kit import PaimonKit
from support.running.fluss_deployment import LAKE
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.model.tables import TableInfo
from tiering.validate.duckdb_rows import LakeColumns, live_rows

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("dec", pa.decimal128(10, 2)),
        pa.field("us", pa.timestamp("us")),
        pa.field("ns", pa.timestamp("ns", "UTC")),
    ]
)


@pytest.fixture
def kit(fluss_on_paimon: LocalFlussCluster) -> PaimonKit:
    return PaimonKit(fluss_on_paimon.folder, "warehouse")


def rows_in_duckdb(kit: PaimonKit, table: TableInfo) -> list[tuple[Any, ...]]:
    """Returns the rows of the head, by id."""
    view = kit.view(table)
    columns = kit.lake.columns(view)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")

        def run(sql: str, parameters: Any) -> list[tuple[Any, ...]]:
            return connection.execute(sql, dict(parameters or {})).fetchall()

        connection.register("no_rows", columns.empty_table())
        types = {row[0]: row[1] for row in run("DESCRIBE SELECT * FROM no_rows", {})}
        rows = live_rows(run, kit.lake.file_lists(view, None), LakeColumns(types), table.path)
        picked = ", ".join(f"CAST({rows.expressions[name]} AS {types[name]})" for name in SCHEMA.names)
        return run(f"SELECT {picked} FROM {rows.relation} ORDER BY 1", {})


@pytest.mark.parametrize("compaction", ["false", "true"])
def test_keys_of_many_rounds(kit: PaimonKit, tables: FlussTables, flink: FlinkTiering, compaction: str) -> None:
    properties = {**LAKE, "table.datalake.auto-compaction": compaction}
    table = tables.create(f"merged_{compaction}", SCHEMA, ["id"], properties=properties)
    flink.plan(tables, table)
    offset = 0
    for number in range(7):
        values = [[key, f"{number}-{key}", f"{number}.50", f"{WHEN_MS} 456000", f"{WHEN_MS} 456000"] for key in range(number, number + 4)]
        changes = [*(("INSERT" if number == 0 else "UPDATE_AFTER", row) for row in values), ("DELETE", values[0])]
        flink.write(0, [(offset + place, kind, row) for place, (kind, row) in enumerate(changes)])
        flink.commit(f"/{number}")
        offset += len(changes)
    theirs = kit.read(table).select(SCHEMA.names).sort_by("id")
    rows = rows_in_duckdb(kit, table)
    assert [row[:4] for row in rows] == [tuple(row.values())[:4] for row in theirs.to_pylist()]
    assert [row[0] for row in rows] == [7, 8, 9]
    assert {row[4].isoformat() for row in rows} == {"2026-01-01T00:00:00.000456+00:00"}
    kinds = {snapshot.operation for snapshot in kit.view(table).snapshots.values()}
    assert ("COMPACT" in kinds) == (compaction == "true")
    tables.drop(table)
