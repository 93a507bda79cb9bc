"""Merges sorted runs of one bucket of a primary-key table: for each key the row with the highest sequence number stays.

Also runs on executors. The runs are read in parallel, one batch of each at a time. Rows up to the lowest last key of the batches are
complete, so memory is bounded by some batches of each run. Rows keep their sequence numbers and kinds, so readers see the same result. A
delete row is left out only if no older run remains in the bucket. The changelog of the table stays unchanged.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiering.errors import Cancelled, DataCorrupt
from tiering.lake.base import FileRewrite, WriterInitContext
from tiering.lake.maintenance import RewriteTask
from tiering.lake.outside_errors import DAMAGED_HINT
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.data_files import known_footer, open_data_file
from tiering.lake.paimon.schema.partitions import bucket_folder
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.merged_log_files import DataFile, rewrite_log_files
from tiering.lake.paimon.writing.parquet_files import FilePlace
from tiering.lake.paimon.writing.payload import FilesPayload, encode_files
from tiering.lake.paimon.writing.sorted_files import KEY_PREFIX, KIND, SEQUENCE, TAKES_AWAY, SortedFiles, sorted_schema
from tiering.lake.proof.file_footer import FileFooter, sum_of
from tiering.lake.writing.keys import plain
from tiering.lake.writing.provenance import Provenance, file_prefix
from tiering.model.tables import TableInfo

_BATCH_ROWS = 1 << 15
"""Number of rows of each run that are in memory at a time."""


@dataclass(frozen=True)
class RunRewrite:
    """The payload of a `RewriteTask`: sorted runs of one bucket, the oldest first, to be merged to one run of the level `level`.

    A run is a sequence of files in key order. `drops_deletes`: no older run remains in the bucket.
    """

    table: TableInfo
    table_uuid: str
    partition: tuple[str, ...]
    paimon_bucket: int
    runs: tuple[tuple[DataFile, ...], ...]
    level: int
    drops_deletes: bool

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for run in self.runs for file in run)


def rewrite_files(state: TableState, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
    """Rewrites the files of a primary-key table or a log table. Implements `FileRewriter.rewrite`."""
    rewrite = rewrite_sorted_runs if state.primary_key else rewrite_log_files
    return rewrite(state, task, round_id, nonce, is_stopped)


def rewrite_sorted_runs(state: TableState, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
    """Merges the runs of a primary-key table. Implements `FileRewriter.rewrite`."""
    work: RunRewrite = pickle.loads(task.payload)
    context = WriterInitContext(work.table, work.table_uuid, task.bucket, task.partition_name, round_id, nonce)
    folder = bucket_folder(state.partition_keys, work.partition, work.paimon_bucket)
    place = FilePlace(work.table.path, state.root, folder, file_prefix(context), state.storage)
    files = SortedFiles(place, state.columns, state.primary_key, _provenance(state, work, context), state.target_bytes)
    try:
        with lake_errors(f"rewrite files of {work.table.path}", table_path=work.table.path):
            meter = _Meter(is_stopped)
            rows_stay = False
            for rows in _merged(state, work, meter):
                files.append(rows)
                rows_stay = rows_stay or rows.num_rows > 0
            if not (rows_stay or state.layout.has_row_offsets):  # a footer has to account for the removed files
                for rows in _merged(state, replace(work, drops_deletes=False), meter):
                    files.append(rows)
        written = files.close()
    except BaseException:
        files.abort()
        raise
    payload = FilesPayload(
        work.table_uuid,
        state.schema_id,
        work.partition,
        work.paimon_bucket,
        state.total_buckets,
        written,
        removed=tuple(file.name for file in work.files),
        is_compacted=True,
        level=work.level,
    )
    size_bytes, dropped = sum(file.size_bytes for file in written), task.records - sum(file.records for file in written)
    return FileRewrite(task.bucket, encode_files(payload), task.files, len(written), task.size_bytes, size_bytes, dropped)


def footer_of_run(state: TableState, work: RunRewrite, task_bucket: object, file: DataFile) -> FileFooter | None:
    """Returns the footer of a file of a clean table; None unless a round of this table wrote the file for this bucket."""
    footer = known_footer(state.storage, state.root / file.path, file.rows)
    if footer is None or footer.changes is None or (footer.table_id, footer.bucket) != (work.table.table_id, task_bucket):
        return None
    return footer if footer.lake_table_uuid == work.table_uuid else None


def _provenance(state: TableState, work: RunRewrite, context: WriterInitContext) -> Provenance | None:
    """Returns the content of the new files' footers: the combined changes that the old files folded."""
    if state.layout.has_row_offsets:
        return None
    provenance = Provenance(context)
    footers = [(file, footer_of_run(state, work, context.bucket, file)) for file in work.files]
    ranges = [footer.changes for _, footer in footers if footer is not None and footer.changes is not None]
    if len(ranges) < len(footers):
        raise _corrupt(work, next(file for file, footer in footers if footer is None))
    provenance.changes = (min(start for start, _ in ranges), max(stop for _, stop in ranges))
    provenance.folded = sum_of(footer.written_checksum for _, footer in footers if footer is not None)
    return provenance


class _Meter:
    """Counts the rows that were read. Raises Cancelled once the rewrite has to stop."""

    def __init__(self, is_stopped: Callable[[int], bool]) -> None:
        self._is_stopped = is_stopped
        self._rows = 0

    def add(self, rows: int) -> None:
        self._rows += rows
        if self._is_stopped(self._rows):
            raise Cancelled("the rewriting of files was stopped")


def _merged(state: TableState, work: RunRewrite, meter: _Meter) -> Iterator[pa.Table]:
    """Yields the remaining rows, in key order."""
    names = [KEY_PREFIX + name for name in state.primary_key]
    schema = sorted_schema(state.columns, state.primary_key)
    cursors = [_Cursor(_rows_of_run(state, work, run, schema, meter), names) for run in work.runs]
    while remaining := [cursor for cursor in cursors if cursor.has_rows()]:
        ends = [cursor.last_key for cursor in remaining if not cursor.is_last]
        end = min(ends, key=lambda key: key.order) if ends else None
        rows = pa.concat_tables([cursor.take_until(end) for cursor in remaining])
        newest = _newest_of_each_key(rows, names)
        if work.drops_deletes:
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
    """Returns for each row whether its key is at most `end`."""
    columns = list(zip(names, end.scalars, strict=True))
    name, value = columns[-1]
    at_most = _numpy(pc.less_equal(rows[name], value))

    def within(result: Any, column: tuple[str, Any]) -> Any:
        outer, bound = column
        return _numpy(pc.less(rows[outer], bound)) | (_numpy(pc.equal(rows[outer], bound)) & result)

    return reduce(within, reversed(columns[:-1]), at_most)


def _numpy(mask: Any) -> Any:
    return mask.to_numpy().astype(bool)


def _rows_of_run(state: TableState, work: RunRewrite, run: Sequence[DataFile], schema: pa.Schema, meter: _Meter) -> Iterator[pa.Table]:
    """Yields batches of rows in key order, in the columns of `schema`.

    Raises DataCorrupt for a file whose number of rows differs from its manifest entry, or that has no key columns.
    """
    for file in run:
        rows = 0
        with open_data_file(state.storage, state.root / file.path) as parquet:
            if any(name not in parquet.schema_arrow.names for name in schema.names if name.startswith((KEY_PREFIX, SEQUENCE, KIND))):
                raise _corrupt(work, file)
            for batch in parquet.iter_batches(_BATCH_ROWS, use_threads=False):
                rows += batch.num_rows
                meter.add(batch.num_rows)
                yield pa.Table.from_batches([_in_columns(batch, schema)])
        if rows != file.rows:
            raise _corrupt(work, file)


def _in_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        column = pa.nulls(batch.num_rows, field.type) if index < 0 else batch.column(index)
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(cast(Any, columns), schema=schema)


def _corrupt(work: RunRewrite, file: DataFile) -> DataCorrupt:
    return DataCorrupt(
        f"the file {file.name} of {work.table.path} was read to merge it, but its rows do not match its footer or its manifest",
        hint=DAMAGED_HINT,
        table_path=work.table.path,
        lake_file=file.path,
    )
