"""Rows and schemas that a client sends: whatever bytes they are, the service takes them whole or says that they are none."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable

import grpc
import pyarrow as pa
import pytest

from support.clusters.embedded import PATH, make_table, orders, served
from tiering.cluster.column_types import storable_schema
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.log_writer import LogWriter
from tiering.errors import InvalidArgument, InvalidData, LakewardError
from tiering.library_guards.arrow_ipc import WRITE_LIMITS, read_rows, read_schema, rows_bytes
from tiering.model.schema.changes import additions
from tiering.rpc.v1 import embedded_pb2
from tiering.wire import model_codecs

EXAMPLES = 1_500
ROWS = pa.record_batch(
    {
        "id": pa.array(range(40)),
        "text": [f"\u00e9{number}" for number in range(40)],
        "at": pa.array([0] * 40, pa.timestamp("us", "UTC")),
        "nested": [{"list": [1, None], "b": "z"}] * 40,
    }
)


def damaged(whole: bytes, seed: random.Random) -> bytes:
    content = bytearray(whole)
    for _ in range(seed.choice([1, 1, 2, 5])):
        at = seed.randrange(len(content))
        match seed.randrange(4):
            case 0:
                content[at] ^= 1 << seed.randrange(8)
            case 1:
                content[at] = seed.choice([0, 127, 255])
            case 2:
                content[at : at + 8] = seed.randbytes(8)
            case _:
                del content[at + 1 :]
    return bytes(content)


def take_rows(content: bytes) -> None:
    table = read_rows(content, WRITE_LIMITS)
    assert isinstance(table, pa.Table)
    table.validate(full=True)
    table.select(table.schema.names)


def take_schema(content: bytes) -> None:
    storable_schema(read_schema(content))


@pytest.mark.parametrize(("whole", "take"), [(rows_bytes(ROWS), take_rows), (ROWS.schema.serialize().to_pybytes(), take_schema)])
def test_damaged_bytes_are_refused_or_whole(whole: bytes, take: Callable[[bytes], None]) -> None:
    seed, refused = random.Random(take.__name__), 0
    take(whole)
    for _ in range(EXAMPLES):
        try:
            take(damaged(whole, seed))
        except LakewardError:
            refused += 1
    assert EXAMPLES // 2 < refused < EXAMPLES


def test_a_column_whose_name_is_no_text_is_refused() -> None:
    whole = pa.schema([("name", pa.int64())]).serialize().to_pybytes()
    with pytest.raises(InvalidData, match="not UTF-8"):
        read_schema(whole.replace(b"name", b"n\xffme"))
    with pytest.raises((InvalidData, InvalidArgument)):
        read_rows(b"", WRITE_LIMITS)


def test_a_short_request_that_stands_for_gigabytes_is_refused_and_the_service_goes_on(storage: EmbeddedStorage) -> None:
    lists = pa.Array.from_buffers(pa.list_(pa.int8(), 0), 100_000_000, [None], children=[pa.array([], pa.int8())])
    content = rows_bytes(pa.RecordBatch.from_arrays([lists], ["id"]))
    assert len(content) < 1_000
    make_table(storage)
    with served(storage) as remote:
        path = model_codecs.PATH.to_pb(PATH)
        for request, call in (
            (embedded_pb2.AppendRequest(table_path=path, rows=content, writer_id="w"), remote._stub.Append),
            (embedded_pb2.UpsertRequest(table_path=path, rows=content, writer_id="w"), remote._stub.Upsert),
            (embedded_pb2.DeleteRequest(table_path=path, keys=content, writer_id="w"), remote._stub.Delete),
        ):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            with pytest.raises(grpc.RpcError, match="not taken in rows"):
                call(request, timeout=60)
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024, "kilobytes"
        remote.append(PATH, orders(0, 3), "w", 0)


def test_rows_of_few_bytes_are_cut_into_as_many_writes_as_it_takes(storage: EmbeddedStorage) -> None:
    schema = pa.schema([("flag", pa.bool_())])
    table = make_table(storage, schema=schema)
    count = 2 * WRITE_LIMITS.rows + 1
    with served(storage) as remote:
        LogWriter(remote, PATH, "w").append(pa.table({"flag": [True] * count}, schema=schema))
    assert sum(ends.log_end for ends in storage.offsets(table).values()) == count


def test_a_write_that_leaves_many_columns_out_of_many_rows_is_refused(storage: EmbeddedStorage) -> None:
    schema = pa.schema([("flag", pa.bool_())])
    make_table(storage, schema=schema)
    storage.alter_table(PATH, {}, additions([pa.field(f"c{number}", pa.int64()) for number in range(100)]))
    rows = pa.table({"flag": [True] * 400_000, "c99": pa.nulls(400_000, pa.int64())})
    with pytest.raises(InvalidData, match="without 99 of the columns"):
        storage.append(PATH, rows, "w", 0)
    storage.append(PATH, rows.slice(0, 1_000), "w", 0)
