"""Writes one bucket's changes of a primary-key table: the last change of each key as sorted runs, and all changes for readers that follow
the table.

Changes are spooled to disk (`Spool`) until all are known, because only the last change of a key counts. Memory is bounded by one run and
some bytes for each change; more than a million keys are compared by DuckDB within its own memory limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.errors import InvalidData
from tiering.lake.base import WriteResult, WriterInitContext
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.writing.payload import FilesPayload, encode_files
from tiering.lake.paimon.writing.sorted_files import ROW_KINDS, SortedFiles
from tiering.lake.writing.fitting import fit_records, watched_schema
from tiering.lake.writing.keys import Mask, last_of_each_key
from tiering.lake.writing.row_guard import ChangeGuard
from tiering.lake.writing.source_rows import Prepare
from tiering.lake.writing.spool import Spool
from tiering.model.tables import CHANGE_TYPE_COLUMN, CHANGE_TYPE_FIELD, ChangeType

RUN_BYTES = 64 << 20
"""Size of the Arrow data in one sorted run; sorting and writing it takes about four times as much memory."""
NOTHING_STANDS = -1
"""Highest sequence number of an empty bucket: Paimon's sequence numbers begin at 0."""
_KINDS = np.array([ROW_KINDS.get(kind, 0) for kind in ChangeType], np.int8)


class PaimonPrimaryKeyWriter:
    """Implements `LakeWriter` for primary-key tables. `target`: the payload without files. `is_followed`: all changes are written too."""

    def __init__(
        self, context: WriterInitContext, target: FilesPayload, files: SortedFiles, guard: ChangeGuard, is_followed: bool, prepare: Prepare
    ) -> None:
        self._context = context
        self._target = target
        self._files = files
        self._guard = guard
        self._is_followed = is_followed
        self._prepare = prepare
        self._spool = Spool(files.columns)
        self._watched = watched_schema(files.columns)
        self._kinds: list[npt.NDArray[np.int8]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes changes with the columns of `TableInfo.read_schema`. Raises BucketStopped, InvalidData, DataCorrupt, LakeUnavailable."""
        if batch.num_rows == 0:
            return
        index = batch.schema.get_field_index(CHANGE_TYPE_COLUMN)
        if index < 0 or batch.column(index).type != CHANGE_TYPE_FIELD.type:
            raise InvalidData(f"the rows lack the column {CHANGE_TYPE_COLUMN!r}", column=CHANGE_TYPE_COLUMN)
        watched = fit_records(self._prepare(batch, self._watched), self._watched, self._context)
        kinds = batch.column(index)
        self._guard.check_changes(watched, kinds, self._context.table.primary_key)
        rows = watched.select(self._files.columns.names)
        with lake_errors("keep changes in a temporary file", table_path=self._context.table.path):
            self._spool.add(rows)
            self._kinds.append(kinds.to_numpy())

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        """Folds the changes, and writes and closes all files. Raises InvalidData, DataCorrupt, RoundFailed, LakeUnavailable."""
        self._guard.check_range(starting_offset, reached_offset)
        kinds = np.concatenate(self._kinds) if self._kinds else np.zeros(0, np.int8)
        base = int(self._context.base or NOTHING_STANDS)
        first = 0 if self._context.replaces else base + 1
        path, provenance = self._context.table.path, self._files.provenance
        if provenance is not None:
            provenance.changes = (starting_offset, reached_offset)
        with lake_errors(f"fold the changes of bucket {self._context.bucket} of {path}", table_path=path):
            last = self._last(kinds)
            self._write_runs(last, kinds, first)
            if self._is_followed:
                self._write_runs(np.ones(len(kinds), dtype=bool), kinds, first, is_changelog=True)
        self._spool.close()
        files = self._files.close()
        changes_keys = bool(len(kinds)) or self._context.replaces
        payload = replace(self._target, files=files, base_sequence=base if changes_keys else None, replaces=self._context.replaces)
        return WriteResult(
            bucket=self._context.bucket,
            starting_offset=starting_offset,
            reached_offset=reached_offset,
            records=int((last & (kinds != ChangeType.DELETE)).sum()),
            files=len(files),
            size_bytes=sum(file.size_bytes for file in files),
            payload=encode_files(payload),
            deletes=int((last & (kinds == ChangeType.DELETE)).sum()),
            checksum=None if provenance is None else provenance.checksum,
        )

    def abort(self) -> None:
        """Deletes the files written so far. Never raises."""
        self._spool.close()
        self._files.abort()

    def _last(self, kinds: npt.NDArray[np.int8]) -> Mask:
        """Returns a mask of the last change of each key. A `-U` never is the last one: its `+U` comes in the same round."""
        counts = kinds != ChangeType.UPDATE_BEFORE
        last = np.zeros(len(kinds), dtype=bool)
        keys = self._context.table.primary_key
        chosen = (_kept(batch, mask) for batch, mask in _masked(self._spool.batches(keys), counts))
        last[np.flatnonzero(counts)] = last_of_each_key(int(counts.sum()), (batch for batch in chosen if batch.num_rows))
        return last

    def _write_runs(self, mask: Mask, kinds: npt.NDArray[np.int8], first: int, *, is_changelog: bool = False) -> None:
        for rows, places in self._runs(mask):
            self._files.add(rows, places + first, _KINDS[kinds[places]], is_changelog=is_changelog)
            del rows, places  # frees the run before the next one is collected

    def _runs(self, mask: Mask) -> Iterator[tuple[pa.Table, npt.NDArray[np.int64]]]:
        """Yields the changes that `mask` keeps, in portions of one run, with their positions among all changes of the split."""
        batches: list[pa.RecordBatch] = []
        places: list[npt.NDArray[np.int64]] = []
        size, position = 0, 0
        for batch, part in _masked(self._spool.batches(), mask):
            kept = _kept(batch, part)
            if kept.num_rows:
                batches.append(kept)
                places.append(np.flatnonzero(part) + position)
                size += kept.nbytes
            position += batch.num_rows
            if size >= RUN_BYTES:
                run = pa.Table.from_batches(batches), np.concatenate(places)
                batches, places, size = [], [], 0
                yield run
                del run
        if batches:
            yield pa.Table.from_batches(batches), np.concatenate(places)


def _masked(batches: Iterator[pa.RecordBatch], mask: Mask) -> Iterator[tuple[pa.RecordBatch, Mask]]:
    first = 0
    for batch in batches:
        yield batch, mask[first : first + batch.num_rows]
        first += batch.num_rows


def _kept(batch: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    return batch if mask.all() else batch.filter(pa.array(mask))
