"""Reads a bucket's data files of any writer: key columns or whole rows, in the lake's current schema.

A column is found by its field id, as Iceberg requires (spec, "Column Projection"), or by its name in a file without ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from tiering.errors import DataCorrupt
from tiering.lake.iceberg.primary_key.bucket_files import LiveFile
from tiering.lake.iceberg.reading.lake_parquet import LakeParquet, open_lake_file
from tiering.lake.iceberg.schema.types import FIELD_ID_KEY, arrow_field, arrow_type
from tiering.lake.outside_errors import DAMAGED_HINT
from tiering.lake.writing.keys import KeyRows, Mask
from tiering.library_guards.bucket_hash import combined_bucket_ids
from tiering.model.schema.field_ids import all_fields

KEY_BATCH_ROWS = 1 << 20
ROW_BATCH_ROWS = 1 << 16

Bounds = Sequence[tuple[Any, Any]]


@contextmanager
def open_parquet(io: FileIO, file: LiveFile) -> Iterator[LakeParquet]:
    """Opens the file. Raises DataCorrupt if it has not the row count of its manifest, because positions would be wrong."""
    with open_lake_file(io, file.location) as stream:
        parquet = LakeParquet(stream, file.location)
        if parquet.metadata.num_rows != file.records:
            raise DataCorrupt(
                f"{file.location} has {parquet.metadata.num_rows} rows; the lake table says {file.records}",
                hint=DAMAGED_HINT,
                lake_file=file.location,
            )
        yield parquet


def key_rows(parquet: pq.ParquetFile, number: int, keys: Sequence[NestedField], bounds: Bounds | None) -> Iterator[KeyRows]:
    """Yields the keys of the file with number `number`. Row groups that have no key within `bounds` (of each key column) are left out.
    `bounds` None = any key."""
    columns = [_column(parquet, key) for key in keys]
    types = [arrow_type(key.field_type) for key in keys]
    first = 0
    for group in range(parquet.metadata.num_row_groups):
        following = first + parquet.metadata.row_group(group).num_rows
        if bounds is None or _may_hold(parquet, group, columns, types, bounds):
            for batch in parquet.iter_batches(KEY_BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False):
                arrays = [batch.column(name).cast(kind) for name, kind in zip(columns, types, strict=True)]
                yield KeyRows(number, first, arrays)
                first += batch.num_rows
        first = following


def whole_rows(parquet: pq.ParquetFile, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yields all rows in the columns of `schema`, and reads only these. A column that the file lacks is null."""
    stored = list(parquet.schema_arrow)
    places = [find_field(stored, field) for field in schema.fields]
    read = _places_to_read(stored, places)
    names = [stored[place].name for place in read] if len(read) < len(stored) else None
    for batch in parquet.iter_batches(ROW_BATCH_ROWS, columns=names, use_threads=False):
        yield _projected_rows(batch, [stored[place] for place in read], schema)


def stored_and_whole_rows(
    parquet: pq.ParquetFile, schema: Schema, rows_at_once: int = ROW_BATCH_ROWS
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yields all rows twice: as the file has them, with columns that the lake table dropped, and in the columns of `schema`."""
    stored = list(parquet.schema_arrow)
    for batch in parquet.iter_batches(rows_at_once, use_threads=False):
        yield batch, _projected_rows(batch, stored, schema)


def lost_fields(stored: pa.Schema, schema: Schema) -> bool:
    """Whether a file has fields that the lake table dropped. Unknown for a file without field ids, which another program wrote: False."""
    ids = {_id_of(field) for field in all_fields(stored)}
    return None not in ids and not ids <= index_by_id(schema).keys()


def _projected_rows(batch: pa.RecordBatch, stored: Sequence[pa.Field[Any]], schema: Schema) -> pa.RecordBatch:
    requested = pa.schema([arrow_field(field) for field in schema.fields])
    columns: list[pa.Array[Any]] = []
    for field, arrow in zip(schema.fields, requested, strict=True):
        place = find_field(stored, field)
        columns.append(nulls(batch.num_rows, arrow.type) if place is None else projected(batch.column(place), stored[place], field))
    return pa.RecordBatch.from_arrays(columns, schema=requested)


def _places_to_read(stored: Sequence[pa.Field[Any]], places: Sequence[int | None]) -> list[int]:
    """Returns the positions of the columns to read, in the file's order; at least one, because a batch without columns has no row count.

    Parquet names columns by dotted paths. If a name has a dot or occurs twice, all columns are read.
    """
    names = [field.name for field in stored]
    if len(set(names)) < len(names) or any("." in name for name in names):
        return list(range(len(stored)))
    return sorted({place for place in places if place is not None}) or [0]


def column_name(parquet: pq.ParquetFile, column: NestedField) -> str | None:
    """Returns the file's name of a column of the lake table; None if the file lacks it."""
    fields = list(parquet.schema_arrow)
    place = find_field(fields, column)
    return None if place is None else fields[place].name


def _column(parquet: pq.ParquetFile, key: NestedField) -> str:
    if (name := column_name(parquet, key)) is not None:
        return name
    raise DataCorrupt(
        f"a data file has no column {key.name!r}, which is part of the key",
        hint="Another writer made the file. Delete it from the lake table, or write it again with all columns.",
        column=key.name,
    )


def _may_hold(parquet: pq.ParquetFile, group: int, columns: Sequence[str], types: Sequence[pa.DataType], bounds: Bounds) -> bool:
    """Whether a row group may have a key within `bounds`, according to its statistics. True if these are missing or cannot be read or
    compared."""
    chunks = parquet.metadata.row_group(group)
    places = {chunks.column(index).path_in_schema: index for index in range(chunks.num_columns)}
    for column, kind, (low, high) in zip(columns, types, bounds, strict=True):
        comparable = column in places and _is_comparable(parquet.schema_arrow.field(column).type, kind)
        extremes = _extremes(chunks.column(places[column]).statistics, kind) if comparable else None
        if extremes is not None and (extremes[1] < low or extremes[0] > high):
            return False
    return True


def _extremes(statistics: Any, kind: pa.DataType) -> tuple[Any, Any] | None:
    """Returns the smallest and largest value of a key column of type `kind` in a row group, in the form of `keys.plain`; None = unknown."""
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        if pa.types.is_temporal(kind):
            return statistics.min_raw, statistics.max_raw
        if isinstance(kind, pa.Decimal128Type) and statistics.physical_type in ("INT32", "INT64"):
            # pyarrow cannot read statistics of decimals that are stored as integers.
            return Decimal(statistics.min_raw).scaleb(-kind.scale), Decimal(statistics.max_raw).scaleb(-kind.scale)
        return statistics.min, statistics.max
    except (pa.ArrowException, ValueError, TypeError, OverflowError):  # for example a bound that is cut within a character
        return None


def _is_comparable(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether statistics of a file's column can be compared with the key's values. Ints can, if the column became one of longs."""
    return stored == kind or (pa.types.is_integer(stored) and pa.types.is_integer(kind))


# Converts columns of a data file to the lake's present schema (Iceberg spec, "Column Projection"). Fields are found by their ids, or by
# their names in a file without ids. A field that the file lacks is null. pyiceberg's own projection is not used, because it turns a NULL
# list or map of structs into an empty one, and a rewritten bucket would keep that.
def projected(column: pa.Array[Any], stored: pa.Field[Any], field: NestedField) -> pa.Array[Any]:
    """Returns `column`, which the file has as `stored`, in the type of the lake's `field`. Raises ArrowInvalid for unfitting values."""
    requested = arrow_field(field)
    if stored.type.equals(requested.type, check_metadata=True):
        return column
    return _of_type(column, stored.type, field.field_type)


def nulls(count: int, kind: pa.DataType) -> pa.Array[Any]:
    """Returns `count` nulls: the values of a field that a file lacks."""
    absent: pa.Array[Any] = cast(Any, pa).nulls(count, kind)
    return absent


def find_field(fields: Sequence[pa.Field[Any]], requested: NestedField) -> int | None:
    """Returns the position of `requested` among a file's fields of one level; None if the file lacks it."""
    ids = [_id_of(field) for field in fields]
    if all(field_id is None for field_id in ids):
        names = [field.name for field in fields]
        return names.index(requested.name) if requested.name in names else None
    return ids.index(requested.field_id) if requested.field_id in ids else None


def _id_of(field: pa.Field[Any]) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    return None if text is None else int(text)


def _of_type(column: pa.Array[Any], stored: pa.DataType, kind: IcebergType) -> pa.Array[Any]:
    if isinstance(kind, StructType) and pa.types.is_struct(stored):
        return _struct(cast(Any, column), stored, kind)
    if isinstance(kind, ListType) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
        return _list(cast(Any, column), cast(Any, stored), kind)
    if isinstance(kind, MapType) and pa.types.is_map(stored):
        return _map(cast(Any, column), cast(Any, stored), kind)
    requested = arrow_type(kind)
    # Nanoseconds, as old Spark writes times, are cut to the lake's microseconds.
    return column if column.type == requested else column.cast(requested, safe=not pa.types.is_timestamp(stored))


def _struct(column: pa.StructArray, stored: pa.StructType, kind: StructType) -> pa.Array[Any]:
    fields = [stored.field(index) for index in range(stored.num_fields)]
    children: list[pa.Array[Any]] = []
    for field in kind.fields:
        place = find_field(fields, field)
        child = nulls(len(column), arrow_type(field.field_type)) if place is None else column.field(place)
        children.append(child if place is None else projected(child, fields[place], field))
    types = [arrow_field(field) for field in kind.fields]
    assembled: pa.Array[Any] = cast(Any, pa.StructArray).from_arrays(children, fields=types, mask=column.is_null())
    return assembled


def _list(column: Any, stored: Any, kind: ListType) -> pa.Array[Any]:
    whole: Any = _from_its_start(column if pa.types.is_list(stored) else column.cast(pa.list_(stored.value_field)))
    values = projected(whole.values, stored.value_field, kind.element_field)
    assembled: pa.Array[Any] = cast(Any, pa.ListArray).from_arrays(whole.offsets, values, type=arrow_type(kind), mask=whole.is_null())
    return assembled


def _map(column: Any, stored: Any, kind: MapType) -> pa.Array[Any]:
    whole: Any = _from_its_start(column)
    keys = projected(whole.keys, stored.key_field, kind.key_field)
    items = projected(whole.items, stored.item_field, kind.value_field)
    assembled: pa.Array[Any] = cast(Any, pa.MapArray).from_arrays(whole.offsets, keys, items, type=arrow_type(kind), mask=whole.is_null())
    return assembled


def _from_its_start(column: pa.Array[Any]) -> pa.Array[Any]:
    """Returns a copy if `column` is a part of a longer array. Arrow cannot make a list from a part's offsets together with its nulls."""
    return pa.concat_arrays([column]) if column.offset else column


def rows_of_bucket(
    io: FileIO, files: Iterable[LiveFile], bucket_keys: Sequence[NestedField], bucket_count: int, bucket_id: int
) -> dict[str, Mask]:
    """Returns by file which rows belong to the bucket, including deleted ones. Files without such rows are left out."""
    rows: dict[str, Mask] = {}
    for file in files:
        mask = np.zeros(file.records, dtype=bool)
        with open_parquet(io, file) as parquet:
            for keys in key_rows(parquet, 0, bucket_keys, None):
                ids = combined_bucket_ids(keys.keys, bucket_count)
                mask[keys.first : keys.first + len(ids)] = ids == bucket_id
        if mask.any():
            rows[file.location] = mask
    return rows
