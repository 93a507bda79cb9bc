"""Values that Fluss holds and Lakeward's types do not: which row of a batch has one."""

from __future__ import annotations

import pyarrow as pa

from tiering.cluster.fluss.rows.encoding import RowEncoding
from tiering.cluster.fluss.rows.packed_bytes import AnyArray, PackedBytes, Positions
from tiering.cluster.fluss.rows.packed_rows import TimestampOutOfRange, decode_rows
from tiering.model.refused_records import UnwritableRow, first_failing

BEYOND_MICROSECONDS = "holds a time that a timestamp in microseconds cannot say"


def rows_within_range(data: PackedBytes, starts: Positions, ends: Positions, written: pa.Schema, encoding: RowEncoding) -> list[AnyArray]:
    """As `decode_rows`. Raises UnwritableRow for the first row with a value out of range."""
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
