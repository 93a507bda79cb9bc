"""Reads Parquet files with DuckDB whose columns changed since: a file of former columns gets the present ones, by field id.

DuckDB finds columns of files by their names, or only the outer ones by field id. So each set of files with the same columns gets its own
SELECT, which renames, widens and orders fields at any depth. A field that the files do not have is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tiering.errors import DataCorrupt
from tiering.lake.file_lists import LakeFile
from tiering.lake.schema.sql_text import quoted, text_literal
from tiering.lake.schema.stored_columns import stored_columns
from tiering.library_guards.duckdb_guard import lock
from tiering.model.schema.field_ids import children, field_id, with_ids_of
from tiering.redaction.redact import outside_text

_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "INTEGER",
    pa.int16(): "INTEGER",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
}
"""DuckDB's types. Files hold integers of 8 and 16 bits as integers of 32 bits."""


def file_columns(file: LakeFile, present: pa.Schema) -> pa.Schema:
    """Returns the columns of a file with the lake's field ids. `present`: the lake's columns, for a file whose ids cannot be read.

    Raises DataCorrupt (the file cannot be read).
    """
    fields = file.fields
    try:
        stored = pq.read_schema(file.path)
    except (pa.ArrowException, OSError, ValueError) as why:
        if not is_older_map(why):
            raise DataCorrupt(
                unreadable_text(file, why), hint="Restore the file from a backup of the warehouse.", lake_file=file.path
            ) from why
        stored, fields = _columns_by_duckdb(file), fields or present
    if fields is None:
        return stored_columns(stored)
    numbered = {column.name: column for column in with_ids_of(stored, fields)}
    return pa.schema([numbered.get(column.name, column) for column in stored])


def unreadable_text(file: LakeFile, why: Exception) -> str:
    """Returns in words that a file cannot be read."""
    return outside_text(f"the lake file {file.label} cannot be read: {why}")


def is_older_map(why: Exception) -> bool:
    """Whether Arrow refuses a file only because its schema lets the keys of a map be NULL, as older writers wrote it."""
    return "Map keys must be annotated as required" in str(why)


def _columns_by_duckdb(file: LakeFile) -> pa.Schema:
    """Returns the columns of a file without field ids."""
    with duckdb.connect() as connection:
        lock(connection, [file.path])
        rows = connection.sql(f"SELECT * FROM read_parquet({text_literal(file.path)}, hive_partitioning = false) LIMIT 0")
        schema: pa.Schema = rows.to_arrow_table().schema
        return schema


def present_rows(files: Sequence[LakeFile], present: pa.Schema, passed: Sequence[str] = ()) -> str:
    """Returns SQL for the rows of the files with the columns of `present`, which have the lake's field ids.

    Behind them are the columns `passed`, which all files have under the same name, and `filename` and `file_row_number`. Raises
    DataCorrupt (a file cannot be read).
    """
    shapes: dict[str, tuple[pa.Schema, list[LakeFile]]] = {}
    for file in files:
        stored = file_columns(file, present)
        shapes.setdefault(stored.to_string(show_field_metadata=True), (stored, []))[1].append(file)
    return " UNION ALL ".join(_select(stored, group, present, passed) for stored, group in shapes.values())


def _select(stored: pa.Schema, files: Sequence[LakeFile], present: pa.Schema, passed: Sequence[str]) -> str:
    names = [f"s.c{place}" for place in range(len(stored))]
    own = {_key(field): (name, field) for name, field in zip(names, stored, strict=True)}
    columns = [f"{_of(own, field)} AS {quoted(field.name)}" for field in present]
    columns += [f"{names[stored.get_field_index(name)]} AS {quoted(name)}" for name in passed]
    paths = ", ".join(text_literal(file.path) for file in files)
    source = f"read_parquet([{paths}], hive_partitioning = false) AS s({', '.join(name[2:] for name in names)})"
    return f"SELECT {', '.join(columns)}, s.filename AS filename, s.file_row_number AS file_row_number FROM {source}"


def _key(field: pa.Field[Any]) -> int | str:
    """Returns the field id of a field, or its name in a file without ids."""
    number = field_id(field)
    return field.name if number is None else number


def _of(own: dict[int | str, tuple[str, pa.Field[Any]]], field: pa.Field[Any]) -> str:
    """Returns SQL for the values of `field` in rows that have the fields `own`."""
    match = own.get(_key(field)) or own.get(field.name)
    return f"CAST(NULL AS {duckdb_type(field.type)})" if match is None else _value(match[0], match[1].type, field.type)


def _value(value: str, stored: pa.DataType, present: pa.DataType, depth: int = 0) -> str:
    """Returns SQL that turns a value of one type into one of the other type."""
    if _is_same(stored, present):
        return value
    item = f"x{depth}"
    if isinstance(present, pa.StructType):
        own = {_key(field): (f"struct_extract({value}, {text_literal(field.name)})", field) for field in children(stored)}
        fields = ", ".join(f"{quoted(field.name)} := {_nested(own, field, depth)}" for field in children(present))
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({fields}) END"
    if isinstance(present, pa.MapType):
        key = _value(f"{item}.key", children(stored)[0].type, present.key_type, depth + 1)
        entry = _value(f"{item}.value", children(stored)[1].type, present.item_type, depth + 1)
        entries = f"list_transform(map_entries({value}), lambda {item}: struct_pack(k := {key}, v := {entry}))"
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE map_from_entries({entries}) END"
    if isinstance(present, pa.ListType):
        return f"list_transform({value}, lambda {item}: {_value(item, children(stored)[0].type, present.value_type, depth + 1)})"
    return f"CAST({value} AS {duckdb_type(present)})"


def _nested(own: dict[int | str, tuple[str, pa.Field[Any]]], field: pa.Field[Any], depth: int) -> str:
    match = own.get(_key(field))
    return f"CAST(NULL AS {duckdb_type(field.type)})" if match is None else _value(match[0], match[1].type, field.type, depth)


def _is_same(stored: pa.DataType, present: pa.DataType) -> bool:
    """Whether both types have the same fields with the same names, and the same type in files."""
    if stored.num_fields == 0 or present.num_fields == 0:
        return stored.num_fields == present.num_fields and duckdb_type(stored) == duckdb_type(present)
    pairs = list(zip(children(stored), children(present), strict=False))
    is_struct = isinstance(present, pa.StructType)
    return stored.num_fields == present.num_fields and all(
        _is_same(left.type, right.type) and (not is_struct or (_key(left), left.name) == (_key(right), right.name)) for left, right in pairs
    )


def duckdb_type(kind: pa.DataType) -> str:
    """Returns DuckDB's name of a type in lake files."""
    if isinstance(kind, pa.StructType):
        return f"STRUCT({', '.join(f'{quoted(field.name)} {duckdb_type(field.type)}' for field in children(kind))})"
    if isinstance(kind, pa.MapType):
        return f"MAP({duckdb_type(kind.key_type)}, {duckdb_type(kind.item_type)})"
    if isinstance(kind, pa.ListType):
        return f"{duckdb_type(kind.value_type)}[]"
    if isinstance(kind, pa.Decimal128Type):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if isinstance(kind, pa.TimestampType):
        return "TIMESTAMP" if kind.tz is None else "TIMESTAMP WITH TIME ZONE"
    if pa.types.is_time(kind):
        return "TIME"
    if isinstance(kind, pa.UuidType):
        return "UUID"
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return _TYPES.get(kind, "BLOB" if is_binary else "VARCHAR")
