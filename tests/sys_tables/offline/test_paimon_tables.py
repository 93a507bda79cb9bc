"""Queries on DuckDB over Paimon copies: rows of a log, and rows of a merge tree as Paimon's own reader merges them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.worlds.paimon_world import PaimonWorld
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.lake.layouts import Layout
from tiering.model.schema.changes import additions
from tiering.model.tables import TableInfo


class Opened:
    """A folder, its coordinator alive beside the engine."""

    def __init__(self, root: Path) -> None:
        self.world = PaimonWorld(root)
        self.engine = DuckDbEngine(root, "iceberg", {})

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.engine.execute(sql).rows]

    def equal_pypaimon(self, table: TableInfo) -> None:
        """Whether the rows in DuckDB are those that pypaimon reads."""
        columns = ", ".join(table.schema.names)
        theirs = self.world.kit.read(table).select(list(table.schema.names)).to_pylist()
        assert sorted(map(repr, self.rows(f"SELECT {columns} FROM fluss.{table.path}"))) == sorted(
            repr(tuple(row.values())) for row in theirs
        )

    def close(self) -> None:
        self.engine.close()
        self.world.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    here = Opened(tmp_path)
    yield here
    here.close()


@pytest.mark.parametrize("layout", Layout)
def test_a_log_table_is_read_with_columns_that_were_added_and_its_size_is_known(opened: Opened, layout: Layout) -> None:
    world = opened.world
    table = world.log_table("orders", datalake_layout=layout)
    world.append(table, 0, 100)
    world.tier(table)
    assert opened.rows("SELECT count(*), sum(id) FROM fluss.sales.orders") == [(100, 4_950)]
    wider = world.storage.alter_table(table.path, {}, additions([pa.field("price", pa.decimal128(9, 2))]))
    rows = pa.table({"id": [900], "text": ["late"], "price": pa.array([None], pa.decimal128(9, 2))}, schema=wider.schema)
    LogWriter(world.storage, table.path, "late").append(rows)
    world.tier(table)
    opened.equal_pypaimon(wider)
    assert opened.rows("SELECT * FROM fluss.sales.orders WHERE id = 900") == [(900, "late", None)]
    files = world.data_files(table)
    size = sum(file.stat().st_size for file in files)
    status = "SELECT lake_snapshot_id, lake_files, lake_bytes, lake_records FROM sys.lake_tiering_status"
    assert opened.rows(status) == [(2, len(files), size, 101)]
    assert opened.rows("SELECT lake_format, lake_location FROM sys.tables") == [("paimon", str(world.kit.folder(table)))]


@pytest.mark.parametrize("layout", Layout)
def test_a_primary_key_table_is_read_merged(opened: Opened, layout: Layout) -> None:
    world = opened.world
    keys_only = pa.schema([pa.field("day", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])
    columns = keys_only.append(pa.field("n", pa.int32()))
    table = world.create("visits", TableSpec(columns, 3, primary_key=("day", "id"), partition_keys=("day",)), datalake_layout=layout)
    for number in range(4):
        keys = [(day, key) for day in ("mon", "tue") for key in range(number * 3, number * 3 + 9)]
        rows = {"day": [day for day, _ in keys], "id": [key for _, key in keys], "n": [number] * len(keys)}
        world.storage.upsert(table.path, pa.table(rows, schema=columns), "w", 2 * number)
        gone = {"day": ["mon", "tue"], "id": [number * 3 + 1] * 2}
        world.storage.delete(table.path, pa.table(gone, schema=keys_only), "w", 2 * number + 1)
        world.tier(table)
        opened.equal_pypaimon(table)
    assert opened.rows("SELECT n, count(*) FROM fluss.sales.visits GROUP BY n ORDER BY n") == [(0, 4), (1, 4), (2, 4), (3, 16)]
    assert opened.rows("SELECT n FROM fluss.sales.visits WHERE day = 'mon' AND id = 8") == [(2,)]
    [(files, size)] = opened.rows("SELECT lake_files, lake_bytes FROM sys.lake_tiering_status")
    assert (files, size) == (len(world.data_files(table)), sum(file.stat().st_size for file in world.data_files(table)))
