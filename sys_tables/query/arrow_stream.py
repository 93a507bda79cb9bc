"""Rows as one Arrow IPC stream in pieces: schema, record batches, end mark.

The pieces, put together, are what `pyarrow.ipc.open_stream` or Java's `ArrowStreamReader` reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

import pyarrow as pa

from sys_tables.declare.columns import record_batch

PIECE_BYTES = 1 << 20
"""Upper limit of one message (proto `ReadTableResponse.arrow`)."""

ROWS_AT_ONCE = 1_000
"""Row objects that become one batch."""

_BATCH_ROWS = 8_192
"""Most rows of a batch, some megabytes; longer batches are cut."""

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""Arrow columnar format, "IPC Streaming Format": the end mark."""


def arrow_pieces(rows: Iterable[object], schema: pa.Schema) -> Iterator[bytes]:
    """Yields a whole stream, made as it is read. It has the schema also if there are no rows."""
    remaining = iter(rows)
    batches = (record_batch(schema, some) for some in iter(lambda: list(islice(remaining, ROWS_AT_ONCE)), []))
    return joined(chain(schema_pieces(schema), batch_pieces(batches)))


def schema_pieces(schema: pa.Schema) -> Iterator[bytes]:
    """Yields the beginning of a stream."""
    return _cut(schema.serialize())


def batch_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yields the batches of a stream and its end, made as they are read."""
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield from _cut(batch.slice(start, _BATCH_ROWS).serialize())
    yield _END_OF_STREAM


def joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Joins pieces up to the limit: each piece costs a message and a turn of a thread."""
    pending: list[bytes] = []
    pending_bytes = 0
    for piece in pieces:
        if pending and pending_bytes + len(piece) > PIECE_BYTES:
            yield b"".join(pending)
            pending, pending_bytes = [], 0
        pending.append(piece)
        pending_bytes += len(piece)
    if pending:
        yield b"".join(pending)


def _cut(message: pa.Buffer) -> Iterator[bytes]:
    for start in range(0, message.size, PIECE_BYTES):
        yield message.slice(start, min(PIECE_BYTES, message.size - start)).to_pybytes()
