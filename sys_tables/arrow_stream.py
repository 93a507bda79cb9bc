"""Rows as one Arrow IPC stream in pieces: schema, record batches, end mark.

The pieces, put together, are what `pyarrow.ipc.open_stream` or Java's `ArrowStreamReader` reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import pyarrow as pa

from sys_tables.columns import record_batch

PIECE_BYTES = 1 << 20
"""At most this much in one message (proto `ReadTableResponse.arrow`)."""
_BATCH_ROWS = 1_000
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""Arrow columnar format, "IPC Streaming Format"."""


def arrow_pieces(rows: Iterable[object], schema: pa.Schema) -> Iterator[bytes]:
    """The stream, made as it is drawn. The first piece is the schema, also if there are no rows."""
    yield from _cut(schema.serialize())
    remaining = iter(rows)
    while batch_rows := list(islice(remaining, _BATCH_ROWS)):
        yield from _cut(record_batch(schema, batch_rows).serialize())
    yield _END_OF_STREAM


def _cut(message: pa.Buffer) -> Iterator[bytes]:
    for start in range(0, message.size, PIECE_BYTES):
        yield message.slice(start, min(PIECE_BYTES, message.size - start)).to_pybytes()
