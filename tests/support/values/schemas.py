"""Random columns, rows and changes of columns, for property tests."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tiering.model.schema.changes import AddColumn, After, ChangeType, DropColumn, MoveColumn, RenameColumn, SchemaChange
from tiering.model.schema.field_ids import children

PLAIN_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=5),
    pa.date32(): st.dates(datetime.date(1, 1, 1)),
    pa.decimal128(9, 2): st.decimals(-9999999, 9999999, places=2).map(lambda value: value.quantize(Decimal("0.01"))),
}
WIDER_TYPES: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int16(),
    pa.int16(): pa.int64(),
    pa.int32(): pa.int64(),
    pa.float32(): pa.float64(),
    pa.decimal128(9, 2): pa.decimal128(38, 2),
}


def types(depth: int = 2) -> st.SearchStrategy[pa.DataType]:
    plain = st.sampled_from(list(PLAIN_VALUES))
    if depth == 0:
        return plain
    inner = types(depth - 1)
    structs = st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: pa.struct([(f"f{place}", kind) for place, kind in enumerate(kinds)])
    )
    maps = st.tuples(st.sampled_from([pa.int32(), pa.string()]), inner).map(lambda pair: pa.map_(*pair))
    return st.one_of(plain, structs, inner.map(pa.list_), maps)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if isinstance(kind, pa.StructType):
        some: st.SearchStrategy[Any] = st.fixed_dictionaries({field.name: values(field.type) for field in children(kind)})
    elif isinstance(kind, pa.MapType):
        some = st.dictionaries(PLAIN_VALUES[kind.key_type], values(kind.item_type), max_size=2).map(lambda entries: list(entries.items()))
    elif isinstance(kind, pa.ListType):
        some = st.lists(values(kind.value_type), max_size=2)
    else:
        some = PLAIN_VALUES[kind]
    return st.none() | some


def paths(kind: pa.DataType, parent: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], pa.Field[Any]]]:
    """Returns the paths of all fields of structs."""
    result = []
    for field in children(kind):
        path = (*parent, field.name)
        if isinstance(kind, pa.StructType):
            result.append((path, field))
        result += paths(field.type, path)
    return result


@st.composite
def change_of(draw: st.DrawFn, schema: pa.Schema, number: int) -> SchemaChange:
    columns = pa.struct(list(schema))
    path, field = draw(st.sampled_from(paths(columns)))
    structs = [(), *(path for path, field in paths(columns) if isinstance(field.type, pa.StructType))]
    kind = draw(st.sampled_from(["add", "drop", "rename", "widen", "move"]))
    if kind == "widen" and field.type in WIDER_TYPES:
        return ChangeType(path, WIDER_TYPES[field.type])
    if kind == "rename":
        return RenameColumn(path, f"r{number}")
    if kind == "drop":
        return DropColumn(path)
    if kind == "move":
        return MoveColumn(path, After(None))
    position = draw(st.sampled_from([None, After(None)]))
    return AddColumn(pa.field(f"n{number}", draw(types(1))), draw(st.sampled_from(structs)), position)
