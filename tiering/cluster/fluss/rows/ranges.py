"""Finds the row of a batch with a value that Fluss can store but Lakeward's types cannot hold."""

from __future__ import annotations

import pyarrow as pa

from tiering.cluster.fluss.rows.encoding import RowEncoding
from tiering.cluster.fluss.rows.packed_bytes import AnyArray, PackedBytes, Positions
from tiering.cluster.fluss.rows.packed_rows import TimestampOutOfRange, decode_rows
from tiering.model.refused_records import UnwritableRow, first_failing

BEYOND_MICROSECONDS = "holds a time that is out of range of a timestamp in microseconds"


def rows_within_range(data: PackedBytes, starts: Positions, ends: Positions, written: pa.Schema, encoding: RowEncoding) -> list[AnyArray]:
    """Decodes rows as `decode_rows` does. Raises UnwritableRow for the first row with a value out of range."""
    try:
        return decode_rows(data, starts, ends, written.types, encoding)
    except TimestampOutOfRange as error:
        refusals = [error]

        def is_good(start: int, stop: int) -> bool:
            try:
                decode_rows(data, starts[start:stop], ends[start:stop], written.types, encoding)
            except TimestampOutOfRange as refusal:
                refusals.append(refusal)
                return False
            return True

        row = first_failing(len(starts), is_good)
        raise UnwritableRow(row, written.names[refusals[-1].column], BEYOND_MICROSECONDS, str(refusals[-1])) from error
