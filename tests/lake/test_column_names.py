"""Names of columns that Fluss allows and a lake table cannot have: refused when a round is planned, naming the column."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.worlds.memory_coordinator import table_info
from tiering.errors import InvalidName
from tiering.lake.iceberg.schema import layout as iceberg
from tiering.lake.layouts import Layout
from tiering.lake.paimon.schema import layout as paimon
from tiering.lake.table_options import LAYOUT
from tiering.model.tables import TableInfo

LAYOUTS = {"iceberg": iceberg.table_layout, "paimon": paimon.table_layout}
NAMES = st.one_of(
    st.sampled_from(
        ["a", "A", "b", "B", "a.b", "A.b", "element", "key", "__bucket", "__Offset", "__TIMESTAMP", "__lakeward_low", "__op", "é", "É"]
    ),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=3),
)
KINDS = st.recursive(
    st.sampled_from([pa.int64(), pa.string()]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3, unique_by=lambda field: field[0]).map(pa.struct),
    ),
    max_leaves=4,
)
COLUMNS = st.lists(st.tuples(NAMES, KINDS), min_size=1, max_size=4, unique_by=lambda column: column[0])


def table_of(columns: list[tuple[str, pa.DataType]], layout: Layout) -> TableInfo:
    return table_info("sales.orders", schema=pa.schema(columns), properties={LAYOUT.name: layout.value})


def one_case(character: str) -> str:
    """Returns the form by which Java's `String.equalsIgnoreCase` compares characters that have one upper case."""
    return character.upper().lower() if len(character.upper()) == 1 else character


def structs(kind: pa.DataType) -> Iterator[list[str]]:
    """The names of the fields of each struct in a type."""
    if isinstance(kind, pa.StructType):
        yield [kind.field(index).name for index in range(kind.num_fields)]
    for index in range(kind.num_fields):
        yield from structs(kind.field(index).type)


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("lake", LAYOUTS)
@given(columns=COLUMNS)
@example(columns=[("a", pa.int64()), ("A", pa.int64())])
@example(columns=[("s", pa.struct([("a", pa.int64()), ("A", pa.int64())]))])
@example(columns=[("m", pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.int64()), ("X", pa.int64())]))))])
@example(columns=[("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])
@example(columns=[("l.element", pa.int64()), ("l", pa.list_(pa.int64()))])
@example(columns=[("__BUCKET", pa.int64())])
@example(columns=[("s", pa.int64()), ("\u017f", pa.int64())])
@example(columns=[("a", pa.struct([("\u03c3", pa.int64()), ("\u03c2", pa.int64())]))])
@example(columns=[("", pa.int64())])
def test_names_are_told_apart_without_their_case_or_refused_by_name(
    lake: str, layout: Layout, columns: list[tuple[str, pa.DataType]]
) -> None:
    try:
        planned = LAYOUTS[lake](table_of(columns, layout))
    except InvalidName as refused:
        if repr(refused.ids["column"]) not in refused.message:
            raise
        return
    names = [[name for name, _ in columns], *(fields for _, kind in columns for fields in structs(kind))]
    assert all(len({name.lower() for name in level}) == len(level) for level in names)
    assert all(len({"".join(one_case(character) for character in name) for name in level}) == len(level) for level in names)
    assert all(name and "\0" not in name for level in names for name in level)
    if lake == "iceberg":
        schema = planned.schema
        fields_by_path: dict[str, set[int]] = {}
        for path, field_id in schema._name_to_id.items():
            fields_by_path.setdefault(path.lower(), set()).add(field_id)
        assert all(len(fields) == 1 for fields in fields_by_path.values())
        assert all(schema.find_field(name).name == name for name, _ in columns)


@pytest.mark.parametrize(("name", "is_refused"), [("__op", False), ("__bucket", True), ("__Timestamp", True), ("__lakeward_place", True)])
@pytest.mark.parametrize("lake", LAYOUTS)
def test_only_names_of_lakewards_own_columns_are_refused_of_those_with_two_lines(lake: str, name: str, is_refused: bool) -> None:
    table = table_of([("id", pa.int64()), (name, pa.int64())], Layout.CLEAN)
    if is_refused:
        with pytest.raises(InvalidName, match=f"the column '{name}' of sales.orders"):
            LAYOUTS[lake](table)
    else:
        assert LAYOUTS[lake](table)


def test_a_column_with_a_dot_is_fine_where_no_struct_has_its_path() -> None:
    assert iceberg.table_layout(table_of([("a.b", pa.int64()), ("a", pa.int64())], Layout.CLEAN)).schema.find_field("a.b").name == "a.b"


@pytest.mark.parametrize("lake", LAYOUTS)
def test_a_field_with_nul_in_its_name_is_refused_by_its_path(lake: str) -> None:
    table = table_of([("a", pa.list_(pa.struct([("b\0", pa.int64())])))], Layout.CLEAN)
    with pytest.raises(InvalidName, match=r"the column 'a\.element\.b\\x00' of sales\.orders has a NUL character in its name"):
        LAYOUTS[lake](table)


@pytest.mark.parametrize(
    ("first", "second", "are_equal"),
    [
        ("a", "A", True),
        ("s", "\u017f", True),
        ("k", "\u212a", True),
        ("\u03c3", "\u03c2", True),
        ("\u00b5", "\u03bc", True),
        ("\u0131", "i", True),
        ("\u0130", "i", True),
        ("\u0130", "i\u0307", True),
        ("\u00df", "\u1e9e", True),
        ("\u1fb3", "\u1fbc", True),
        ("\u01c5", "\u01c6", True),
        ("\U00010400", "\U00010428", True),
        ("\u00df", "ss", False),
        ("\ufb01", "fi", False),
        ("\u0149", "\u02bcn", False),
        ("\u00e9", "e\u0301", False),
    ],
)
@pytest.mark.parametrize("lake", LAYOUTS)
def test_names_are_refused_that_java_or_a_lower_case_makes_equal_and_no_others(lake: str, first: str, second: str, are_equal: bool) -> None:
    """`are_equal`: what `String.equalsIgnoreCase` of Java 17 says, or for the dotted i the lower case of the whole name."""
    for columns in ([(first, pa.int64()), (second, pa.int64())], [("c", pa.struct([(first, pa.int64()), (second, pa.int64())]))]):
        if are_equal:
            with pytest.raises(InvalidName, match="differ only in case"):
                LAYOUTS[lake](table_of(columns, Layout.CLEAN))
        else:
            LAYOUTS[lake](table_of(columns, Layout.CLEAN))
