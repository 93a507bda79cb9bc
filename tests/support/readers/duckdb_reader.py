"""DuckDB as Lakeward has it read lake tables of every format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from support.readers.kinds import OwnReader
from support.readers.questions import Question
from tiering.lake.base import Lake
from tiering.lake.file_lists import FIELD_ID_KEY, ReadableLake
from tiering.lake.schema.sql_text import quoted
from tiering.model.tables import TablePath
from tiering.validate.duckdb_rows import LakeColumns, live_rows


def duckdb_reader(lake: Lake) -> OwnReader:
    return OwnReader("duckdb", f"DuckDB {duckdb.__version__}", lambda question: by_duckdb(lake, question))


def by_duckdb(lake: Lake, question: Question) -> pa.Table:
    """From the file lists, as `lakeward sql --engine duckdb` reads; DuckDB's extension for Iceberg takes no part."""
    path = TablePath(*question.table.split("."))
    view = lake.view(path)
    assert view is not None
    assert isinstance(lake, ReadableLake)
    columns, files = lake.columns(view), lake.file_lists(view, question.snapshot_id)
    if not files.data:
        return columns.empty_table().select(list(question.columns))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")

        def run(sql: str, parameters: Mapping[str, object]) -> list[tuple[Any, ...]]:
            return connection.execute(sql, parameters).fetchall()

        connection.register("no_rows", columns.empty_table())
        types = {name: kind for name, kind, *_ in run("DESCRIBE SELECT * FROM no_rows", {})}
        field_ids = {field.name: int((field.metadata or {})[FIELD_ID_KEY]) for field in columns} if files.has_field_ids else None
        live = live_rows(run, files, LakeColumns(types, field_ids, None if files.has_field_ids else columns), path)
        shown = ", ".join(f"{live.expressions[name]} AS {quoted(name)}" for name in columns.names)
        picked = f"SELECT {', '.join(map(quoted, question.columns))} FROM (SELECT {shown} FROM {live.relation})"
        if question.condition is None:
            return connection.sql(picked).to_arrow_table()
        return connection.sql(f"{picked} WHERE {quoted(question.condition.column)} = ?", params=[question.condition.value]).to_arrow_table()
