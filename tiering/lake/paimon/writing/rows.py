"""Converts rows to the columns and types of a Paimon table; the time of a record is cut to the precision of `__timestamp`. Pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tiering.lake.base import WriterInitContext
from tiering.lake.writing.fitting import fit, fit_records
from tiering.model.tables import TIMESTAMP_COLUMN


def paimon_records(batch: pa.RecordBatch, columns: pa.Schema, context: WriterInitContext) -> pa.RecordBatch:
    """Converts records of a log or a KV snapshot as `paimon_rows` does. Raises BucketStopped for a record that the table cannot hold."""
    return fit_records(with_milliseconds(batch, columns), columns, context)


def paimon_rows(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Converts `batch` to `columns`; columns that already fit are not copied. Raises InvalidData for a value that does not fit.

    `__timestamp` has milliseconds, as in Fluss; the microseconds of a log are dropped.
    """
    return fit(with_milliseconds(batch, columns), columns)


def with_milliseconds(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Returns `batch` with `__timestamp` in the type of `columns`; the microseconds of a log are dropped."""
    index = batch.schema.get_field_index(TIMESTAMP_COLUMN)
    if index >= 0 and TIMESTAMP_COLUMN in columns.names:
        field = columns.field(TIMESTAMP_COLUMN)
        if batch.column(index).type != field.type:
            batch = batch.set_column(index, field, pc.cast(batch.column(index), field.type, safe=False))
    return batch
