"""Values of a table whose columns grew: rows of several schema ids at once."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from support.clusters.fluss_log import schema_json
from support.clusters.fluss_rows import encode_value
from tiering.cluster.fluss.kv.snapshot_reader import ValueDecoder, ValueFormat
from tiering.cluster.fluss.log.packed_rows import RowEncoding
from tiering.errors import SourceChanged
from tiering.model.tables import TablePath

OLD = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string())])
NEW = OLD.append(pa.field("tags", pa.list_(pa.field("element", pa.string()))))
PLAIN = ValueFormat()
SCHEMAS = {1: schema_json(OLD), 2: schema_json(NEW)}


def decoded(
    schema: pa.Schema, values: list[bytes], schemas: dict[int, bytes] = SCHEMAS, value_format: ValueFormat = PLAIN
) -> list[dict[str, object]]:
    batches = list(ValueDecoder(TablePath("db", "t"), schema, schemas, value_format).decode(values))
    assert all(batch.schema.equals(schema) for batch in batches)
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: int(row["id"]))


def test_columns_that_were_added_later_are_null() -> None:
    values = [
        encode_value(schema_id, (OLD, NEW)[schema_id - 1].types, row)
        for schema_id, row in ((1, (1, "a")), (2, (2, None, ["x"])), (1, (3, "c")))
    ]

    rows = decoded(NEW, values)

    assert rows == [{"id": 1, "s": "a", "tags": None}, {"id": 2, "s": None, "tags": ["x"]}, {"id": 3, "s": "c", "tags": None}]


def test_the_table_s_own_types_are_used() -> None:
    written = pa.schema([pa.field("at", pa.timestamp("ms")), pa.field("code", pa.binary(2))])
    table = pa.schema([pa.field("at", pa.timestamp("us")), pa.field("code", pa.binary())])

    decoder = ValueDecoder(TablePath("db", "t"), table, {1: schema_json(written)}, ValueFormat())
    (batch,) = decoder.decode([encode_value(1, written.types, (-5, b"ab"))])

    assert batch.schema.equals(table)
    assert batch.column(0).cast(pa.int64()).to_pylist() == [-5_000]
    assert batch.column(1).to_pylist() == [b"ab"]


@pytest.mark.parametrize("schema_id", [2, 3])
def test_columns_that_the_table_did_not_have_yet_change_the_source(schema_id: int) -> None:
    with pytest.raises(SourceChanged, match=r"db\.t"):
        decoded(OLD, [encode_value(schema_id, NEW.types, (1, "a", []))])


@pytest.mark.parametrize("value", [b"", b"\1", struct.pack("<h", 1)])
def test_a_value_without_a_row_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"value|row"):
        decoded(OLD, [encode_value(1, OLD.types, (1, "a")), value])


TAGGED = {"table.kv.value-layout-version": "2"}


def test_the_tag_of_a_value_with_an_expiry_is_passed_over() -> None:
    value_format = ValueFormat.of(TAGGED)
    assert value_format is not None
    values = [struct.pack(">q", tag) + encode_value(1, OLD.types, (tag, "a")) for tag in (-1, 0, 2**40)]
    assert decoded(OLD, values, value_format=value_format) == [{"id": tag, "s": "a"} for tag in (-1, 0, 2**40)]
    for short in (b"", bytes(8), bytes(9)):
        with pytest.raises(ValueError, match="a value ends before or within its schema id"):
            decoded(OLD, [*values, short], value_format=value_format)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, ValueFormat()),
        ({"table.kv.value-layout-version": "1", "table.kv.format": "INDEXED"}, ValueFormat(RowEncoding.INDEXED)),
        (TAGGED, ValueFormat(schema_id_start=8)),
        ({"table.kv.value-layout-version": "3"}, None),
        ({**TAGGED, "table.kv.format": "UNKNOWN"}, None),
    ],
)
def test_an_unknown_format_of_values_is_none(properties: dict[str, str], expected: ValueFormat | None) -> None:
    """Such a table is read from its log."""
    assert ValueFormat.of(properties) == expected
