"""Removes rows of a lake table that `reconcile_lake` found: doubled offsets, rows behind a gap, whole buckets.

Rows of a log table are removed by position deletes, one file a bucket; the data files stay unchanged. An emptied bucket loses its files.
While a bucket is processed, its offsets are in memory: about 17 bytes a row.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt
from pyiceberg.table import Table

from tiering.errors import CannotReconcile
from tiering.lake.base import LakeView, WriteResult, WriterInitContext
from tiering.lake.iceberg.catalogs.file_io import io_of
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.bucket_files import BucketFiles, live_bucket_files
from tiering.lake.iceberg.primary_key.parquet_files import column_name, open_parquet, rows_of_bucket
from tiering.lake.iceberg.primary_key.position_deletes import dead_rows, write_deletes
from tiering.lake.iceberg.schema.drift import drift
from tiering.lake.iceberg.schema.layout import bucket_keys, layout_of_schema, target_file_bytes
from tiering.lake.iceberg.schema.partition_values import FilePlace, file_place
from tiering.lake.iceberg.writing.data_files import BucketChange, encode_files
from tiering.lake.iceberg.writing.writer import RowFiles, TableState
from tiering.lake.log_starts import commit_times_ms
from tiering.lake.maintenance import Removal
from tiering.lake.rules.row_repair import rows_to_remove
from tiering.lake.writing.keys import Mask
from tiering.model.tables import OFFSET_COLUMN, TIMESTAMP_COLUMN, BucketKey, TableInfo, TableType

_BATCH_ROWS = 1 << 20
_HINT = "Rewrite the files (in Spark: CALL <lake catalog>.system.rewrite_data_files), then repeat the call."


@dataclass(frozen=True)
class _Bucket:
    """A bucket with its present files. `new_files` gets the delete file."""

    key: BucketKey
    place: FilePlace
    files: BucketFiles
    new_files: RowFiles


def remove_rows(table: TableInfo, view: LakeView, round_id: str, removal: Removal) -> list[WriteResult]:
    """Writes the files that remove the rows, one write result a bucket (`RowRemoval.remove_rows`)."""
    loaded = cast(Table, view.handle)
    if table.table_type is TableType.LOG and not layout_of_schema(loaded.schema()).has_row_offsets:
        raise CannotReconcile(
            f"rows of {view.path} cannot be removed by their offsets: its layout is clean, and this version can do so only for tables with "
            "system columns",
            table_path=view.path,
        )
    results: list[WriteResult] = []
    with lake_errors(f"remove rows from the lake table {view.path}", table_path=view.path):
        for bucket in _buckets(table, view, round_id, removal):
            if bucket.key in removal.emptied:
                results.append(_emptied(table, bucket))
            elif dying := _dying(table, loaded, bucket, removal):
                results.append(_result(bucket, dying, None))
    return results


def _buckets(table: TableInfo, view: LakeView, round_id: str, removal: Removal) -> Iterator[_Bucket]:
    if view.head is None:
        return
    loaded = cast(Table, view.handle)
    state = TableState.of(loaded)
    places = {file_place(table, key, name, loaded.schema()): key for key, (name, _) in removal.places.items()}
    for place, files in live_bucket_files(loaded, view.path, view.head, places.keys()).items():
        if files.equality_deletes and places[place] not in removal.emptied:
            raise drift(view.path, None, f"has equality deletes in bucket {places[place]}: it is unknown which rows they delete", _HINT)
        key = places[place]
        context = WriterInitContext(table, view.table_uuid, key, removal.places[key][0], round_id, str(uuid.uuid4()))
        yield _Bucket(
            key, place, files, RowFiles(context, state, place.partition, io_of(loaded), target_file_bytes(table, state.properties))
        )


def _dying(table: TableInfo, loaded: Table, bucket: _Bucket, removal: Removal) -> dict[str, Mask]:
    """Returns by data file the live rows to remove: those with an offset that came before in any file, and those at or above the ceiling.

    Rows that the bucket's log did not write stay: a former partition of the same name may have written them.
    """
    dead, _ = dead_rows(io_of(loaded), bucket.files.data, bucket.files.deletes)
    numbers = np.concatenate([_numbers(table, loaded, bucket, number, OFFSET_COLUMN) for number in range(len(bucket.files.data))])
    living = [~dead[file.location] if file.location in dead else np.ones(file.records, dtype=bool) for file in bucket.files.data]
    may_go, begin, ceiling = np.concatenate(living), removal.begins.get(bucket.key), removal.ceilings.get(bucket.key)
    if begin is not None:
        times = [_numbers(table, loaded, bucket, number, TIMESTAMP_COLUMN) for number in range(len(bucket.files.data))]
        may_go &= begin.own(np.concatenate(times))
    mask = rows_to_remove(numbers, may_go, ceiling)
    parts = np.split(mask, np.cumsum([file.records for file in bucket.files.data])[:-1])
    return {file.location: part for file, part in zip(bucket.files.data, parts, strict=True) if part.any()}


def _numbers(table: TableInfo, loaded: Table, bucket: _Bucket, number: int, column: str) -> npt.NDArray[np.int64]:
    """Returns a system column of a file's rows. Commit times are in milliseconds."""
    file = bucket.files.data[number]
    with open_parquet(io_of(loaded), file) as parquet:
        name = column_name(parquet, loaded.schema().find_field(column))
        if name is None:
            raise drift(table.path, column, f"has the file {file.location}, which has no offsets", _HINT)
        columns = [batch.column(0) for batch in parquet.iter_batches(_BATCH_ROWS, columns=[name], use_threads=False)]
    parts = [commit_times_ms(values) if column == TIMESTAMP_COLUMN else values.to_numpy() for values in columns]
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


def _emptied(table: TableInfo, bucket: _Bucket) -> WriteResult:
    """Removes all files of the bucket, data and deletes. From files that it shares with other buckets, its rows are removed by position."""
    place, files, own, new_files = bucket.place, bucket.files, bucket.files.own, bucket.new_files
    if place.bucket is None:
        change = BucketChange(place.partition, files.snapshot_id, files.digest(), rewritten=True)
        return _result(bucket, {}, change, sum(file.records for file in files.data))
    keys = [new_files.state.schema.find_field(name) for name in bucket_keys(table)]
    shared = [file for file in files.data if file.location in files.shared]
    dead, _ = dead_rows(new_files.io, shared, [file for file in files.deletes if file.location in files.shared])
    dying = rows_of_bucket(new_files.io, shared, keys, table.bucket_count, place.bucket)
    dying = {path: mask & ~dead[path] if path in dead else mask for path, mask in dying.items()}
    dying = {path: mask for path, mask in dying.items() if mask.any()}
    obsolete = tuple(file.location for file in (*own.data, *own.deletes))
    change = BucketChange(place.partition, files.snapshot_id, files.digest(), True, obsolete, place.bucket)
    return _result(bucket, dying, change, sum(file.records for file in own.data))


def _result(bucket: _Bucket, dying: Mapping[str, Mask], change: BucketChange | None, rows: int = 0) -> WriteResult:
    """Writes a delete file with the rows `dying`, if there are any. `rows`: number of rows that `change` removes with their files."""
    new_files, footer_of = bucket.new_files, None
    if new_files.provenance is not None:
        new_files.provenance.changes = (0, 0)  # no change of the log
        footer_of = new_files.provenance.footer_of_deletes
    files = (write_deletes(new_files.io, new_files.new_location(), dying, new_files.builder, footer_of),) if dying else ()
    payload = encode_files(replace(new_files.payload(files), change=change))
    rows += sum(int(mask.sum()) for mask in dying.values())
    return WriteResult(bucket.key, 0, 0, 0, len(files), sum(file.file_size_in_bytes for file in files), payload, deletes=rows)
