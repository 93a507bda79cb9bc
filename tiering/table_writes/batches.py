"""Cuts the rows of a task into the batches that it writes. Pure.

The boundaries depend on the rows and their order alone, not on the record batches in which the engine delivers them. So a task that runs
again makes the same batches, and the cluster recognizes each of them. The last batch is made only after the last row: an input that fails
before its end makes no shorter batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tiering.cluster.writable import MAX_APPEND_BYTES
from tiering.errors import InvalidData

CHUNK_ROWS = 1_024
"""Rows that are measured together. A batch ends only at a multiple of it, or within a chunk that is too large by itself."""


@dataclass(frozen=True)
class BatchLimits:
    """Upper bounds of a batch. One row may be larger than `target_bytes`, and never larger than `max_bytes`."""

    rows: int
    target_bytes: int
    max_bytes: int


MESSAGE_LIMITS = BatchLimits(rows=65_536, target_bytes=2 << 20, max_bytes=MAX_APPEND_BYTES)
"""Limits of batches that travel in one message of gRPC."""


def cut_batches(rows: Iterable[pa.RecordBatch], limits: BatchLimits = MESSAGE_LIMITS) -> Iterator[pa.RecordBatch]:
    """Yields all rows in batches within the limits, in their order. Raises InvalidData for a row that is too large."""
    pending: list[pa.RecordBatch] = []
    count = size = 0
    for chunk in (part for whole in _chunks(rows) for part in _small_enough(whole, limits)):
        chunk_bytes = _size(chunk)
        if pending and (count + chunk.num_rows > limits.rows or size + chunk_bytes > limits.target_bytes):
            yield pa.concat_batches(pending)  # type: ignore[attr-defined]
            pending, count, size = [], 0, 0
        pending.append(chunk)
        count += chunk.num_rows
        size += chunk_bytes
    if pending:
        yield pa.concat_batches(pending)  # type: ignore[attr-defined]


def _chunks(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows in batches of CHUNK_ROWS; the last one may be shorter."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in rows:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, CHUNK_ROWS - count)
            pending.append(part)
            count += part.num_rows
            start += part.num_rows
            if count == CHUNK_ROWS:
                yield pa.concat_batches(pending)  # type: ignore[attr-defined]
                pending, count = [], 0
    if pending:
        yield pa.concat_batches(pending)  # type: ignore[attr-defined]


def _small_enough(chunk: pa.RecordBatch, limits: BatchLimits) -> Iterator[pa.RecordBatch]:
    """Yields the chunk in halves of halves, until each part has at most the target size or is one row."""
    size = _size(chunk)
    if size <= limits.target_bytes:
        yield chunk
    elif chunk.num_rows > 1:
        middle = chunk.num_rows // 2
        yield from _small_enough(chunk.slice(0, middle), limits)
        yield from _small_enough(chunk.slice(middle), limits)
    elif size > limits.max_bytes:
        raise InvalidData(
            f"one row has {size} bytes; a row may have at most {limits.max_bytes}",
            hint="Store large values elsewhere, and write a reference.",
        )
    else:
        yield chunk


def _size(batch: pa.RecordBatch) -> int:
    """Returns the number of bytes of the batch as an IPC message, which does not depend on the buffers that a slice shares."""
    return int(pa.ipc.get_record_batch_size(batch))
