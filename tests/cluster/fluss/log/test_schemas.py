"""Schemas as Fluss describes them, and rows of one schema as rows of the table as it is now."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.fluss_log import schema_json
from tiering.cluster.fluss.log.schemas import log_layout, parse_schema_json
from tiering.errors import InvalidAnswer, SourceChanged, UnsupportedType

TYPES: dict[str, tuple[dict[str, Any], Any]] = {
    "char": ({"type": "CHAR", "length": 3}, pa.string()),
    "binary": ({"type": "BINARY", "length": 3}, pa.binary(3)),
    "decimal": ({"type": "DECIMAL", "precision": 38, "scale": 4}, pa.decimal128(38, 4)),
    "seconds": ({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 0}, pa.timestamp("s")),
    "milliseconds": ({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 1}, pa.timestamp("ms")),
    "microseconds": ({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 4}, pa.timestamp("us")),
    "nanoseconds": ({"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 9}, pa.timestamp("ns", "UTC")),
    "time": ({"type": "TIME_WITHOUT_TIME_ZONE", "precision": 3}, pa.time32("ms")),
    "finer time": ({"type": "TIME_WITHOUT_TIME_ZONE", "precision": 6}, pa.time64("us")),
    "array": ({"type": "ARRAY", "element_type": {"type": "INTEGER"}}, pa.list_(pa.field("element", pa.int32()))),
    "map": ({"type": "MAP", "key_type": {"type": "STRING"}, "value_type": {"type": "BIGINT"}}, pa.map_(pa.string(), pa.int64())),
    "row": ({"type": "ROW", "fields": [{"name": "a", "field_type": {"type": "DATE"}}]}, pa.struct([("a", pa.date32())])),
}


def parsed(kind: dict[str, Any]) -> Any:
    return parse_schema_json(json.dumps({"columns": [{"name": "c", "id": 5, "data_type": kind}]})).field(0)


@pytest.mark.parametrize("name", TYPES)
def test_each_type_is_the_one_that_the_log_is_written_in(name: str) -> None:
    described, expected = TYPES[name]
    column = parsed(described)
    assert (column.type, column.nullable) == (expected, True)
    assert parsed({**described, "nullable": False}).nullable is False


def test_a_type_of_a_later_fluss_is_refused_by_its_name() -> None:
    with pytest.raises(UnsupportedType, match=r"'c\.element' has the Fluss type VARIANT"):
        parsed({"type": "ARRAY", "element_type": {"type": "VARIANT"}})


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"columns": [{"name": "c"}]}', '{"columns": [{"name": "c", "data_type": {"type": "DECIMAL"}}]}']
)
def test_a_schema_that_cannot_be_read_is_an_invalid_answer(text: str) -> None:
    with pytest.raises(InvalidAnswer):
        parse_schema_json(text)


def layout_of(log: pa.Schema, table: pa.Schema) -> Any:
    return log_layout(parse_schema_json(schema_json(log)), table, "sales.orders")


def test_rows_that_are_written_as_they_are_read_are_not_touched() -> None:
    nested = pa.map_(pa.string(), pa.list_(pa.field("element", pa.struct([("x", pa.int32())]), nullable=True)))
    table = pa.schema([pa.field("id", pa.int64(), nullable=False), ("m", nested), ("t", pa.timestamp("us", "UTC"))])
    layout = layout_of(table, table)
    batch = pa.RecordBatch.from_pylist([{"id": 1, "m": [("a", [{"x": 2}])], "t": 5}], schema=layout.written)
    assert layout.is_identity
    assert layout.written.equals(table)
    assert layout.rows(batch) is batch


def test_times_and_bytes_become_the_tables_types_at_any_depth() -> None:
    log = pa.schema(
        {"s": pa.timestamp("s"), "ms": pa.timestamp("ms", "UTC"), "b": pa.binary(2), "l": pa.list_(pa.field("element", pa.timestamp("ms")))}
    )
    table = pa.schema(
        {"s": pa.timestamp("us"), "ms": pa.timestamp("us", "UTC"), "b": pa.binary(), "l": pa.list_(pa.field("element", pa.timestamp("us")))}
    )
    layout = layout_of(log, table)
    early = datetime(1900, 1, 1, 0, 0, 1)
    batch = pa.RecordBatch.from_pylist([{"s": early, "ms": None, "b": b"ab", "l": [early, None]}], schema=layout.written)
    rows = layout.rows(batch)
    assert rows.schema.equals(table)
    assert rows.to_pylist() == [{"s": early, "ms": None, "b": b"ab", "l": [early, None]}]


def test_columns_are_found_by_their_names_and_missing_ones_are_null() -> None:
    log = pa.schema({"b": pa.string(), "a": pa.int32()})
    table = pa.schema({"a": pa.int32(), "b": pa.string(), "c": pa.list_(pa.field("element", pa.int64()))})
    layout = layout_of(log, table)
    rows = layout.rows(pa.RecordBatch.from_pylist([{"a": 1, "b": "x"}], schema=layout.written))
    assert rows.schema.equals(table)
    assert rows.to_pylist() == [{"a": 1, "b": "x", "c": None}]


def test_a_column_that_the_table_does_not_have_yet_is_a_changed_source() -> None:
    with pytest.raises(SourceChanged, match=r"columns were added to sales\.orders since it was looked up: b"):
        layout_of(pa.schema({"a": pa.int32(), "b": pa.string()}), pa.schema({"a": pa.int32()}))


def test_a_column_of_a_type_that_cannot_become_the_tables_is_a_changed_source() -> None:
    with pytest.raises(SourceChanged, match=r"column 'a' of sales\.orders is bool in the log, and was date32"):
        layout_of(pa.schema({"a": pa.bool_()}), pa.schema({"a": pa.date32()}))
