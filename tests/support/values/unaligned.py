"""Arrow data whose buffers lie at odd addresses, as those of a message or of a mapped file may."""

from __future__ import annotations

import ctypes

import pyarrow as pa

_ALIGNMENT = 64


def unaligned(batch: pa.RecordBatch, shift: int) -> pa.RecordBatch:
    """`batch`, each buffer `shift` bytes behind an address that is aligned to 8 bytes; nested ones too."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content = sink.getvalue()
    room = pa.allocate_buffer(content.size + 2 * _ALIGNMENT)
    start = -room.address % _ALIGNMENT + shift
    ctypes.memmove(room.address + start, content.address, content.size)
    (read,) = pa.ipc.open_stream(room.slice(start, content.size))
    return read
