"""Decodes record batches of a log whose rows are packed one by one (`table.log.format` INDEXED or COMPACTED).

After the header, which is the same for every batch, each record has: `length i32, of what follows it | change type i8 | row` (Fluss 0.9.1,
IndexedLogRecord and CompactedLogRecord).
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from tiering.cluster.fluss.log.batches import BatchHeader, DecodedBatch, LogPlace, damaged
from tiering.cluster.fluss.rows.encoding import RowEncoding
from tiering.cluster.fluss.rows.packed_bytes import PADDING, PackedBytes, Positions
from tiering.cluster.fluss.rows.ranges import rows_within_range
from tiering.model.tables import ChangeType

_LENGTH = struct.Struct("<i")
_CHANGE_TYPE_BYTES = 1


def decode_packed_batch(
    data: pa.Buffer, header: BatchHeader, written: pa.Schema, encoding: RowEncoding, place: LogPlace, window: range | None = None
) -> DecodedBatch:
    """Returns the records of a non-empty batch, or those of `window`; `written`: the columns of its schema id.

    Raises DataCorrupt, UnwritableRow for the first record of the window with a value that Lakeward's types cannot hold.
    """
    start, stop = header.position + header.records_start, header.position + header.size
    window = range(header.count) if window is None else window
    try:
        packed = PackedBytes.joined([data.slice(start, stop - start).to_pybytes()])
        records, ends = _records(data, start, stop, header.count)
        records, ends = records[window.start : window.stop], ends[window.start : window.stop]
        change_types = packed.read("i1", records + _LENGTH.size)
        if change_types.min() < ChangeType.APPEND or change_types.max() > ChangeType.DELETE:
            raise ValueError("an unknown change type")
        columns = rows_within_range(packed, records + _LENGTH.size + _CHANGE_TYPE_BYTES, ends, written, encoding)
        rows = pa.RecordBatch.from_arrays(columns, schema=written)
    except ValueError as error:
        raise damaged(f"a record batch cannot be decoded ({error})", header, place) from error
    return DecodedBatch(header, rows, change_types if change_types.any() else None)


def _records(data: pa.Buffer, start: int, stop: int, count: int) -> tuple[Positions, Positions]:
    """Returns where each record begins and ends in the packed bytes. Raises ValueError if the records do not fill `[start, stop)`."""
    at, positions = start, [start]
    for _ in range(count):
        if at + _LENGTH.size + _CHANGE_TYPE_BYTES > stop:
            raise ValueError("the batch ends within a record")
        (length,) = _LENGTH.unpack_from(data, at)
        if length < _CHANGE_TYPE_BYTES:
            raise ValueError(f"a record has a length of {length} bytes")
        at += _LENGTH.size + length
        positions.append(at)
    if at != stop:
        raise ValueError("the records do not end at the end of the batch")
    places = np.array(positions, np.int64) + (len(PADDING) - start)
    return places[:-1], places[1:]
