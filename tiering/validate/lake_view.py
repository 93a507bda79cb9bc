"""The rows of a lake table as a DuckDB view, each with the place where it belongs in the source (`tiering.validate.duckdb_rows`)."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tiering.lake.column_names import RESERVED_PREFIX
from tiering.lake.file_lists import FileLists
from tiering.lake.layouts import Layout
from tiering.lake.schema.sql_text import quoted
from tiering.model.tables import BUCKET_COLUMN, PARTITION_SEPARATOR, TableInfo
from tiering.validate.duckdb_rows import LakeColumns, RunQuery, live_rows

PLACE_COLUMN = f"{RESERVED_PREFIX}place"
"""Column with the name of a row's partition as the cluster joins it; "" without partitions. No column of a lake table begins with
RESERVED_PREFIX."""
FILE_COLUMN, ROW_COLUMN = f"{RESERVED_PREFIX}file", f"{RESERVED_PREFIX}row"
"""Columns with the path of a row's file, and the row's number in it, from 0."""
STORED_ROWS = "stored_rows"


def make_lake_view(
    run: RunQuery,
    table: TableInfo,
    files: FileLists,
    declared: Mapping[str, str],
    name: str,
    layout: Layout = Layout.SYSTEM_COLUMNS,
    fields: pa.Schema | None = None,
) -> Mapping[str, str]:
    """Makes the view `name` with the lake's columns and PLACE_COLUMN, and returns the types in its files.

    For a clean table the view also has the columns FILE and ROW, the position of the row. The view STORED_ROWS has file, place and bucket
    of all rows that the data files have, if the lake has the places of files. `declared`: the type of a column that no file has yet.
    `fields` as in `LakeColumns`. At least one data file. Raises duckdb.Error, DataCorrupt, InvalidArgument (equality deletes by a column
    that the table does not have).
    """
    types = {column: declared[column] for column in layout.lake_schema(table).names}
    rows = live_rows(run, files, LakeColumns(types, None, fields), table.path)
    where = "" if layout.has_row_offsets else f", d.filename AS {FILE_COLUMN}, d.file_row_number AS {ROW_COLUMN}"
    picked = ", ".join(f"{expression} AS {quoted(column)}" for column, expression in rows.expressions.items())
    place = f"{place_of(table, rows.expressions)} AS {PLACE_COLUMN}"
    run(f"CREATE TEMP VIEW {name} AS SELECT {picked}, {place}{where} FROM {rows.relation}", {})
    if any(file.place is not None for file in files.data):
        bucket = f"{rows.expressions.get(BUCKET_COLUMN, 'NULL::INTEGER')} AS {BUCKET_COLUMN}"
        run(f"CREATE TEMP VIEW {STORED_ROWS} AS SELECT d.filename AS {FILE_COLUMN}, {place}, {bucket} FROM {rows.stored}", {})
    return rows.types


def place_of(table: TableInfo, expressions: Mapping[str, str]) -> str:
    """Returns SQL for the partition's name, as the cluster joins it."""
    keys = [f"CAST({expressions[key]} AS VARCHAR)" for key in table.partition_keys]
    return f"concat_ws('{PARTITION_SEPARATOR}', {', '.join(keys)})" if keys else "''"
