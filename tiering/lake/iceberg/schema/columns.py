"""The columns of an Iceberg table as an Arrow schema with field ids, by which they follow the source (`schema.column_ids`), and back. Pure.

The system columns are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from tiering.errors import UnsupportedType
from tiering.lake.iceberg.schema.types import arrow_type, iceberg_type
from tiering.lake.schema.column_ids import COLUMN_IDS, ColumnIds, source_in_lake_ids
from tiering.model.schema.field_ids import (
    COMMENT,
    FIELD_ID,
    children,
    comment,
    field_id,
    last_field_id,
    with_children,
    with_inner,
    with_metadata,
)
from tiering.model.tables import SYSTEM_COLUMNS

ABSENT_FIELD_ID = 2_000_000_000
"""Field ids from here on are in no lake table. Iceberg reserves those above 2147483447 (spec, "Reserved Field IDs")."""


def lake_columns(schema: Schema) -> pa.Schema:
    """Returns the columns with their field ids and comments, without the system columns. A type that Lakeward never writes is `null`."""
    return pa.schema([_arrow_field(field) for field in schema.fields if field.name not in SYSTEM_COLUMNS])


def _arrow_field(field: NestedField) -> pa.Field[Any]:
    metadata = {FIELD_ID: str(field.field_id)} | ({COMMENT: field.doc} if field.doc else {})
    return pa.field(field.name, _arrow_type(field.field_type), nullable=field.optional, metadata=metadata)


def _arrow_type(kind: IcebergType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(field) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(_arrow_field(kind.element_field))
    if isinstance(kind, MapType):
        key, value = _arrow_field(kind.key_field), _arrow_field(kind.value_field)
        return with_children(pa.map_(key.type, value.type), [key, value])
    try:
        return arrow_type(kind)
    except UnsupportedType:
        return pa.null()


def fields_of_source(source: pa.Schema, schema: Schema, recorded: ColumnIds | None) -> pa.Schema:
    """Returns the source's columns, then the system columns of the lake table, with the lake's field ids (`file_lists.SourceFields`)."""
    system_columns = [_arrow_field(field) for field in schema.fields if field.name in SYSTEM_COLUMNS]
    return pa.schema([*source_in_lake_ids(source, lake_columns(schema), recorded), *system_columns])


def has_other_columns(source: pa.Schema, schema: Schema, recorded: ColumnIds | None) -> bool:
    """Whether a reader of the lake table by names would see other names or types than those of the source. A new column may be missing."""
    if not last_field_id(source):
        return False
    columns = lake_columns(schema)
    by_id = {field_id(field): field for field in columns}
    for field in source_in_lake_ids(source, columns, recorded):
        lake_field = by_id.get(field_id(field))
        if field.name in columns.names if lake_field is None else not _is_read_as(lake_field, field):
            return True
    return False


def _is_read_as(lake: pa.Field[Any], source: pa.Field[Any]) -> bool:
    inner, fields = children(lake.type), children(source.type)
    if (lake.name, field_id(lake), len(inner)) != (source.name, field_id(source), len(fields)):
        return False
    return all(map(_is_read_as, inner, fields)) if inner else lake.type == lake_type(source.type)


def named_as_source(source: pa.Schema, schema: Schema, recorded: ColumnIds | None) -> Schema:
    """Returns the lake's columns that the source has, under the source's names, with the lake's ids and types; all if it has no ids."""
    if not last_field_id(source):
        return schema
    columns = source_in_lake_ids(source, lake_columns(schema), recorded)
    present = {field.field_id: field for field in schema.fields}
    matches = ((field.name, present[number]) for field in columns if (number := field_id(field)) is not None)
    return Schema(*(NestedField(field.field_id, name, field.field_type, required=field.required) for name, field in matches))


def projection(columns: pa.Schema) -> Schema:
    """Returns the schema by which files are read as `columns`, which have the lake's field ids.

    A field without an id gets one that no file has, so that it is NULL.
    """
    unused = itertools.count(ABSENT_FIELD_ID)
    numbered = pa.schema([_numbered(field, unused) for field in columns])
    return Schema(*(_nested_field(field, {}) for field in numbered))


def _numbered(field: pa.Field[Any], unused: Iterator[int]) -> pa.Field[Any]:
    numbered, number = with_inner(field, lambda inner: _numbered(inner, unused)), field_id(field)
    return with_metadata(numbered, {FIELD_ID: str(next(unused) if number is None else number)})


def source_columns(schema: pa.Schema) -> pa.Schema:
    """Returns the columns of a source without those comments that Iceberg cannot hold: of elements, keys and values."""
    return pa.schema([_commented(field, keeps=True) for field in schema])


def _commented(field: pa.Field[Any], *, keeps: bool) -> pa.Field[Any]:
    is_struct = isinstance(field.type, pa.StructType)
    return with_metadata(with_inner(field, lambda inner: _commented(inner, keeps=is_struct)), {} if keeps else {COMMENT: None})


def lake_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type in which an Iceberg table holds the values of a source's type without nested fields."""
    return arrow_type(iceberg_type("", kind, lambda: 0))


def iceberg_schema(columns: pa.Schema, former: Schema) -> Schema:
    """Returns the schema with these columns, which have field ids, before the system columns of `former`. Its id is that of `former`."""
    types = {number: field.field_type for number, field in index_by_id(former).items()}
    fields = [_nested_field(field, types) for field in columns]
    system_columns = [field for field in former.fields if field.name in SYSTEM_COLUMNS]
    return Schema(*fields, *system_columns, schema_id=former.schema_id, identifier_field_ids=former.identifier_field_ids)


def _nested_field(field: pa.Field[Any], former: Mapping[int, IcebergType]) -> NestedField:
    kind = _iceberg_type(field, former)
    return NestedField(_id(field), field.name, kind, required=not field.nullable, doc=comment(field))


def _iceberg_type(field: pa.Field[Any], former: Mapping[int, IcebergType]) -> IcebergType:
    kind, inner = field.type, children(field.type)
    if isinstance(kind, pa.StructType):
        return StructType(*(_nested_field(child, former) for child in inner))
    if isinstance(kind, pa.ListType):
        return ListType(_id(inner[0]), _iceberg_type(inner[0], former), element_required=not inner[0].nullable)
    if isinstance(kind, pa.MapType):
        key, value = inner
        return MapType(_id(key), _iceberg_type(key, former), _id(value), _iceberg_type(value, former), value_required=not value.nullable)
    before = former.get(_id(field))
    return before if before is not None and _arrow_type(before) == kind else iceberg_type(field.name, kind, lambda: 0)


def _id(field: pa.Field[Any]) -> int:
    number = field_id(field)
    assert number is not None
    return number


def recorded_ids(properties: Mapping[str, str]) -> ColumnIds | None:
    """Returns the ids in the lake table's property; None if it has none. Raises SchemaDrift."""
    text = properties.get(COLUMN_IDS)
    return None if text is None else ColumnIds.parse(text)
