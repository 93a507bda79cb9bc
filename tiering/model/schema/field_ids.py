"""Ids of a source table's columns and nested fields, by which rows and lake tables follow changes of the columns. Pure.

The id of a field, its comment and its first name are metadata of its Arrow field. Every column and every field nested in it (`element`,
`key`, `value`, and the fields of a struct) has an id, which no change alters and no later field reuses. Schemas of clusters without such
ids, and of tables of older versions, have none: there a field is identified by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pyarrow as pa

FIELD_ID = b"lakeward.field-id"
"""Key of a field's metadata: its id, a decimal number from 1."""
FIRST_NAME = b"lakeward.first-name"
"""Key of the metadata of a renamed field: the name with which it was added. It finds the column in a lake table of an older version."""
COMMENT = b"comment"
"""Key of a field's metadata: the comment that SQL shows; empty = the comment was removed."""
LAST_FIELD_ID = b"lakeward.last-field-id"
"""Key of a schema's metadata: the highest id that was ever used in it."""

FieldIdentity = int | str
"""The id of a field, or its name if the schema has no ids."""


def field_id(field: pa.Field[Any]) -> int | None:
    """Returns the id of a field; None if its schema has no ids."""
    text = _metadata(field).get(FIELD_ID)
    return None if text is None else int(text)


def identity(field: pa.Field[Any]) -> FieldIdentity:
    """Returns what identifies a field among its siblings in all versions of a table's columns."""
    number = field_id(field)
    return field.name if number is None else number


def first_name(field: pa.Field[Any]) -> str:
    """Returns the name with which a field was added."""
    text = _metadata(field).get(FIRST_NAME)
    return field.name if text is None else text.decode()


def comment(field: pa.Field[Any]) -> str | None:
    """Returns the comment of a field; None if it has none."""
    return _metadata(field).get(COMMENT, b"").decode() or None


def with_metadata(field: pa.Field[Any], changes: Mapping[bytes, str | None]) -> pa.Field[Any]:
    """Returns the field with these entries in its metadata; None removes an entry."""
    metadata: dict[bytes | str, bytes | str] = {key: value for key, value in _metadata(field).items() if key not in changes}
    metadata.update({key: value.encode() for key, value in changes.items() if value is not None})
    return field.with_metadata(metadata)


def without_field_ids(field: pa.Field[Any]) -> pa.Field[Any]:
    """Returns the field without ids and first names, nested fields included; comments stay."""
    return with_metadata(with_inner(field, without_field_ids), {FIELD_ID: None, FIRST_NAME: None})


def without_metadata(schema: pa.Schema) -> pa.Schema:
    """Returns the schema without any metadata, nested fields included: rows that are compared by their bytes have no more."""
    return pa.schema([_without_metadata(field) for field in schema])


def _without_metadata(field: pa.Field[Any]) -> pa.Field[Any]:
    return pa.field(field.name, with_inner(field, _without_metadata).type, field.nullable)


def has_field_ids(schema: pa.Schema) -> bool:
    """Whether the columns of a schema have ids. The ids of a lake table may begin with 0."""
    return any(field_id(field) is not None for field in schema)


def with_ids_of(stored: pa.Schema, columns: pa.Schema) -> pa.Schema:
    """Returns columns of a file, in the file's own types, with the ids of the fields of the same names in `columns`. Columns that are not
    in `columns` are left out.
    """
    by_name = {column.name: column for column in columns}
    return pa.schema([_with_ids_of(column, by_name[column.name]) for column in stored if column.name in by_name])


def _with_ids_of(stored: pa.Field[Any], column: pa.Field[Any]) -> pa.Field[Any]:
    kind, fields = stored.type, children(stored.type)
    if fields and kind.id == column.type.id:
        sources = {source.name: source for source in children(column.type)}
        kind = with_children(kind, [_with_ids_of(field, sources.get(field.name, field)) for field in fields])
    number = field_id(column)
    return with_metadata(stored.with_type(kind), {FIELD_ID: None if number is None else str(number)})


def last_field_id(schema: pa.Schema) -> int:
    """Returns the highest id that was ever used in the schema; 0 if it has no ids."""
    recorded = int((schema.metadata or {}).get(LAST_FIELD_ID, b"0"))
    return max([recorded, *(field_id(field) or 0 for field in all_fields(schema))])


def with_field_ids(schema: pa.Schema) -> pa.Schema:
    """Returns the schema with an id for each field that has none: first the columns in their order, then the nested fields."""
    ids = _Ids(last_field_id(schema))
    columns = [ids.numbered(field) for field in schema]
    fields = [field.with_type(ids.numbered_type(field.type)) for field in columns]
    return pa.schema(fields, metadata={LAST_FIELD_ID: str(ids.last).encode()})


def all_fields(kind: pa.Schema | pa.DataType) -> Iterator[pa.Field[Any]]:
    """Yields all fields of a schema or a type, each before the fields nested in it."""
    for field in children(kind):
        yield field
        yield from all_fields(field.type)


def children(kind: pa.Schema | pa.DataType) -> list[pa.Field[Any]]:
    """Returns the fields directly in a schema or a type: those of a struct, the element of a list, the key and the value of a map."""
    if isinstance(kind, pa.Schema):
        return list(kind)
    if isinstance(kind, pa.MapType):
        return [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
    if isinstance(kind, pa.ListType):
        return [kind.value_field.with_name("element")]
    return [kind.field(index) for index in range(kind.num_fields)]


def with_children(kind: pa.DataType, fields: list[pa.Field[Any]]) -> pa.DataType:
    """Returns a struct, list or map type with other fields."""
    if isinstance(kind, pa.StructType):
        return pa.struct(fields)
    if isinstance(kind, pa.MapType):
        # pyarrow takes fields here, as its documentation says, but its stubs only have types.
        return cast(pa.DataType, cast(Any, pa).map_(*fields))
    return pa.list_(fields[0])


def with_inner(field: pa.Field[Any], change: Callable[[pa.Field[Any]], pa.Field[Any]]) -> pa.Field[Any]:
    """Returns the field with `change` of each field directly in it. The field's own name, metadata and NOT NULL stay."""
    inner = children(field.type)
    return field.with_type(with_children(field.type, [change(child) for child in inner])) if inner else field


class _Ids:
    """Numbers the fields that have no id, after `last`."""

    def __init__(self, last: int) -> None:
        self.last = last

    def numbered(self, field: pa.Field[Any]) -> pa.Field[Any]:
        if field_id(field) is not None:
            return field
        self.last += 1
        return with_metadata(field, {FIELD_ID: str(self.last)})

    def numbered_type(self, kind: pa.DataType) -> pa.DataType:
        if kind.num_fields == 0:
            return kind
        fields = [self.numbered(field) for field in children(kind)]
        return with_children(kind, [field.with_type(self.numbered_type(field.type)) for field in fields])


def _metadata(field: pa.Field[Any]) -> Mapping[bytes, bytes]:
    return cast(Mapping[bytes, bytes], field.metadata or {})
