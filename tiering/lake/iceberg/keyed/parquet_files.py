"""Opens data files of a bucket, whoever wrote them, and reads key columns or whole rows as the lake's current schema has them.

A column is found by its field id, as Iceberg demands (spec, "Column Projection"), or by its name in a file without ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _to_requested_schema, pyarrow_to_schema
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from tiering.errors import DataCorrupt
from tiering.lake.iceberg.keyed.base import StandingFile
from tiering.lake.iceberg.keyed.keys import KeyRows
from tiering.lake.iceberg.types import FIELD_ID_KEY, arrow_type

KEY_BATCH_ROWS = 1 << 20
ROW_BATCH_ROWS = 1 << 16

Bounds = Sequence[tuple[Any, Any]]


@contextmanager
def open_parquet(io: FileIO, file: StandingFile) -> Iterator[pq.ParquetFile]:
    """The open file. Raises DataCorrupt if it does not hold the rows that its manifest says: positions would be wrong."""
    with io.new_input(file.location).open() as stream:
        parquet = pq.ParquetFile(cast(Any, stream))
        if parquet.metadata.num_rows != file.records:
            raise DataCorrupt(
                f"{file.location} has {parquet.metadata.num_rows} rows; the lake table says {file.records}",
                hint="The file was changed after it was committed. Restore it.",
            )
        yield parquet


def key_rows(parquet: pq.ParquetFile, number: int, keys: Sequence[NestedField], bounds: Bounds) -> Iterator[KeyRows]:
    """The keys of file number `number`, without the row groups in which no key can lie within `bounds` (of each key column)."""
    columns = [_column(parquet, key) for key in keys]
    types = [arrow_type(key.field_type) for key in keys]
    first = 0
    for group in range(parquet.metadata.num_row_groups):
        following = first + parquet.metadata.row_group(group).num_rows
        if _may_hold(parquet.metadata.row_group(group), columns, bounds):
            for batch in parquet.iter_batches(KEY_BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False):
                arrays = [_as(batch.column(name), kind) for name, kind in zip(columns, types, strict=True)]
                yield KeyRows(number, first, arrays)
                first += batch.num_rows
        first = following


def whole_rows(parquet: pq.ParquetFile, schema: Schema) -> Iterator[pa.RecordBatch]:
    """All rows in the columns of `schema`; one that the file lacks is null."""
    physical = parquet.schema_arrow
    written = pyarrow_to_schema(physical, name_mapping=schema.name_mapping, downcast_ns_timestamp_to_us=True)
    for batch in parquet.iter_batches(ROW_BATCH_ROWS, use_threads=False):
        yield _to_requested_schema(schema, written, batch, downcast_ns_timestamp_to_us=True, allow_timestamp_tz_mismatch=True)


def _column(parquet: pq.ParquetFile, key: NestedField) -> str:
    wanted = str(key.field_id).encode()
    fields = list(parquet.schema_arrow)
    for field in fields:
        if (field.metadata or {}).get(FIELD_ID_KEY) == wanted:
            return field.name
    if key.name in parquet.schema_arrow.names and not any(FIELD_ID_KEY in (field.metadata or {}) for field in fields):
        return key.name
    raise DataCorrupt(
        f"a data file has no column {key.name!r}, which is part of the key",
        hint="Who wrote it? Delete it from the lake table, or write it anew with all columns.",
        column=key.name,
    )


def _may_hold(group: pq.RowGroupMetaData, columns: Sequence[str], bounds: Bounds) -> bool:
    statistics = {group.column(index).path_in_schema: group.column(index).statistics for index in range(group.num_columns)}
    for column, (low, high) in zip(columns, bounds, strict=True):
        known = cast(Any, statistics.get(column))
        if known is None or not known.has_min_max or type(known.min) is not type(low):
            continue
        if known.max < low or known.min > high:
            return False
    return True


def _as(column: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    return column if column.type == kind else column.cast(kind)
