"""Writes what a Fluss server keeps in its log: record batches in the Arrow format, and descriptions of schemas."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import google_crc32c
import pyarrow as pa
from pyarrow import ipc

VERSIONS = (0, 1, 2)
"""Known versions of record batches."""
MAGIC_PLACE = 12
"""The position of the version in a record batch."""
HEADER_BYTES = {0: 48, 1: 52, 2: 56}
CRC_PLACES = {0: 21, 1: 21, 2: 25}
"""The position of the checksum in a record batch of each version."""
UNPROTECTED_BYTES = {0: range(13, 21), 1: range(13, 21), 2: range(13, 25)}
"""Commit time and leader epoch of a record batch of each version, which its checksum does not cover."""
LEADER_EPOCH = 4


def record_batch(
    rows: pa.RecordBatch,
    starting_offset: int,
    *,
    change_types: Sequence[int] | None = None,
    commit_ms: int = 1_700_000_000_000,
    schema_id: int = 1,
    offsets: int | None = None,
    compression: str | None = None,
    version: int = 0,
    statistics: bytes = b"",
    writer: tuple[int, int] = (7, 3),
) -> bytes:
    """One record batch; append-only without change types. `offsets`: how many it uses, if not one a row. Version 0 has no statistics.

    `writer`: id and sequence; -1 each for a writer without idempotence.
    """
    last_delta = (rows.num_rows if offsets is None else offsets) - 1
    records = bytes(change_types or ()) + message(rows, compression) if rows.num_rows else b""
    counts = (last_delta, rows.num_rows)
    return _framed(starting_offset, commit_ms, (schema_id, change_types is None), writer, counts, records, version, statistics)


def packed_record_batch(
    rows: Sequence[bytes],
    change_types: Sequence[int],
    *,
    content: bytes | None = None,
    version: int = 0,
    statistics: bytes = b"",
) -> bytes:
    """A record batch from offset 0 on whose rows are packed one by one, each with its change type; `content` in place of these."""
    if content is None:
        content = b"".join(struct.pack("<ib", len(row) + 1, kind) + row for row, kind in zip(rows, change_types, strict=True))
    counts = (len(rows) - 1, len(rows))
    return _framed(0, 1_700_000_000_000, (1, not any(change_types)), (-1, -1), counts, content, version, statistics)


def _framed(
    starting_offset: int,
    commit_ms: int,
    schema: tuple[int, bool],
    writer: tuple[int, int],
    counts: tuple[int, int],
    records: bytes,
    version: int,
    statistics: bytes,
) -> bytes:
    """The records with their header. `schema`: id, append-only; `writer`: id, sequence; `counts`: last offset delta, records."""
    covered = struct.pack("<hbiqii", *schema, counts[0], *writer, counts[1])
    covered += struct.pack("<i", len(statistics)) + statistics if version else b""
    covered += records
    before = struct.pack("<bq", version, commit_ms) + (struct.pack("<i", LEADER_EPOCH) if version == 2 else b"")
    crc = struct.pack("<I", google_crc32c.value(covered))
    return struct.pack("<qi", starting_offset, len(before) + len(crc) + len(covered)) + before + crc + covered


def message(rows: pa.RecordBatch, compression: str | None = None) -> bytes:
    """The rows as an Arrow record batch message without a schema."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, rows.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(rows)
    reader = ipc.MessageReader.open_stream(pa.BufferReader(sink.getvalue()))
    reader.read_next_message()
    return reader.read_next_message().serialize().to_pybytes()


def schema_json(schema: pa.Schema) -> bytes:
    """A schema as GetTableSchema answers it. Each column and each field of a ROW has an id."""
    columns = [{"name": field.name, "data_type": type_json(field.type, field.nullable), "id": index} for index, field in enumerate(schema)]
    ids = itertools.count(len(columns))
    for field in itertools.chain.from_iterable(_fields_of(column["data_type"]) for column in columns):
        field["field_id"] = next(ids)
    return json.dumps({"version": 1, "columns": columns, "highest_field_id": next(ids) - 1}).encode()


def _fields_of(described: Any) -> Iterator[dict[str, Any]]:
    """Yields the fields of all ROWs in a type."""
    for field in described.get("fields", ()):
        yield field
        yield from _fields_of(field["field_type"])
    for name in {"key_type", "value_type", "element_type"} & described.keys():
        yield from _fields_of(described[name])


_ROOTS = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BYTES",
    pa.date32(): "DATE",
}
_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def type_json(kind: pa.DataType, is_nullable: bool = True) -> dict[str, Any]:
    """A type as Fluss describes it."""
    description = _described(kind)
    return description if is_nullable else {**description, "nullable": False}


def _described(kind: Any) -> dict[str, Any]:
    if kind in _ROOTS:
        return {"type": _ROOTS[kind]}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "BINARY", "length": kind.byte_width}
    if pa.types.is_decimal(kind):
        return {"type": "DECIMAL", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind):
        root = "TIMESTAMP_WITH_LOCAL_TIME_ZONE" if kind.tz else "TIMESTAMP_WITHOUT_TIME_ZONE"
        return {"type": root, "precision": _PRECISIONS[kind.unit]}
    if pa.types.is_time(kind):
        return {"type": "TIME_WITHOUT_TIME_ZONE", "precision": _PRECISIONS[kind.unit]}
    if pa.types.is_map(kind):
        return {
            "type": "MAP",
            "key_type": type_json(kind.key_type, False),
            "value_type": type_json(kind.item_type, kind.item_field.nullable),
        }
    if pa.types.is_list(kind):
        return {"type": "ARRAY", "element_type": type_json(kind.value_type, kind.value_field.nullable)}
    assert pa.types.is_struct(kind), kind
    fields = [kind.field(index) for index in range(kind.num_fields)]
    return {
        "type": "ROW",
        "fields": [{"name": field.name, "field_type": type_json(field.type, field.nullable)} for field in fields],
    }
