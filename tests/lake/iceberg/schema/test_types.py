"""Columns that a lake table cannot hold, or not in that role: refused by name before anything is written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import DateType

from tiering.errors import InvalidArgument, InvalidName, UnsupportedType
from tiering.lake.iceberg.schema.layout import table_layout

SALES = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("amount", pa.float64())])


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint8(),
        pa.uint64(),
        pa.float16(),
        pa.timestamp("ns"),
        pa.time64("us"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(50, 2),
        pa.null(),
        pa.list_(pa.uint32()),
        pa.struct([("inner", pa.timestamp("ns"))]),
        pa.map_(pa.string(), pa.uint16()),
    ],
    ids=str,
)
def test_a_type_that_the_lake_lacks_is_named(kit: Any, kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedType, match="'odd'") as caught:
        kit.lake.check_schema(kit.table(schema=pa.schema([("odd", kind)])))
    assert caught.value.ids["column"] == "odd"


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (pa.struct([]), UnsupportedType),
        (pa.list_(pa.struct([])), UnsupportedType),
        (pa.struct([("a", pa.int32()), ("A", pa.int32())]), InvalidName),
        (pa.list_(pa.struct([("a", pa.int32()), ("a", pa.int32())])), InvalidName),
        (pa.map_(pa.string(), pa.struct([("a.b", pa.int32())])), InvalidName),
        (pa.struct([("", pa.int32())]), InvalidName),
    ],
    ids=str,
)
def test_structs_that_readers_cannot_tell_apart_are_refused(kit: Any, kind: pa.DataType, error: type[Exception]) -> None:
    with pytest.raises(error, match="'odd"):
        kit.lake.check_schema(kit.table(schema=pa.schema([("odd", kind)])))


def test_checking_a_schema_touches_no_catalog(kit: Any) -> None:
    kit.lake.check_schema(kit.table())
    assert not list(kit.folder.iterdir())


@pytest.mark.parametrize("kind", [pa.bool_(), pa.float32(), pa.float64(), pa.list_(pa.int32())], ids=str)
def test_bucket_keys_that_iceberg_cannot_hash_are_refused(kit: Any, kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedType, match="bucket key"):
        kit.lake.check_schema(kit.table(schema=pa.schema([pa.field("k", kind, nullable=False)]), bucket_keys=("k",)))


def test_nullable_bucket_keys_odd_partition_columns_and_taken_names_are_refused(kit: Any) -> None:
    with pytest.raises(InvalidArgument, match="nullable"):
        kit.lake.check_schema(kit.table(schema=pa.schema([("k", pa.int64())]), bucket_keys=("k",)))
    with pytest.raises(UnsupportedType, match="partition column"):
        kit.lake.check_schema(kit.table(schema=SALES, partition_keys=("amount",)))
    taken = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("k_bucket", pa.int64())])
    with pytest.raises(InvalidName, match="k_bucket"):
        kit.lake.check_schema(kit.table(schema=taken, bucket_keys=("k",)))


def test_partition_columns_may_be_dates_strings_and_integers(kit: Any) -> None:
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in (("d", pa.date32()), ("s", pa.string()), ("i", pa.int32()))])
    layout = table_layout(kit.table(schema=schema, partition_keys=("d", "s", "i")))
    assert [str(layout.schema.find_field(field.source_id).field_type) for field in layout.spec.fields] == ["date", "string", "int", "int"]
    assert isinstance(layout.schema.find_field("d").field_type, DateType)
