"""The columns of a Paimon table as an Arrow schema whose fields have Paimon's ids (`tiering.model.schema.field_ids`), and back. Pure.

Paimon numbers columns and the fields of ROW types from 0 on. The element of an array and the key and value of a map have no ids of their
own. Paimon's `SpecialFields` derives ids for them from that of the field around them, and so does this module, except for `_FIRST_KEY`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
from pypaimon.schema.data_types import ArrayType, AtomicType, DataField, DataType, MapType, PyarrowFieldParser, RowType

from tiering.model.schema.field_ids import COMMENT, FIELD_ID, all_fields, children, comment, field_id, with_metadata

_DERIVED_IDS = (2**31 - 1) // 4
_DEPTHS = 1 << 10
"""Paimon's `STRUCTURED_TYPE_FIELD_ID_BASE` and `STRUCTURED_TYPE_FIELD_DEPTH_LIMIT`."""
_FIRST_KEY = _DERIVED_IDS - (_DEPTHS - 1)
"""Id of the key of a map that is the field 0. Paimon derives the same id for its key and its value, and looks up neither of them."""


def numbered_columns(fields: Sequence[DataField]) -> pa.Schema:
    """Returns the columns, all fields with their ids and comments."""
    return pa.schema([_numbered(field) for field in fields])


def _numbered(field: DataField) -> pa.Field[Any]:
    column = pa.field(field.name, _numbered_type(field.type, field.id, 0), field.type.nullable)
    return with_metadata(column, {FIELD_ID: str(field.id), COMMENT: field.description})


def _numbered_type(kind: DataType, parent: int, depth: int) -> pa.DataType:
    """`parent`: the id of the field around it; `depth`: the number of arrays and maps between them."""
    if isinstance(kind, RowType):
        return pa.struct([_numbered(field) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(_derived("element", kind.element, parent, depth))
    if isinstance(kind, MapType):
        fields = _derived("key", kind.key, parent, depth, sign=-1).with_nullable(False), _derived("value", kind.value, parent, depth)
        return cast(pa.DataType, cast(Any, pa).map_(*fields))
    return cast(pa.DataType, PyarrowFieldParser.from_paimon_type(kind))


def _derived(name: str, kind: DataType, parent: int, depth: int, sign: int = 1) -> pa.Field[Any]:
    distance = parent * _DEPTHS + depth
    number = _FIRST_KEY if sign < 0 and distance == 0 else _DERIVED_IDS + sign * distance
    return with_metadata(pa.field(name, _numbered_type(kind, parent, depth + 1), kind.nullable), {FIELD_ID: str(number)})


def with_comments(fields: Sequence[DataField], columns: pa.Schema | pa.DataType) -> None:
    """Sets the descriptions of new fields to the comments of the equal fields of `columns`."""
    for field, column in zip(fields, children(columns), strict=True):
        field.description = comment(column)
        _with_nested_comments(field.type, column.type)


def _with_nested_comments(kind: DataType, source: pa.DataType) -> None:
    if isinstance(kind, RowType):
        with_comments(kind.fields, source)
    elif isinstance(kind, ArrayType):
        _with_nested_comments(kind.element, children(source)[0].type)
    elif isinstance(kind, MapType):
        for inner, field in zip((kind.key, kind.value), children(source), strict=True):
            _with_nested_comments(inner, field.type)


class PaimonFields:
    """Makes Paimon's fields of columns with ids. A field of `former` that is not retyped keeps its type in Paimon, with its precision, and
    its default value.
    """

    def __init__(self, former: Sequence[DataField], last_id: int) -> None:
        self._former = {field.id: field for field in _nested(former)}
        self.highest_id = last_id
        """The highest id that was ever used."""

    def of(self, columns: pa.Schema) -> list[DataField]:
        """Returns the fields of the columns, in their order."""
        return [self._field(column) for column in columns]

    def _field(self, column: pa.Field[Any]) -> DataField:
        number = cast(int, field_id(column))
        former = self._former.get(number)
        if former is None:
            self.highest_id = max(self.highest_id, number)
            return DataField(number, column.name, self._type(column, None), comment(column))
        return DataField(former.id, column.name, self._type(column, former.type), comment(column), former.default_value)

    def _type(self, column: pa.Field[Any], former: DataType | None) -> DataType:
        kind, nullable, inner = column.type, column.nullable, children(column.type)
        if isinstance(kind, pa.StructType):
            return RowType(nullable, [self._field(field) for field in inner])
        if isinstance(kind, pa.MapType):
            keys, values = (former.key, former.value) if isinstance(former, MapType) else (None, None)
            return MapType(nullable, self._type(inner[0], keys), self._type(inner[1], values))
        if isinstance(kind, pa.ListType):
            return ArrayType(nullable, self._type(inner[0], former.element if isinstance(former, ArrayType) else None))
        if isinstance(former, AtomicType) and PyarrowFieldParser.from_paimon_type(former) == kind:
            return AtomicType(former.type, nullable)
        return PyarrowFieldParser.to_paimon_type(kind, nullable)


def _nested(fields: Sequence[DataField]) -> Iterator[DataField]:
    for field in fields:
        yield field
        yield from _nested_in(field.type)


def _nested_in(kind: DataType) -> Iterator[DataField]:
    inner = [kind.element] if isinstance(kind, ArrayType) else [kind.key, kind.value] if isinstance(kind, MapType) else []
    for part in inner:
        yield from _nested_in(part)
    if isinstance(kind, RowType):
        yield from _nested(kind.fields)


def renumbered(columns: pa.Schema, stored: pa.Schema) -> Mapping[int, int]:
    """Returns the ids of `stored` by those of `columns`, which have the same fields."""
    pairs = zip(all_fields(columns), all_fields(stored), strict=True)
    return {cast(int, field_id(field)): cast(int, field_id(same)) for field, same in pairs}
