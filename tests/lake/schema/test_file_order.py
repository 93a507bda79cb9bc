"""The text of the options for partition and sort, and the columns that they may name."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.errors import InvalidArgument
from tiering.lake.schema.file_order import (
    PartitionEntry,
    SortEntry,
    Transform,
    check_partition,
    check_sort,
    entries_text,
    parse_partition,
    parse_sort,
    transforms_of,
)
from tiering.model.tables import TableInfo, TablePath, TableType

OPTION = "table.datalake.partition"
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "price": pa.float64(),
        "ts": pa.timestamp("us"),
        "day": pa.date32(),
        "region": pa.string(),
        "tags": pa.list_(pa.string()),
        "id_bucket_8": pa.string(),
    }
)
COLUMNS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8)


def table(**changes: object) -> TableInfo:
    fields: dict[str, object] = {"partition_keys": ("region",), "bucket_count": 2, "created_at": datetime(2026, 1, 1, tzinfo=UTC)}
    return TableInfo(1, TablePath("shop", "orders"), TableType.LOG, SCHEMA, **(fields | changes))  # type: ignore[arg-type]


def test_a_partition_is_read() -> None:
    assert parse_partition("day(ts), bucket(8, id),truncate( 4 ,`a, (b`), region , YEARS(x)", OPTION) == (
        PartitionEntry(Transform.DAY, "ts"),
        PartitionEntry(Transform.BUCKET, "id", 8),
        PartitionEntry(Transform.TRUNCATE, "a, (b", 4),
        PartitionEntry(Transform.IDENTITY, "region"),
        PartitionEntry(Transform.YEAR, "x"),
    )
    assert parse_partition("none", OPTION) == ()


def test_a_sort_is_read() -> None:
    assert parse_sort("customer, ts DESC, `order` asc nulls last, x desc nulls first", OPTION) == (
        SortEntry("customer"),
        SortEntry("ts", descending=True, nulls_first=False),
        SortEntry("order", nulls_first=False),
        SortEntry("x", descending=True, nulls_first=True),
    )
    assert parse_sort("none", OPTION) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "day()",
        "day(ts",
        "week(ts)",
        "bucket(id)",
        "bucket(0, id)",
        "bucket(9999999, id)",
        "day(3, ts)",
        "a,,b",
        "a b",
        "identity(8, a)",
    ],
)
def test_a_wrong_entry_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidArgument, match=OPTION):
        parse_partition(text, OPTION)


@pytest.mark.parametrize("text", ["", "a b", "a desc asc", "a nulls", "a, a desc", "day(ts)"])
def test_a_wrong_sort_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidArgument, match=OPTION):
        parse_sort(text, OPTION)


@pytest.mark.parametrize("text", ["day(ts), hours(ts)", "bucket(8, id), bucket(8, id)", "id, id"])
def test_an_entry_that_another_one_implies_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="of which one tells the partition already"):
        parse_partition(text, OPTION)


@given(st.lists(st.tuples(st.sampled_from(Transform), COLUMNS), min_size=0, max_size=5, unique_by=lambda entry: entry[1]))
def test_the_text_of_a_partition_reads_as_the_same_entries(drawn: list[tuple[Transform, str]]) -> None:
    entries = tuple(PartitionEntry(how, column, 7 if how.has_number else None) for how, column in drawn)
    assert parse_partition(entries_text(entries), OPTION) == entries


@given(st.lists(st.tuples(COLUMNS, st.booleans(), st.booleans()), max_size=5, unique_by=lambda entry: entry[0]))
def test_the_text_of_a_sort_reads_as_the_same_entries(drawn: list[tuple[str, bool, bool]]) -> None:
    entries = tuple(SortEntry(*entry) for entry in drawn)
    assert parse_sort(entries_text(entries), OPTION) == entries


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("day(id)", "'id' of type int64 does not have that transform"),
        ("hours(day)", "'day' of type date32.* does not have that transform"),
        ("truncate(3, ts)", "'ts' of type timestamp.* does not have that transform"),
        ("bucket(3, price)", "'price' of type double does not have that transform"),
        ("tags", "'tags' of type list.* does not have that transform"),
        ("bucket(8, rejion)", "'rejion', which shop.orders does not have"),
        ("truncate(2, region)", "'region' is a partition column"),
        ("bucket(8, id)", "'id_bucket_8' has the name of a column"),
    ],
)
def test_a_partition_that_the_columns_do_not_allow_is_refused(entry: str, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        check_partition(table(), parse_partition(entry, OPTION), OPTION)
    check_partition(table(), parse_partition("bucket(9, id), hours(ts), months(day), id", OPTION), OPTION)


def test_the_error_names_the_transforms_of_the_type() -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_partition(table(), parse_partition("truncate(3, ts)", OPTION), OPTION)
    assert "identity, year, month, day, hour, bucket" in str(refused.value.hint)


def test_a_sort_by_a_nested_or_unknown_column_is_refused() -> None:
    check_sort(table(), parse_sort("price, ts desc, region", OPTION), OPTION)
    with pytest.raises(InvalidArgument, match=r"'tags' of type list.*, which has no order"):
        check_sort(table(), parse_sort("id, tags", OPTION), OPTION)
    with pytest.raises(InvalidArgument, match=r"'x', which shop\.orders does not have"):
        check_sort(table(), parse_sort("x", OPTION), OPTION)


@pytest.mark.parametrize(
    "kind", [pa.bool_(), pa.int8(), pa.int64(), pa.decimal128(9, 2), pa.string(), pa.binary(), pa.date32(), pa.float32()]
)
def test_the_transforms_of_a_type_are_those_of_iceberg(kind: pa.DataType) -> None:
    from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, MonthTransform, TruncateTransform, YearTransform

    from tiering.lake.iceberg.schema.types import iceberg_type

    others = {
        Transform.YEAR: YearTransform(),
        Transform.MONTH: MonthTransform(),
        Transform.DAY: DayTransform(),
        Transform.HOUR: HourTransform(),
        Transform.BUCKET: BucketTransform(3),
        Transform.TRUNCATE: TruncateTransform(3),
    }
    of_iceberg = {name for name, transform in others.items() if transform.can_transform(iceberg_type("c", kind, lambda: 0))}
    assert set(transforms_of(kind)) - {Transform.IDENTITY} == of_iceberg
