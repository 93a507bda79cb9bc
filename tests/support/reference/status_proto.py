"""The fields of `PbTableTieringStatus` in `proto/tiering/rpc/v1/status.proto`, from the columns of `TableStatus`."""

from __future__ import annotations

import re
from itertools import count

import pyarrow as pa

from tiering.model.declare import AnyField, schema_of
from tiering.model.status import TableStatus
from tiering.wire.model_codecs import STATUS_ELSEWHERE

_MESSAGE = re.compile(r"(?<=\nmessage PbTableTieringStatus \{\n).*?(?=\n\})", re.DOTALL)
_FIELD = re.compile(r" (?P<name>\w+) = (?P<number>\d+);")
_TYPES = {
    pa.string(): "string",
    pa.int64(): "int64",
    pa.int32(): "int32",
    pa.float64(): "double",
    pa.bool_(): "bool",
    pa.timestamp("us", tz="UTC"): "google.protobuf.Timestamp",
}


def render(proto: str) -> str:
    """Returns the proto with a field for each column, in the order of the columns.

    A field that exists keeps its lines, because numbers and types on the wire do not change. A new field gets the next free number.
    Raises ValueError for a field without a column: a person has to reserve its number.
    """
    existing = _MESSAGE.search(proto)
    assert existing is not None
    fields = {field["name"]: lines for lines in re.split(r"(?<=;)\n", existing.group()) if (field := _FIELD.search(lines))}
    free_numbers = count(max(int(number) for _, number in _FIELD.findall(existing.group())) + 1)
    rendered = [fields.pop("table_path")]
    columns = (column for column in schema_of(TableStatus) if column.name not in STATUS_ELSEWHERE)
    rendered += [fields.pop(column.name, None) or _new_field(column, next(free_numbers)) for column in columns]
    if fields:
        raise ValueError(f"status.proto has fields without a column: {', '.join(fields)}; reserve their numbers")
    return _MESSAGE.sub(lambda _: "\n".join(rendered), proto)


def _new_field(column: AnyField, number: int) -> str:
    return f"  {'optional ' * column.nullable}{_TYPES[column.type]} {column.name} = {number};"
