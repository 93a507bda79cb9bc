"""Changes of a source table's columns, and the schema after them. Pure.

A change names a field by its path: the names from the column to the field. In a list the elements are `element`; in a map the keys are
`key` and the values `value`, as in Spark and Iceberg. Field ids (`field_ids`) stay: a renamed or moved field keeps its id, and an added one
gets the next id that was never used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tiering.errors import InvalidArgument
from tiering.model.schema.field_ids import (
    COMMENT,
    FIRST_NAME,
    LAST_FIELD_ID,
    children,
    field_id,
    first_name,
    last_field_id,
    with_children,
    with_field_ids,
    with_metadata,
    without_field_ids,
)
from tiering.model.sql_types import spark_type

FieldPath = tuple[str, ...]


@dataclass(frozen=True)
class After:
    """The position behind the field `name` of the same struct or table; None = the first position."""

    name: str | None


@dataclass(frozen=True)
class AddColumn:
    """Adds the nullable `field` to the struct `parent`, or to the table if that is empty. Without `position` it becomes the last one."""

    field: pa.Field[Any]
    parent: FieldPath = ()
    position: After | None = None


@dataclass(frozen=True)
class DropColumn:
    """Drops a column or a field of a struct."""

    path: FieldPath


@dataclass(frozen=True)
class RenameColumn:
    """Renames a column or a field of a struct."""

    path: FieldPath
    new_name: str


@dataclass(frozen=True)
class ChangeType:
    """Widens the type of a column, a field, an element or a map's value."""

    path: FieldPath
    new_type: pa.DataType


@dataclass(frozen=True)
class ChangeComment:
    """Sets the comment of a field, or removes it with None."""

    path: FieldPath
    comment: str | None


@dataclass(frozen=True)
class DropNotNull:
    """Makes a NOT NULL column nullable."""

    path: FieldPath


@dataclass(frozen=True)
class MoveColumn:
    """Moves a column within the table, or a field within its struct."""

    path: FieldPath
    position: After


ChangeOfField = DropColumn | RenameColumn | ChangeType | ChangeComment | DropNotNull | MoveColumn
"""The changes of a field that exists."""
SchemaChange = AddColumn | ChangeOfField


def additions(fields: Iterable[pa.Field[Any]]) -> list[AddColumn]:
    """Returns the changes that add columns behind the others, in this order."""
    return [AddColumn(field) for field in fields]


_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS = (pa.float32(), pa.float64())


def changed_schema(schema: pa.Schema, changes: Sequence[SchemaChange], key_columns: Collection[str] = ()) -> pa.Schema:
    """Returns the schema after all changes, in their order. Every field of the result has an id.

    `key_columns`: columns of the primary key, bucket keys and partition columns. Their names, types and NOT NULL stay, because the keys,
    the paths of lake files and the lake's partitions are made of them. Raises InvalidArgument, which names the field and the reason. The
    caller checks names and types of the result (`column_types.storable_schema`).
    """
    schema = with_field_ids(schema)
    columns: pa.DataType = pa.struct(list(schema))
    for change in changes:
        columns = _changed(columns, change, frozenset(key_columns))
        if columns.num_fields == 0:
            raise InvalidArgument(
                "the statement drops every column of the table, and with them all values",
                hint="Instead of REPLACE COLUMNS, add, drop, rename or alter single columns. DROP TABLE drops the table.",
            )
    return with_field_ids(pa.schema(children(columns), metadata={LAST_FIELD_ID: str(last_field_id(schema)).encode()}))


def can_widen(kind: pa.DataType, new: pa.DataType) -> bool:
    """Whether each value of a type is a value of the other one, and both Iceberg and Paimon allow the change.

    Iceberg's specification ("Schema Evolution") allows int to long, float to double and more digits of a decimal with the same scale; 8-bit
    and 16-bit integers are its int.
    """
    for order in (_INTEGERS, _FLOATS):
        if kind in order and new in order:
            return order.index(new) >= order.index(kind)
    if isinstance(kind, pa.Decimal128Type) and isinstance(new, pa.Decimal128Type):
        return bool(new.scale == kind.scale and new.precision >= kind.precision)
    return bool(kind == new)


def _changed(columns: pa.DataType, change: SchemaChange, keys: frozenset[str]) -> pa.DataType:
    if isinstance(change, AddColumn):
        return _at(columns, change.parent, lambda kind: _added(kind, change))
    if not change.path:
        raise InvalidArgument("a change of a column names no column")
    *parent, name = change.path
    if not parent and name in keys and not isinstance(change, ChangeComment | MoveColumn):
        raise InvalidArgument(
            f"the column {name!r} is a key, bucket key or partition column: it can only be moved and get another comment",
            hint="Create another table with other keys, and copy the rows.",
            column=name,
        )
    return _at(columns, tuple(parent), lambda kind: _with_child(kind, change))


def _at(kind: pa.DataType, path: FieldPath, change: Callable[[pa.DataType], pa.DataType], done: FieldPath = ()) -> pa.DataType:
    """Returns `kind` with the type at `path` changed."""
    if not path:
        return change(kind)
    fields = children(kind)
    place = _place(fields, path[0], done)
    fields[place] = fields[place].with_type(_at(fields[place].type, path[1:], change, (*done, path[0])))
    return with_children(kind, fields)


def _place(fields: Sequence[pa.Field[Any]], name: str, parent: FieldPath) -> int:
    """Returns the position of a field: with exactly this name, or with the only name that differs in case."""
    names = [field.name for field in fields]
    matches = [place for place, other in enumerate(names) if other == name]
    matches = matches or [place for place, other in enumerate(names) if other.casefold() == name.casefold()]
    if len(matches) != 1:
        raise InvalidArgument(
            f"there is no column {_text((*parent, name))!r}", hint=f"Columns: {', '.join(names) or 'none'}.", column=_text((*parent, name))
        )
    return matches[0]


def _text(path: Sequence[str]) -> str:
    return ".".join(path)


def _added(kind: pa.DataType, change: AddColumn) -> pa.DataType:
    field = without_field_ids(change.field)
    path = _text((*change.parent, field.name))
    if not isinstance(kind, pa.StructType):
        raise InvalidArgument(f"the column {path!r} cannot be added: {_text(change.parent)!r} is not a struct", column=path)
    if not field.nullable:
        raise InvalidArgument(f"the new column {path!r} is NOT NULL", hint="The existing rows have no value for it.", column=path)
    fields = children(kind)
    _check_free(fields, field.name, path)
    return pa.struct(_inserted(fields, field, change.position, change.parent))


def _check_free(fields: Sequence[pa.Field[Any]], name: str, path: str) -> None:
    for other in fields:
        if other.name.casefold() == name.casefold():
            raise InvalidArgument(
                f"the column {path!r} cannot get its name: the column {other.name!r} exists already",
                hint="Names are compared without regard to case." if other.name != name else "Choose another name.",
                column=path,
            )


def _inserted(fields: Sequence[pa.Field[Any]], field: pa.Field[Any], position: After | None, parent: FieldPath) -> list[pa.Field[Any]]:
    if position is None:
        return [*fields, field]
    place = 0 if position.name is None else _place(fields, position.name, parent) + 1
    return [*fields[:place], field, *fields[place:]]


def _with_child(
    kind: pa.DataType, change: DropColumn | RenameColumn | ChangeType | ChangeComment | DropNotNull | MoveColumn
) -> pa.DataType:
    parent, fields = change.path[:-1], children(kind)
    place = _place(fields, change.path[-1], parent)
    field, path = fields[place], _text(change.path)
    is_named = isinstance(kind, pa.StructType)
    if not is_named and isinstance(change, DropColumn | RenameColumn | MoveColumn):
        raise InvalidArgument(f"{path!r} is the {field.name} of a list or map: only its type can change", column=path)
    if not is_named and field.name == "key" and isinstance(change, ChangeType):
        raise InvalidArgument(f"the keys of the map {_text(parent)!r} cannot get another type", column=path)
    others = [*fields[:place], *fields[place + 1 :]]
    if isinstance(change, DropColumn):
        if not others and parent:
            raise InvalidArgument(f"{path!r} is the only field of the struct {_text(parent)!r}", hint="Drop the whole column.", column=path)
        return pa.struct(others)
    if isinstance(change, MoveColumn):
        if change.position.name is not None and _place(fields, change.position.name, parent) == place:
            raise InvalidArgument(f"the column {path!r} cannot be moved behind itself", hint="Name another column.", column=path)
        return pa.struct(_inserted(others, field, change.position, parent))
    if isinstance(change, RenameColumn):
        _check_free(others, change.new_name, path)
    fields[place] = _changed_field(field, change, path)
    return with_children(kind, fields)


def _changed_field(field: pa.Field[Any], change: RenameColumn | ChangeType | ChangeComment | DropNotNull, path: str) -> pa.Field[Any]:
    if isinstance(change, RenameColumn):
        # A field without an id was added by an earlier change of this list, so that no lake table has it by its former name.
        renamed = field if field_id(field) is None else with_metadata(field, {FIRST_NAME: first_name(field)})
        return renamed.with_name(change.new_name)
    if isinstance(change, ChangeComment):
        return with_metadata(field, {COMMENT: change.comment or ""})
    if isinstance(change, DropNotNull):
        return field.with_nullable(True)
    if not can_widen(field.type, change.new_type):
        raise InvalidArgument(
            f"the column {path!r} is {spark_type(field.type)} and cannot become {spark_type(change.new_type)}",
            hint="A type can only become wider: a larger integer, FLOAT to DOUBLE, or a DECIMAL with more digits and the same scale.",
            column=path,
        )
    return field.with_type(change.new_type if field.type.num_fields == 0 else field.type)
