"""Rows as a Paimon table holds them: in its columns and types, with the time of a record cut to what `__timestamp` can say. Pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tiering.lake.writing.fitting import fit
from tiering.model.tables import TIMESTAMP_COLUMN


def paimon_rows(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """`batch` in `columns`; nothing that fits already is copied. Raises InvalidData: a value of the table's own does not fit.

    `__timestamp` has milliseconds, as Fluss makes it; microseconds of a log are left out.
    """
    index = batch.schema.get_field_index(TIMESTAMP_COLUMN)
    if index >= 0 and TIMESTAMP_COLUMN in columns.names:
        field = columns.field(TIMESTAMP_COLUMN)
        if batch.column(index).type != field.type:
            batch = batch.set_column(index, field, pc.cast(batch.column(index), field.type, safe=False))
    return fit(batch, columns)
