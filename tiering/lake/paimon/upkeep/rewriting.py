"""Rewrites data files of one bucket to fewer files: those of a log table in offset order, those of a primary-key table as one sorted run.

Also runs on executors. In a clean table the footers of the new files account for all rows of the old ones. In a log table the checksum of
the rows has to be the sum of the checksums in the old footers.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiering import crash_points
from tiering.errors import Cancelled, DataCorrupt
from tiering.lake.base import FileRewrite, WriterInitContext
from tiering.lake.maintenance import RewriteTask
from tiering.lake.outside_errors import DAMAGED_HINT
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.data_files import known_footer, open_data_file
from tiering.lake.paimon.reading.file_columns import FileColumns
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.writing.parquet_files import ParquetFiles, paimon_rows
from tiering.lake.paimon.writing.payload import FilesPayload, WrittenFile, encode_files
from tiering.lake.paimon.writing.sorted_files import KEY_PREFIX, KIND, SEQUENCE, TAKES_AWAY, SortedFiles, sorted_schema
from tiering.lake.proof.file_footer import FileFooter, sum_of
from tiering.lake.proof.row_checksum import row_checksum
from tiering.lake.schema.column_ids import proof_columns
from tiering.lake.writing.keys import plain
from tiering.lake.writing.provenance import Provenance
from tiering.model.schema.field_ids import all_fields, field_id, with_ids_of
from tiering.model.tables import BucketKey, TableInfo

_LOG_BATCH_ROWS = 1 << 16
RUN_BATCH_ROWS = 1 << 15
"""Number of rows of each sorted run that are in memory at a time."""


@dataclass(frozen=True)
class DataFile:
    """A live data file of one source bucket. `first` and `last` are the lowest and the highest sequence number of its rows; in a log table
    these are the offsets of the first and the last row.
    """

    path: str
    """Path below the table's folder."""
    size_bytes: int
    rows: int
    first: int
    last: int
    schema_id: int

    @classmethod
    def of(cls, entry: Any, path: str) -> DataFile:
        """Returns the file of a manifest entry."""
        file = entry.file
        bounds = int(file.min_sequence_number), int(file.max_sequence_number)
        return cls(path, int(file.file_size), int(file.row_count), *bounds, int(file.schema_id))

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Rewrite:
    """The payload of a `RewriteTask`: sorted runs of one bucket, the oldest first; each run of a log table is a single file.

    A sorted run is a sequence of files in key order. The new run gets the level `level`. `drops_deletes`: no older run remains in the
    bucket.
    """

    table: TableInfo
    table_uuid: str
    partition: tuple[str, ...]
    paimon_bucket: int
    runs: tuple[tuple[DataFile, ...], ...]
    level: int = 0
    drops_deletes: bool = False
    stored: FileColumns = field(default_factory=FileColumns)
    """The columns of files of former schemas."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for run in self.runs for file in run)

    def drops_fields(self, state: TableState) -> bool:
        """Returns whether the files may have values of fields that the table does not have any more."""
        present = {field_id(field) for field in all_fields(state.numbered)}
        return any(field_id(field) not in present for columns in self.stored.by_schema.values() for field in all_fields(columns))


def rewrite_files(state: TableState, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
    """Rewrites the files of a task. Implements `FileRewriter.rewrite`."""
    work: Rewrite = pickle.loads(task.payload)
    context = WriterInitContext(work.table, work.table_uuid, task.bucket, task.partition_name, round_id, nonce)
    with lake_errors(f"rewrite files of {work.table.path}", table_path=work.table.path):
        footers = [] if state.layout.has_row_offsets else [_footer(state, work, task.bucket, file) for file in work.files]
        write = _write_run if state.primary_key else _write_log_files
        written = write(state, work, context, footers, _Meter(is_stopped))
    removed = tuple(file.name for file in work.files)
    target = FilesPayload(work.table_uuid, state.schema_id, work.partition, work.paimon_bucket, state.total_buckets, written)
    payload = replace(target, removed=removed, is_compacted=True, level=work.level)
    size_bytes, dropped = sum(file.size_bytes for file in written), task.records - sum(file.records for file in written)
    return FileRewrite(task.bucket, encode_files(payload), task.files, len(written), task.size_bytes, size_bytes, dropped)


def own_footer(state: TableState, work: Rewrite, bucket: BucketKey, file: DataFile) -> FileFooter | None:
    """Returns the footer of a file of a clean table; None unless a round of this table wrote the file for this bucket."""
    footer = known_footer(state.storage, state.root / file.path, file.rows)
    if footer is None or (footer.table_id, footer.bucket, footer.lake_table_uuid) != (work.table.table_id, bucket, work.table_uuid):
        return None
    accounts_for_rows = footer.changes is not None if state.primary_key else bool(footer.runs)
    return footer if accounts_for_rows else None


def _footer(state: TableState, work: Rewrite, bucket: BucketKey, file: DataFile) -> FileFooter:
    footer = own_footer(state, work, bucket, file)
    if footer is None:
        raise _corrupt(work, file)
    return footer


class _Meter:
    """Counts the rows that were read. Raises Cancelled once the rewrite has to stop."""

    def __init__(self, is_stopped: Callable[[int], bool]) -> None:
        self._is_stopped = is_stopped
        self._rows = 0

    def add(self, rows: int) -> None:
        self._rows += rows
        if self._is_stopped(self._rows):
            raise Cancelled("the rewriting of files was stopped")


def _write_log_files(
    state: TableState, work: Rewrite, context: WriterInitContext, footers: Sequence[FileFooter], meter: _Meter
) -> tuple[WrittenFile, ...]:
    """Copies the rows of all files in their order.

    If the rows lose the values of a dropped field, the new footers have the sum of the checksums with which the rows were once written.
    """
    place, provenance = state.place(context, work.partition, work.paimon_bucket), state.provenance(context)
    files = ParquetFiles(place, state.columns, provenance, state.target_bytes)
    checksum, drops_fields = 0, provenance is not None and work.drops_fields(state)
    with files.aborted_on_error():
        for start, stop in (run for footer in footers for run in footer.runs):
            cast(Provenance, provenance).take_offsets(np.arange(start, stop))
        if provenance is not None and (drops_fields or any(footer.folded is not None for footer in footers)):
            provenance.folded = sum_of(footer.written_checksum for footer in footers)
        for file in work.files:
            with open_data_file(state.storage, state.root / file.path) as parquet:
                names = _proof_names(state, work, file, parquet.schema_arrow)
                for batch in parquet.iter_batches(_LOG_BATCH_ROWS, use_threads=False):
                    meter.add(batch.num_rows)
                    if drops_fields:
                        checksum = sum_of((checksum, row_checksum(batch, names)))
                    files.add(paimon_rows(_present(state, work, file, batch), state.columns))
            crash_points.reach(crash_points.MERGING)
        written = files.close()
        if provenance is not None and not drops_fields:
            checksum = provenance.checksum
        _check(work, written, footers, None if provenance is None else checksum)
    return written


def _proof_names(state: TableState, work: Rewrite, file: DataFile, columns: pa.Schema) -> pa.Schema:
    """Returns the names in the checksum of the rows of a file, which has these columns."""
    return proof_columns(with_ids_of(columns, work.stored.by_schema.get(file.schema_id, state.numbered)), state.recorded)


def _present(state: TableState, work: Rewrite, file: DataFile, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns rows of a file with the present columns if it has those of a former schema."""
    return work.stored.present(batch, file.schema_id, state.numbered, lambda column, problem: _corrupt(work, file))


def _check(work: Rewrite, written: Sequence[WrittenFile], footers: Sequence[FileFooter], checksum: int | None) -> None:
    """Raises DataCorrupt unless the new files have the number of rows and the offsets of the old ones, and the rows their checksum."""
    same_rows = sum(file.rows for file in work.files) == sum(file.records for file in written)
    same_offsets = bool(written) and (written[0].min_sequence, written[-1].max_sequence) == (work.files[0].first, work.files[-1].last)
    same_sum = checksum is None or checksum == sum_of(footer.checksum for footer in footers)
    if not (same_rows and same_offsets and same_sum):
        raise _corrupt(work, work.files[0])


def _write_run(
    state: TableState, work: Rewrite, context: WriterInitContext, footers: Sequence[FileFooter], meter: _Meter
) -> tuple[WrittenFile, ...]:
    """Merges sorted runs to one. The new footers have the combined changes that the old files folded."""
    place, provenance = state.place(context, work.partition, work.paimon_bucket), state.provenance(context)
    if provenance is not None:
        ranges = [footer.changes for footer in footers if footer.changes is not None]
        provenance.changes = (min(start for start, _ in ranges), max(stop for _, stop in ranges))
        provenance.folded = sum_of(footer.written_checksum for footer in footers)
    schema, keys = sorted_schema(state.columns, state.primary_key), [KEY_PREFIX + name for name in state.primary_key]

    def merged(*, drops_deletes: bool) -> Iterator[pa.Table]:
        return merged_rows([_rows_of_run(state, work, run, schema, meter) for run in work.runs], keys, drops_deletes=drops_deletes)

    files = SortedFiles(place, state.columns, state.primary_key, provenance, state.target_bytes)
    with files.aborted_on_error():
        rows_stay = False
        for rows in merged(drops_deletes=work.drops_deletes):
            files.append(rows)
            rows_stay = True
        if provenance is not None and not rows_stay:  # a footer has to account for the removed files
            for rows in merged(drops_deletes=False):
                files.append(rows)
        return files.close()


def _rows_of_run(state: TableState, work: Rewrite, run: Sequence[DataFile], schema: pa.Schema, meter: _Meter) -> Iterator[pa.Table]:
    """Yields batches of rows in key order, in the columns of `schema`.

    Raises DataCorrupt for a file whose number of rows differs from its manifest entry, or that has no key columns.
    """
    for file in run:
        rows = 0
        with open_data_file(state.storage, state.root / file.path) as parquet:
            if any(name not in parquet.schema_arrow.names for name in schema.names if name.startswith((KEY_PREFIX, SEQUENCE, KIND))):
                raise _corrupt(work, file)
            for batch in parquet.iter_batches(RUN_BATCH_ROWS, use_threads=False):
                rows += batch.num_rows
                meter.add(batch.num_rows)
                yield pa.Table.from_batches([_in_columns(_present(state, work, file, batch), schema)])
        if rows != file.rows:
            raise _corrupt(work, file)


def _in_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows in the columns of `schema`, with nulls in those that the batch lacks."""
    columns = []
    for target in schema:
        index = batch.schema.get_field_index(target.name)
        column = pa.nulls(batch.num_rows, target.type) if index < 0 else batch.column(index)
        columns.append(column if column.type == target.type else column.cast(target.type))
    return pa.RecordBatch.from_arrays(cast(Any, columns), schema=schema)


def _corrupt(work: Rewrite, file: DataFile) -> DataCorrupt:
    return DataCorrupt(
        f"{len(work.files)} files of {work.table.path} were read to merge them, but their rows do not match their footers or "
        f"manifests; the first file is {file.path}",
        hint=DAMAGED_HINT,
        table_path=work.table.path,
        lake_file=file.path,
    )


def merged_rows(runs: Sequence[Iterator[pa.Table]], names: Sequence[str], *, drops_deletes: bool) -> Iterator[pa.Table]:
    """Yields for each key the row with the highest sequence number, in the order of the keys, which are the columns `names`. The rows keep
    their sequence numbers and kinds, so readers see the same result. `drops_deletes` leaves out delete rows, which is correct only if no
    older run remains in the bucket.

    The runs are read in parallel, one batch of each at a time. Rows up to the lowest last key of the batches are complete.
    """
    cursors = [_Cursor(run, names) for run in runs]
    while remaining := [cursor for cursor in cursors if cursor.has_rows()]:
        ends = [cursor.last_key for cursor in remaining if not cursor.is_last]
        end = min(ends, key=lambda key: key.order) if ends else None
        rows = pa.concat_tables([cursor.take_until(end) for cursor in remaining])
        newest = _newest_of_each_key(rows, names)
        if drops_deletes:
            newest = newest.filter(pc.invert(pc.is_in(newest[KIND], value_set=TAKES_AWAY)))
        if newest.num_rows:
            yield newest.combine_chunks()


def _newest_of_each_key(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*names, SEQUENCE)])
    in_order = rows.take(cast(Any, order)).combine_chunks()
    if in_order.num_rows < 2:
        return in_order
    differs = [
        pc.not_equal(in_order[name].slice(0, in_order.num_rows - 1), in_order[name].slice(1)).to_numpy().astype(bool) for name in names
    ]
    return in_order.filter(pa.array(np.append(np.logical_or.reduce(differs), True)))


@dataclass(frozen=True)
class _Key:
    """A key as Arrow scalars, and as values that Python compares in the same order."""

    scalars: tuple[Any, ...]
    order: tuple[Any, ...]


class _Cursor:
    """The rows of one sorted run, a batch at a time."""

    def __init__(self, batches: Iterator[pa.Table], names: Sequence[str]) -> None:
        self._batches = batches
        self._names = names
        self._rows = next(batches, None)
        self._following = next(batches, None)

    def has_rows(self) -> bool:
        """Returns whether a row is left; if so, the current batch has rows afterwards."""
        if self._rows is None or not self._rows.num_rows:
            self._rows, self._following = self._following, next(self._batches, None)
        return self._rows is not None

    @property
    def is_last(self) -> bool:
        """Returns whether no batch follows the current one."""
        return self._following is None

    @property
    def last_key(self) -> _Key:
        assert self._rows is not None
        scalars = tuple(self._rows[name][-1] for name in self._names)
        return _Key(scalars, tuple(plain(scalar) for scalar in scalars))

    def take_until(self, end: _Key | None) -> pa.Table:
        """Removes and returns the rows of the current batch whose key is at most `end`; None = all."""
        rows = self._rows
        assert rows is not None
        count = rows.num_rows if end is None else int(_up_to(rows, self._names, end).sum())
        self._rows = rows.slice(count)
        return rows.slice(0, count)


def _up_to(rows: pa.Table, names: Sequence[str], end: _Key) -> Any:
    columns = list(zip(names, end.scalars, strict=True))
    name, value = columns[-1]
    at_most = _numpy(pc.less_equal(rows[name], value))

    def within(result: Any, column: tuple[str, Any]) -> Any:
        outer, bound = column
        return _numpy(pc.less(rows[outer], bound)) | (_numpy(pc.equal(rows[outer], bound)) & result)

    return reduce(within, reversed(columns[:-1]), at_most)


def _numpy(mask: Any) -> Any:
    return mask.to_numpy().astype(bool)
