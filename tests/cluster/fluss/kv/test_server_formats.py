"""Tables of a real Fluss whose logs and KV snapshots hold rows in formats other than the usual ones."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import google_crc32c
import pyarrow as pa
import pytest

from support.clusters.fluss_log import packed_record_batch
from support.clusters.fluss_rows import encode_row, varint
from support.clusters.fluss_snapshots import snapshot_rows, snapshots_up_to
from support.clusters.fluss_tables import FlussTables
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.log.packed_rows import RowEncoding
from tiering.cluster.fluss.log.reader import open_log_reader
from tiering.cluster.fluss.settings import FlussConnection, FlussSettings
from tiering.cluster.fluss.source import FlussSource, SchemaHistory
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, ChangeType, TableInfo

B0 = BucketKey(None, 0)
_PRODUCE_LOG, _PUT_KV, _VERSION, _REQUEST_ID = 1014, 1016, 0, 1
_NO_WRITER, _NO_SEQUENCE = -1, -1
_VARINT, _BYTES = 0, 2
"""Wire types of requests that write rows in the format INDEXED, which pyfluss does not write."""
POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
COLUMNS: Sequence[tuple[str, pa.DataType, Any, Any]] = (
    ("id", pa.int64(), 1, 1),
    ("a_bool", pa.bool_(), True, True),
    ("an_int8", pa.int8(), -8, -8),
    ("an_int16", pa.int16(), -1_600, -1_600),
    ("an_int32", pa.int32(), -(2**31), -(2**31)),
    ("a_float", pa.float32(), 1.5, 1.5),
    ("a_double", pa.float64(), -2.25, -2.25),
    ("a_string", pa.string(), "žluťoučký kůň", "žluťoučký kůň"),
    ("some_bytes", pa.binary(), b"\1\xff", b"\1\xff"),
    ("a_small_decimal", pa.decimal128(9, 2), Decimal("-12.34"), Decimal("-12.34")),
    ("a_large_decimal", pa.decimal128(20, 2), Decimal("123456789012345678.25"), Decimal("123456789012345678.25")),
    ("a_date", pa.date32(), -165, date(1969, 7, 20)),
    ("milliseconds", pa.timestamp("ms"), 1_704_164_645_678, datetime(2024, 1, 2, 3, 4, 5, 678_000)),
    ("microseconds", pa.timestamp("us"), 1_704_164_645_678_901, datetime(2024, 1, 2, 3, 4, 5, 678_901)),
    ("an_instant", pa.timestamp("us", "UTC"), 1_704_164_645_678_901, datetime(2024, 1, 2, 3, 4, 5, 678_901, UTC)),
    ("numbers", pa.list_(pa.int64()), [1, None, -3], [1, None, -3]),
    ("counts", pa.map_(pa.string(), pa.int64()), [("a", 1), ("much longer", None)], [("a", 1), ("much longer", None)]),
    ("a_point", POINT, {"x": 5, "y": "here"}, {"x": 5, "y": "here"}),
    ("points", pa.list_(POINT), [{"x": 1, "y": "a"}, None], [{"x": 1, "y": "a"}, None]),
)
"""Name, type, the value as it is encoded, and as it is read."""
SCHEMA = pa.schema([pa.field(name, kind, name != "id") for name, kind, _, _ in COLUMNS])
FULL = [value for _, _, value, _ in COLUMNS]
READ = {name: value for name, _, _, value in COLUMNS}
EMPTY = {name: 2 if name == "id" else None for name in SCHEMA.names}


@pytest.fixture(scope="module")
def tables(fluss: LocalFlussCluster) -> Iterator[FlussTables]:
    tables = FlussTables(fluss.bootstrap_servers)
    yield tables
    tables.close()


def described(tables: FlussTables, table: TableInfo) -> TableInfo:
    """The table as its cluster describes it, options included."""
    connection = FlussConnection.parse(",".join(tables.connection.bootstrap_servers))
    source = FlussSource(connection, FlussClient(connection), FlussSettings(connection.bootstrap_servers, "x"))
    try:
        return source.table(table.path)
    finally:
        source.close()


def changes(tables: FlussTables, table: TableInfo) -> list[tuple[str, dict[str, Any]]]:
    """Returns the log of bucket 0: change types, and rows without the columns that the log adds."""
    table = described(tables, table)
    bounds = BucketLog(tables.client, table.path, table.table_id, B0).bounds()
    split = TieringLogSplit(table.path, B0, None, 0, bounds.log_end, bounds.log_end)
    reader = open_log_reader(tables.connection, table, split, bounds, SchemaHistory(tables.client).of(table), {})
    rows = [row for batch in reader.read() for row in batch.to_pylist()]
    assert [row["__offset"] for row in rows] == list(range(bounds.log_end))
    return [(ChangeType(row.get("__change_type", 0)).name, {name: row[name] for name in table.schema.names}) for row in rows]


def leader_of(tables: FlussTables, table: TableInfo) -> str:
    """The address of a server that takes rows of a new table."""
    BucketLog(tables.client, table.path, table.table_id, B0).bounds()  # once its leader answers
    return str(tables.client.leader_of(table.path, table.table_id, B0))


def test_kv_snapshots_of_indexed_rows_have_what_the_server_itself_reads_in_them(tables: FlussTables) -> None:
    """The server decodes the rows to write the log, which is in Arrow: 0.9.1 refuses rows of such a table whose log is INDEXED, too."""
    table = tables.create("indexed", SCHEMA, ["id"], properties={"table.kv.format": "INDEXED"})
    leader = leader_of(tables, table)
    put_rows(leader, table.table_id, SCHEMA.types, [FULL, list(EMPTY.values())], [])

    known = described(tables, table)
    rows = snapshot_rows(tables, known, snapshots_up_to(tables, known, 2))
    assert [{name: row[name] for name in SCHEMA.names} for row in rows] == [READ, EMPTY]
    changed = [*FULL[:7], "another text", *FULL[8:]]
    put_rows(leader, table.table_id, SCHEMA.types, [changed], [2])
    assert changes(tables, table) == [
        ("INSERT", READ),
        ("INSERT", EMPTY),
        ("UPDATE_BEFORE", READ),
        ("UPDATE_AFTER", {**READ, "a_string": "another text"}),
        ("DELETE", EMPTY),
    ]


def test_a_log_of_indexed_rows_is_read(tables: FlussTables) -> None:
    table = tables.create("indexed_log", SCHEMA, properties={"table.log.format": "INDEXED"})
    rows = [encode_row(SCHEMA.types, row, RowEncoding.INDEXED) for row in (FULL, list(EMPTY.values()))]
    append_batch(leader_of(tables, table), table.table_id, packed_record_batch(rows, [0, 0]))
    assert [row for _, row in changes(tables, table)] == [READ, EMPTY]


def test_a_changelog_of_compacted_rows_is_read(tables: FlussTables) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
    table = tables.create("compacted_log", schema, ["id"], properties={"table.log.format": "COMPACTED"})
    tables.upsert(table, [{"id": number, "text": f"row {number}"} for number in range(50)])
    tables.upsert(table, [{"id": 7, "text": None}])
    tables.delete(table, [{"id": 8}])
    assert changes(tables, table) == [
        *(("INSERT", {"id": number, "text": f"row {number}"}) for number in range(50)),
        ("UPDATE_BEFORE", {"id": 7, "text": "row 7"}),
        ("UPDATE_AFTER", {"id": 7, "text": None}),
        ("DELETE", {"id": 8, "text": "row 8"}),
    ]


@pytest.mark.parametrize("compression", ["LZ4_FRAME", "ZSTD", "NONE"])
def test_a_changelog_whose_texts_are_all_empty_is_read_in_each_compression(tables: FlussTables, compression: str) -> None:
    """The server writes the changelog with Arrow's Java library, which compresses an empty buffer in its own way."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
    properties = {"table.log.arrow.compression.type": compression}
    table = tables.create(f"empty_texts_{compression.lower()}", schema, ["id"], properties=properties)
    tables.upsert(table, [{"id": 1, "text": None}, {"id": 2, "text": ""}])
    assert changes(tables, table) == [("INSERT", {"id": 1, "text": None}), ("INSERT", {"id": 2, "text": ""})]


def put_rows(address: str, table_id: int, types: Sequence[pa.DataType], rows: Sequence[Sequence[object]], deletes: Sequence[int]) -> None:
    """Upserts the rows, whose first column is their key, into bucket 0, and deletes those with the other keys; the server has it all."""
    records = [_record(row[0], encode_row(types, row, RowEncoding.INDEXED)) for row in rows]
    records += [_record(key, b"") for key in deletes]
    covered = struct.pack("<hbqii", 1, 0, _NO_WRITER, _NO_SEQUENCE, len(records)) + b"".join(records)
    batch = struct.pack("<bI", 0, google_crc32c.value(covered)) + covered
    _send(address, _PUT_KV, _request(table_id, 5, struct.pack("<i", len(batch)) + batch))


def append_batch(address: str, table_id: int, batch: bytes) -> None:
    """Appends a record batch to bucket 0 of a log table; the server has it."""
    _send(address, _PRODUCE_LOG, _request(table_id, 4, batch))


def _request(table_id: int, bucket_field: int, records: bytes) -> bytes:
    """Returns a write request that waits for all replicas, for 30 s."""
    return _field(1, -1) + _field(2, table_id) + _field(3, 30_000) + _field(bucket_field, _field(2, 0) + _field(3, records))


def _send(address: str, api_key: int, body: bytes) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">ihhi", len(body) + 8, api_key, _VERSION, _REQUEST_ID) + body)
        length, kind, request_id = struct.unpack(">ibi", answers.read(9))
        answer = answers.read(length - 5)
    assert (kind, request_id) == (0, _REQUEST_ID), answer
    assert b"\x18" not in answer[:6], answer  # field 3 of the bucket: an error code


def _record(key: object, row: bytes) -> bytes:
    """The server takes the key as it is."""
    assert isinstance(key, int)
    name = varint(8, 32) + struct.pack(">q", key)
    return struct.pack("<i", len(name) + len(row)) + name + row


def _field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3 | _VARINT, 32) + varint(value, 64)
    return varint(number << 3 | _BYTES, 32) + varint(len(value), 32) + value
