"""Arrow from outside: what stands for far more than its bytes is refused before it is decoded, and no bytes end the process."""

from __future__ import annotations

import base64
import functools
import json
import os
import random
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

from tiering.errors import InvalidData, UnsupportedType
from tiering.library_guards.arrow_ipc import (
    MAX_DEPTH,
    MAX_FIELDS,
    WRITE_LIMITS,
    ArrowLimits,
    BodyReader,
    read_file_batch,
    read_rows,
    read_schema,
)

NUMBERS = pa.record_batch({"n": pa.array(range(1_000), pa.int64())})
MEMORY_FOR_A_REQUEST_BYTES = 256 * 1024 * 1024


def stream(*batches: pa.RecordBatch, options: ipc.IpcWriteOptions | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def patched(data: bytes, old: int, new: int) -> bytes:
    """With each 64-bit number `old` replaced: lengths in the metadata, if nothing else has that number."""
    before, after = struct.pack("<q", old), struct.pack("<q", new)
    assert before in data
    return data.replace(before, after)


def empty_lists(rows: int) -> bytes:
    kind = pa.list_(pa.int8(), 0)
    lists = pa.Array.from_buffers(kind, rows, [None], children=[pa.array([], pa.int8())])
    return stream(pa.RecordBatch.from_arrays([lists], ["a"]))


def compressed(codec: str) -> bytes:
    zeros = pa.RecordBatch.from_arrays([pa.array(np.zeros(1_000_000))], ["a"])
    return stream(zeros, options=ipc.IpcWriteOptions(compression=codec))


def overlapping() -> bytes:
    """Ten columns whose buffers are all the same bytes of the body."""
    names = [f"c{number}" for number in range(10)]
    whole = stream(pa.RecordBatch.from_arrays([pa.array([number] * 1_000, pa.int64()) for number in range(10)], names))
    for number in range(1, 10):
        whole = whole.replace(struct.pack("<qq", 8_000 * number, 8_000), struct.pack("<qq", 0, 8_000))
    return whole


def amplifying_views(length: int = 1_000_000, rows: int = 10_000, batches: int = 1) -> bytes:
    value = pa.array(["x" * length], pa.string_view())
    _, views, data = value.buffers()
    many = pa.py_buffer(views.to_pybytes() * rows)
    batch = pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.string_view(), rows, [None, many, data])], ["a"])
    return stream(*[batch] * batches)


def dictionaries() -> bytes:
    return stream(pa.RecordBatch.from_arrays([pa.array(["a"]).dictionary_encode()], ["a"]))


def run_ends() -> bytes:
    encoded = pa.RunEndEncodedArray.from_arrays(pa.array([10**9], pa.int32()), pa.array([1]))
    return stream(pa.RecordBatch.from_arrays([encoded], ["a"]))


def null_map_keys() -> bytes:
    """Arrow ends the process when it meets them: the field node of the keys says that it has 7 nulls."""
    maps = pa.MapArray.from_arrays(pa.array([0, 77], pa.int32()), pa.array(range(77)), pa.array([1] * 77))
    whole = stream(pa.RecordBatch.from_arrays([maps], ["a"]))
    return whole.replace(struct.pack("<qq", 77, 0), struct.pack("<qq", 77, 7))


BOMBS: dict[str, Callable[[], bytes]] = {
    "lists of size 0": lambda: empty_lists(100_000_000),
    "binaries of size 0": lambda: stream(pa.RecordBatch.from_arrays([pa.array([b""] * 9, pa.binary(0))], ["a"])),
    "nulls": lambda: stream(pa.RecordBatch.from_arrays([pa.nulls(100_000_000)], ["a"])),
    "empty structs": lambda: stream(pa.RecordBatch.from_arrays([pa.array([{}] * 9, pa.struct([]))], ["a"])),
    "empty structs in a list": lambda: stream(pa.RecordBatch.from_arrays([pa.array([[{}]], pa.list_(pa.struct([])))], ["a"])),
    "no columns": lambda: stream(pa.RecordBatch.from_arrays([], schema=pa.schema([]))),
    "zstd": lambda: compressed("zstd"),
    "lz4": lambda: compressed("lz4"),
    "dictionaries": dictionaries,
    "run ends": run_ends,
    "list views": lambda: stream(pa.RecordBatch.from_arrays([pa.array([[1]], pa.list_view(pa.int8()))], ["a"])),
    "overlapping buffers": overlapping,
    "views of the same bytes": amplifying_views,
    "views of the same bytes, a little in each batch": lambda: amplifying_views(60_000, 1_000, 40),
    "a row more than its bytes": lambda: patched(stream(NUMBERS), 1_000, 1_001),
    "far more rows than bytes": lambda: patched(stream(NUMBERS), 1_000, 2**62),
    "rows below zero": lambda: patched(stream(NUMBERS), 1_000, -1),
    "a buffer beyond the body": lambda: patched(stream(NUMBERS), 8_000, 2**40),
    "more rows than a request takes": lambda: stream(pa.record_batch({"b": pa.array([True] * (WRITE_LIMITS.rows + 1))})),
    "more rows in many batches": lambda: stream(*[pa.record_batch({"b": pa.array([True] * 100_001)})] * 10),
    "null map keys": null_map_keys,
    "a stream without a schema": lambda: stream(NUMBERS)[len(NUMBERS.schema.serialize()) :],
    "text": lambda: b"these are no rows at all",
    "nothing": lambda: b"",
    "a length of 2 GB": lambda: b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0" * 100,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_rows_that_stand_for_more_than_their_bytes_are_refused(bomb: str) -> None:
    data = BOMBS[bomb]()
    before = pa.total_allocated_bytes()
    with pytest.raises((InvalidData, UnsupportedType)) as caught:
        read_rows(data, WRITE_LIMITS)
    assert caught.value.message
    assert pa.total_allocated_bytes() - before < 1024 * 1024


def test_all_that_is_taken_comes_as_it_was_sent() -> None:
    rows = pa.record_batch(
        {
            "n": pa.array([1, None], pa.int16()),
            "s": pa.array(["a", None], pa.large_string()),
            "v": pa.array(["a value longer than twelve bytes", None], pa.string_view()),
            "w": pa.array([[b"another one beyond twelve", b"x"], None], pa.list_(pa.binary_view())),
            "m": pa.array([[("a", [1]), ("b", None)], None], pa.map_(pa.string(), pa.list_(pa.int8()))),
            "f": pa.array([[1.0, None], None], pa.list_(pa.float32(), 2)),
            "t": pa.array([{"a": 1, "b": {"c": True}}, None], pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.bool_())]))])),
            "d": pa.array([1, None], pa.decimal128(38, 0)),
        }
    )
    assert read_rows(stream(rows, rows.slice(1), rows.slice(0, 0)), WRITE_LIMITS).to_batches()[0].equals(rows)
    assert read_rows(stream(rows.slice(0, 0)), WRITE_LIMITS).num_rows == 0
    assert read_rows(stream(rows, rows.slice(1)), ArrowLimits(rows=3)).num_rows == 3
    assert read_schema(rows.schema.serialize().to_pybytes()) == rows.schema
    nothing = pa.RecordBatch.from_arrays([pa.nulls(3)], ["nothing"])
    assert read_rows(stream(nothing), ArrowLimits(rows=10, null_columns=True)).num_rows == 3


def file_of(rows: pa.RecordBatch, **options: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, rows.schema, **options) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def test_a_schema_may_carry_metadata() -> None:
    """pandas writes metadata, and system tables have their comments in it."""
    noted = pa.field("n", pa.int64(), metadata={"comment": "a number"})
    rows = NUMBERS.cast(pa.schema([noted], metadata={"pandas": "{}"}))
    assert read_rows(stream(rows), WRITE_LIMITS).equals(pa.Table.from_batches([rows]), check_metadata=True)


def test_a_file_is_read_by_the_same_rules() -> None:
    assert read_file_batch(file_of(NUMBERS), NUMBERS.schema, 1_000).equals(NUMBERS)
    zstd = ipc.IpcWriteOptions(compression="zstd")
    for content, schema, rows in (
        (file_of(NUMBERS, options=zstd), NUMBERS.schema, 1_000),
        (file_of(NUMBERS), NUMBERS.schema, 999),
        (file_of(NUMBERS), pa.schema([("m", pa.int64())]), 1_000),
        (file_of(NUMBERS).slice(0, 100), NUMBERS.schema, 1_000),
        (pa.py_buffer(b""), NUMBERS.schema, 1_000),
        (pa.py_buffer(null_map_keys()), NUMBERS.schema, 1_000),
    ):
        with pytest.raises(InvalidData):
            read_file_batch(content, schema, rows)


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([(f"c{number}", pa.int8()) for number in range(MAX_FIELDS + 1)]),
        pa.schema([("deep", functools.reduce(lambda kind, _: pa.list_(kind), range(MAX_DEPTH + 1), pa.int8()))]),
    ],
    ids=["wide", "deep"],
)
def test_a_schema_of_more_fields_than_any_table_is_refused(schema: pa.Schema) -> None:
    with pytest.raises(InvalidData, match="fields"):
        read_schema(schema.serialize().to_pybytes())


def shared_children(levels: int) -> bytes:
    """A schema in which each struct names the one below it many times: 16 to the power of `levels` fields. Text makes it long enough
    that Arrow, which takes so many tables for each byte, finds nothing wrong with it."""
    kind: pa.DataType = pa.int8()
    for level in range(levels):
        kind = pa.struct([(f"f{level}", kind)] + [(f"p{level}{number}", pa.int8()) for number in range(15)])
    data = bytearray(pa.schema([("a", kind)], metadata={"text": "x" * 500_000}).serialize().to_pybytes())
    for at in range(0, len(data) - 68, 4):
        # A vector of 16 children: each of them becomes the first one.
        if struct.unpack_from("<I", data, at)[0] == 16:
            targets = [at + 4 * number + struct.unpack_from("<I", data, at + 4 * number)[0] for number in range(1, 17)]
            if all(at < target < len(data) for target in targets):
                deepest = max(targets, key=lambda target: struct.unpack_from("<i", data, target)[0] and target)
                for number in range(1, 17):
                    struct.pack_into("<I", data, at + 4 * number, deepest - at - 4 * number)
    return bytes(data)


def test_a_schema_that_names_its_fields_over_and_over_is_refused() -> None:
    with pytest.raises(InvalidData, match="more than 8000 fields"):
        read_schema(shared_children(5))


def test_flipped_bits_cost_no_memory_and_end_no_process() -> None:
    """In a process of its own, with little address space left: what is refused there is refused for what it is."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    ended = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2_000:]
    outcome = json.loads(ended.stdout)
    assert outcome["refused"] > outcome["tried"] // 2
    assert outcome["taken"] > 0
    assert outcome["peak_bytes"] < MEMORY_FOR_A_REQUEST_BYTES


def flipped(whole: bytes, seed: random.Random) -> bytes:
    content = bytearray(whole)
    for _ in range(seed.choice([1, 1, 2, 4])):
        at = seed.randrange(len(content))
        match seed.randrange(4):
            case 0:
                content[at] ^= 1 << seed.randrange(8)
            case 1:
                content[at] = seed.choice([0, 1, 127, 128, 255])
            case 2:
                content[at : at + 8] = struct.pack("<q", seed.choice([0, 1, -1, 2**31, 2**62, -(2**63)]))
            case _:
                del content[at + 1 :]
    return bytes(content)


def fuzz(tries: int = 6_000) -> dict[str, int]:
    """Every kind of column, bits of the metadata flipped most often, under a limit of the address space."""
    maps = pa.array([[(f"k{number}", number)] for number in range(20)], pa.map_(pa.string(), pa.int32()))
    views = pa.array([f"a value longer than twelve {number}" for number in range(20)], pa.string_view())
    lists = pa.array([[[number], None] for number in range(20)], pa.list_(pa.list_(pa.int64())))
    structs = pa.array([{"a": number, "b": "x"} for number in range(20)])
    fixed = pa.array([[1.5, 2.5]] * 20, pa.list_(pa.float64(), 2))
    shapes = [pa.record_batch({"c": column, "n": range(20)}) for column in (maps, views, lists, structs, fixed, pa.array([True] * 20))]
    streams = [stream(shape) for shape in shapes]
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_address_space_bytes() + MEMORY_FOR_A_REQUEST_BYTES, limit))
    seed, counts = random.Random(1), {"tried": tries, "refused": 0, "taken": 0}
    for _ in range(tries):
        shape = seed.randrange(len(shapes))
        data = flipped(streams[shape], seed)
        try:
            if seed.random() < 0.8:
                read_rows(data, WRITE_LIMITS)
            else:
                read_file_batch(pa.py_buffer(b"ARROW1\0\0" + data), shapes[shape].schema, 20)
            counts["taken"] += 1
        except (InvalidData, UnsupportedType):
            counts["refused"] += 1
    counts["peak_bytes"] = pa.default_memory_pool().max_memory() or 0
    return counts


def _address_space_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    print(json.dumps(fuzz()))


def body(data: bytes) -> tuple[pa.Buffer, pa.Schema]:
    """The first record batch message of a stream, and the stream's schema."""
    reader = ipc.MessageReader.open_stream(pa.BufferReader(data))
    schema = ipc.read_schema(reader.read_next_message())
    return reader.read_next_message().serialize(), schema


def wild_offsets() -> bytes:
    """The second value of three begins far behind all bytes; first and last offset are right."""
    whole = stream(pa.record_batch({"s": pa.array(["aaaa", "bbbb", "cccc"])}))
    return whole.replace(struct.pack("<4i", 0, 4, 8, 12), struct.pack("<4i", 0, 2**30, 8, 12))


def text_that_is_none() -> bytes:
    return stream(pa.record_batch({"s": pa.array(["aaaa"])})).replace(b"aaaa", b"\xff\xfe\xfd\xfc")


BODIES: dict[str, tuple[Callable[[], bytes], int]] = {
    "null map keys": (null_map_keys, 1),
    "offsets beyond the bytes": (wild_offsets, 3),
    "a text that is no UTF-8": (text_that_is_none, 1),
    "overlapping buffers": (overlapping, 1_000),
    "a row more than its bytes": (lambda: patched(stream(NUMBERS), 1_000, 1_001), 1_001),
    "other rows than it should have": (lambda: stream(NUMBERS), 999),
    "zstd that becomes too long": (lambda: compressed("zstd"), 1_000_000),
    "lz4 that becomes too long": (lambda: compressed("lz4"), 1_000_000),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_record_batch_that_stands_alone_is_looked_at_as_closely(name: str) -> None:
    make, rows = BODIES[name]
    content, schema = body(make())
    with pytest.raises(InvalidData):
        BodyReader(schema, max_decompressed_bytes=7_999_999).read(content, rows)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_record_batch_is_read_up_to_its_limit(codec: str) -> None:
    content, schema = body(compressed(codec))
    assert BodyReader(schema, max_decompressed_bytes=8_000_000).read(content, 1_000_000).num_rows == 1_000_000


LZ4_OF_JAVA = """
/////9gAAAAUAAAAAAAAAAwAGAAOABcAEAAEAAwAAABYAAAAAAAAAAAABAAUAAAAAAAAAwwAHAAQAAwACAAEAAwAAAAcAAAAHAAAAHAAAAACAAAAAAAAAAAAAAAEAAQABAAAAAUAAAAA
AAAAAAAAAAkAAAAAAAAAEAAAAAAAAAAYAAAAAAAAACgAAAAAAAAACQAAAAAAAAA4AAAAAAAAABQAAAAAAAAAUAAAAAAAAAAIAAAAAAAAAAAAAAACAAAAAgAAAAAAAAAAAAAAAAAAAAIA
AAAAAAAAAQAAAAAAAAD//////////wMAAAAAAAAA//////////8BAAAAAAAAAAIAAAAAAAAA//////////8BAAAAAAAAAP//////////AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
"""
"""A record batch as Fluss writes it with Arrow's Java library: the texts of all rows together are empty."""


@pytest.mark.parametrize("columns", [None, [1]])
def test_an_empty_buffer_that_java_compressed_with_lz4_is_read(columns: list[int] | None) -> None:
    schema = pa.schema({"n": pa.int64(), "text": pa.string()})
    batch = BodyReader(schema, 1_000, columns).read(pa.py_buffer(base64.b64decode(LZ4_OF_JAVA)), 2)
    assert batch.select(["text"]).to_pydict() == {"text": ["", None]}
    assert batch.schema.equals(schema if columns is None else pa.schema([schema.field(1)]))
