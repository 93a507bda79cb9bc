"""Checks the key columns of a table: bucket keys, the primary key, partition columns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tiering.errors import InvalidArgument, UnsupportedType


@dataclass(frozen=True)
class KeyRole:
    """A kind of key, in the words of error messages, and the types that its columns may have."""

    noun: str
    part_of: str
    """Completes "column x cannot be"."""
    is_allowed: Callable[[pa.DataType], bool]
    allowed_types: str
    """The hint of an error about a type."""


def check_key_columns(schema: pa.Schema, names: Sequence[str], role: KeyRole) -> None:
    """Raises InvalidArgument (unknown, repeated or nullable column) or UnsupportedType, naming the column."""
    for position, name in enumerate(names):
        index = schema.get_field_index(name)
        if index < 0:
            raise InvalidArgument(f"the {role.noun} {name!r} is not a column", hint=f"Columns: {', '.join(schema.names)}.")
        if name in names[:position]:
            raise InvalidArgument(f"the {role.noun} {name!r} is named twice")
        field = schema.field(index)
        if not role.is_allowed(field.type):
            raise UnsupportedType(f"column {name!r} of type {field.type} cannot be {role.part_of}", hint=role.allowed_types, column=name)
        if field.nullable:
            raise InvalidArgument(f"the {role.noun} {name!r} is nullable", hint="Declare the column NOT NULL.")
