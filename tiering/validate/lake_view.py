"""The rows of a lake table as a DuckDB view, each with the place where it belongs in the source (`tiering.lake.duckdb_rows`)."""

from __future__ import annotations

from collections.abc import Mapping

from tiering.lake.duckdb_rows import LakeColumns, RunQuery, live_rows, quoted, text_literal
from tiering.lake.file_lists import FileLists
from tiering.lake.layouts import Layout
from tiering.model.tables import TableInfo

__all__ = ["FILE_COLUMN", "PLACE_COLUMN", "ROW_COLUMN", "make_lake_view", "place_of", "quoted", "text_literal"]

PARTITION_SEPARATOR = "$"
PLACE_COLUMN = "__place"
"""The name of a row's partition as the cluster joins it, "" without partitions. No column of a table begins with `__`."""
FILE_COLUMN, ROW_COLUMN = "__file", "__row"
"""Path of a row's file, and the row's number in it, from 0."""


def make_lake_view(
    run: RunQuery, table: TableInfo, files: FileLists, declared: Mapping[str, str], name: str, layout: Layout = Layout.SYSTEM_COLUMNS
) -> Mapping[str, str]:
    """Makes the view `name` of the lake's columns and PLACE_COLUMN; the types that its files have.

    Of a clean table it has the columns FILE and ROW as well: where the row stands. `declared`: the type of a column that no file has
    yet. At least one data file. Raises duckdb.Error, InvalidArgument (equality deletes by a column that the table does not have).
    """
    rows = live_rows(run, files, LakeColumns({column: declared[column] for column in layout.lake_schema(table).names}), table.path)
    where = "" if layout.has_row_offsets else f", d.filename AS {FILE_COLUMN}, d.file_row_number AS {ROW_COLUMN}"
    picked = ", ".join(f"{expression} AS {quoted(column)}" for column, expression in rows.expressions.items())
    places = f"{place_of(table, rows.expressions)} AS {PLACE_COLUMN}{where}"
    run(f"CREATE TEMP VIEW {name} AS SELECT {picked}, {places} FROM {rows.relation}", {})
    return rows.types


def place_of(table: TableInfo, expressions: Mapping[str, str]) -> str:
    """SQL: the partition's name, as the cluster joins it."""
    keys = [f"CAST({expressions[key]} AS VARCHAR)" for key in table.partition_keys]
    return f"concat_ws('{PARTITION_SEPARATOR}', {', '.join(keys)})" if keys else "''"
