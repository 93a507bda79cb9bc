"""Merges the types that Arrow found in the blocks of a JSON file. Pure.

Arrow reads texts that look like timestamps as timestamps, and loses their zone. This module makes them texts again; the column's type is
decided when all of the column was read. Texts within lists and structs stay texts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pyarrow as pa

from tiering.ingest.exact_casts import Column
from tiering.ingest.number_texts import NumberInference

_NUMBERS = (pa.int64(), pa.float64())
"""The types that Arrow gives to numbers."""


def as_read(kind: pa.DataType) -> pa.DataType:
    """Returns a type that Arrow found, with text in place of timestamps, also within lists and structs."""
    return _mapped(kind, lambda leaf: pa.string() if pa.types.is_timestamp(leaf) else leaf)


def settled(kind: pa.DataType) -> pa.DataType:
    """Returns the type after the whole file was read: a column without any value is text."""
    return _mapped(kind, lambda leaf: pa.string() if pa.types.is_null(leaf) else leaf)


def has_doubles(kind: pa.DataType) -> bool:
    """Returns whether Arrow read a number of the column as a double, also within lists and structs."""
    return kind != _mapped(kind, lambda leaf: pa.string() if pa.types.is_floating(leaf) else leaf)


def with_text_numbers(kind: pa.DataType) -> pa.DataType:
    """Returns a type with text in place of numbers, also within lists and structs."""
    return _mapped(kind, lambda leaf: pa.string() if leaf in _NUMBERS else leaf)


class NumbersByPath:
    """Finds the types of a file's numbers by their path: separately for each column, each field of a struct and each list."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], NumberInference] = defaultdict(NumberInference)

    def see(self, kind: pa.DataType, values: Column, *path: str) -> None:
        """Records the next values of a column that Arrow reads as `kind`. Its numbers are either all BIGINT or all text."""
        if isinstance(kind, pa.ListType):
            self.see(kind.value_type, values.flatten(), *path, "[]")
        elif isinstance(kind, pa.StructType):
            for field, inner in zip(_fields(kind), values.flatten(), strict=True):
                self.see(field.type, inner, *path, field.name)
        elif kind in _NUMBERS and pa.types.is_integer(values.type):
            self._numbers[path].see_integers(values)
        elif kind in _NUMBERS:
            self._numbers[path].see_texts(values, values.cast(pa.float64()))

    def resolved(self, kind: pa.DataType, *path: str) -> pa.DataType:
        """Returns a column's type with the found types of its numbers."""
        if isinstance(kind, pa.ListType):
            return pa.list_(self.resolved(kind.value_type, *path, "[]"))
        if isinstance(kind, pa.StructType):
            return pa.struct([(field.name, self.resolved(field.type, *path, field.name)) for field in _fields(kind)])
        return self._numbers[path].kind if kind in _NUMBERS else kind


def _nulls_like(table: pa.DataType) -> pa.DataType:
    """Returns a type for values that are all null, with the lists and structs of the table's column."""
    return _mapped(table, lambda leaf: pa.null())


def merged(before: pa.DataType, now: pa.DataType) -> pa.DataType | None:
    """Returns a type that holds the values of both types; None if there is none. Fields of structs keep the order of their first
    appearance.
    """
    if before == now or pa.types.is_null(now):
        return before
    if pa.types.is_null(before):
        return now
    if {before, now} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if isinstance(before, pa.ListType) and isinstance(now, pa.ListType):
        inner = merged(before.value_type, now.value_type)
        return None if inner is None else pa.list_(inner)
    if isinstance(before, pa.StructType) and isinstance(now, pa.StructType):
        return _merged_structs(before, now)
    return None


def _merged_structs(before: pa.StructType, now: pa.StructType) -> pa.DataType | None:
    kinds = {field.name: field.type for field in _fields(before)}
    for field in _fields(now):
        both = merged(kinds.get(field.name, pa.null()), field.type)
        if both is None:
            return None
        kinds[field.name] = both
    return pa.struct(list(kinds.items()))


def in_order_of(kind: pa.DataType, table: pa.DataType) -> pa.DataType:
    """Returns `kind` with the fields of its structs in the order of the table's column, and other fields after them.

    A part without any value becomes a list or a struct if it is one in the table's column.
    """
    if pa.types.is_null(kind):
        return _nulls_like(table)
    if isinstance(kind, pa.ListType) and isinstance(table, pa.ListType):
        return pa.list_(in_order_of(kind.value_type, table.value_type))
    if not isinstance(kind, pa.StructType) or not isinstance(table, pa.StructType):
        return kind
    table_types = {field.name: field.type for field in _fields(table)}
    position = {name: index for index, name in enumerate(table_types)}
    fields = sorted(_fields(kind), key=lambda field: position.get(field.name, len(position)))
    return pa.struct([(field.name, in_order_of(field.type, table_types.get(field.name, field.type))) for field in fields])


def _mapped(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    if isinstance(kind, pa.ListType):
        return pa.list_(_mapped(kind.value_type, change))
    if isinstance(kind, pa.StructType):
        return pa.struct([(field.name, _mapped(field.type, change)) for field in _fields(kind)])
    return change(kind)


def _fields(kind: pa.StructType) -> list[pa.Field[pa.DataType]]:
    return [kind.field(index) for index in range(kind.num_fields)]
