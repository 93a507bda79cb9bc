"""The check for column names that no engine could distinguish in a lake table. Pure, for the lakes of all formats.

The embedded cluster refuses such names when a table is created. Fluss allows them (`a` beside `A`, any character).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tiering.errors import InvalidName
from tiering.model.tables import SYSTEM_COLUMNS, TableInfo

RESERVED_PREFIX = "__lakeward_"
"""Prefix of the names of columns that Lakeward's own SQL adds to those of a table."""
_HINT = "Recreate the source table with other names for the columns, or disable its lake (table.datalake.enabled = false)."


def check_column_names(table: TableInfo, paths_are_names: bool = False) -> None:
    """Raises InvalidName for columns, or fields of a struct, whose names are empty, contain NUL or differ only in case. Raises it also for
    names of Lakeward's own columns.

    `paths_are_names`: the lake format finds a field by its path, so that a column `a.b` and the field `b` of the struct `a` are the same.
    """
    for name in table.schema.names:
        if folded_name(name) in SYSTEM_COLUMNS or folded_name(name).startswith(RESERVED_PREFIX):
            raise InvalidName(f"the column {name!r} of {table.path} has the name of one of Lakeward's own columns", hint=_HINT, column=name)
    columns = pa.struct(list(table.schema))
    _check_fields(table, columns, "")
    if paths_are_names:
        _check_paths(table, columns)


def _check_fields(table: TableInfo, kind: pa.DataType, path: str) -> None:
    names: dict[str, str] = {}
    is_struct = pa.types.is_struct(kind)
    for name, inner in _inner(kind):
        if not name or "\0" in name:
            raise InvalidName(
                f"the column {path + name!r} of {table.path} has {'a NUL character in its name' if name else 'an empty name'}",
                hint=_HINT,
                column=path + name,
            )
        former = names.setdefault(folded_name(name), name)
        if former != name and is_struct:
            raise InvalidName(
                f"the columns {path + former!r} and {path + name!r} of {table.path} differ only in case, so no engine could read the "
                "lake table",
                hint=_HINT,
                column=path + name,
            )
        _check_fields(table, inner, f"{path}{name}.")


def folded_name(name: str) -> str:
    """Returns the form in which engines compare names without their case.

    Spark compares the lower case of the upper case of each character (Java's `String.equalsIgnoreCase`): `s` equals `\u017f`, and `\u0130`
    equals `i`, but `ss` is not `\u00df`. Iceberg, DuckDB and pyiceberg compare the lower case of the whole name, and that of `\u0130` is
    an `i` and a dot.
    """
    return "".join(map(_folded, name)).replace("i\u0307", "i")


def _folded(character: str) -> str:
    """Returns the lower case of the upper case of a character, if that is one character (Unicode, "Simple Case Mapping")."""
    upper = next((cased for cased in (character.upper(), character.title()) if len(cased) == 1), character)
    return upper.lower()[0]


def _check_paths(table: TableInfo, columns: pa.DataType) -> None:
    columns_by_path: dict[str, str] = {}
    full_paths: set[str] = set()
    for path, column, is_full in _paths(columns):
        other = columns_by_path.setdefault(folded_name(path), column)
        if other != column or (is_full and folded_name(path) in full_paths):
            raise InvalidName(
                f"the lake table would find two fields of {table.path} by the path {path!r}: of the columns {other!r} and {column!r}",
                hint=_HINT,
                column=column,
            )
        if is_full:
            full_paths.add(folded_name(path))


def _paths(kind: pa.DataType, column: str = "", before: str = "", is_full: bool = True) -> Iterator[tuple[str, str, bool]]:
    """Yields the path of every field, its column, and whether the path is the full one.

    Iceberg also finds a field of a struct in a list or a map by the path without `element` or `value`.
    """
    for name, inner in _inner(kind):
        yield before + name, column or name, is_full
        yield from _paths(inner, column or name, f"{before}{name}.", is_full)
        if pa.types.is_struct(inner) and not pa.types.is_struct(kind) and name != "key":
            yield from _paths(inner, column, before, False)


def _inner(kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Returns the types within a type, with the names that Iceberg gives them (spec, "Column Projection")."""
    if isinstance(kind, pa.MapType):
        return [("key", kind.key_type), ("value", kind.item_type)]
    if isinstance(kind, pa.StructType):
        return [(kind.field(index).name, kind.field(index).type) for index in range(kind.num_fields)]
    return [("element", kind.value_type)] if isinstance(kind, pa.ListType) else []
