"""The rows of a lake table as DuckDB reads them from its files, where pyiceberg's own reader is not to be trusted: it takes a list or a
map of structs that is NULL for an empty one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from support.lakes.lake_kit import LakeKit
from tiering.lake.schema.sql_text import quoted
from tiering.model.tables import TableInfo
from tiering.validate.duckdb_rows import LakeColumns, live_rows


def rows_by_duckdb(kit: LakeKit, table: TableInfo) -> pa.Table:
    """All of the head, in any order, in the columns of the table's lake schema."""
    view = kit.view(table)
    files = kit.lake.file_lists(view, view.head)
    if not files.data:
        return table.lake_schema().empty_table()
    with duckdb.connect() as connection:

        def run(sql: str, parameters: Mapping[str, object]) -> list[tuple[Any, ...]]:
            return connection.execute(sql, parameters).fetchall()

        names = table.lake_schema().names
        live = live_rows(run, files, LakeColumns(dict.fromkeys(names, "INTEGER")), table.path)
        columns = ", ".join(f"{live.expressions[name]} AS {quoted(name)}" for name in names)
        reader: Any = connection.sql(f"SELECT {columns} FROM {live.relation}")
        rows: pa.Table = reader.to_arrow_table()
        return rows
