"""Writes one bucket's changes of a primary-key table: appends rows, and deletes the lake's rows of the changed keys by position.

Each bucket has one writer in a round. Changes are kept in a `Spool` until all are known, because only the last change of a key counts. Then
the writer reads the keys of the bucket's live data files once, and nothing else of them. A bucket with too many deleted rows or small files
is rewritten instead (`bucket_files.is_to_be_rewritten`). Files that may also hold rows of other buckets or of a former partition are never
removed: their rows are deleted by position. Memory is bounded by a few row groups, and some bytes for each row of the bucket's files and
each change. More than a million keys are compared by DuckDB within its own limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import structlog
from pyiceberg.manifest import DataFile

from tiering.errors import InvalidData, LakewardError
from tiering.lake.base import WriteResult, WriterInitContext
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.bucket_files import (
    BucketFiles,
    LiveFile,
    are_deletes_merged,
    decode_bucket_files,
    files_to_merge,
    is_to_be_rewritten,
)
from tiering.lake.iceberg.primary_key.parquet_files import key_rows, open_parquet, rows_of_bucket, stored_and_whole_rows, whole_rows
from tiering.lake.iceberg.primary_key.position_deletes import dead_rows, write_deletes
from tiering.lake.iceberg.reading.lake_parquet import FileCheck, LakeParquet, footer_of
from tiering.lake.iceberg.schema.layout import bucket_keys
from tiering.lake.iceberg.schema.partition_values import FilePlace
from tiering.lake.iceberg.writing.data_files import BucketChange, encode_files
from tiering.lake.iceberg.writing.writer import RowFiles
from tiering.lake.outside_errors import describe
from tiering.lake.proof.file_footer import FileFooter, sum_of
from tiering.lake.proof.row_checksum import row_checksum
from tiering.lake.rules.upkeep.small_files import MERGED_BYTES, merge_budget
from tiering.lake.writing.fitting import fit, fit_records, watched_schema
from tiering.lake.writing.keys import ChangedKeys, KeyRows, Mask, kept_rows, last_of_each_key, rows_with
from tiering.lake.writing.row_guard import ChangeGuard
from tiering.lake.writing.spool import Spool
from tiering.model.tables import CHANGE_TYPE_COLUMN, CHANGE_TYPE_FIELD, ChangeType

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _DeletedRows:
    """The rows that are deleted before the round, by data file. `by_own`: those that only the bucket's own delete files name."""

    rows: Mapping[str, Mask] = field(default_factory=dict)
    by_own: Mapping[str, Mask] = field(default_factory=dict)
    left_over: bool = False
    """Whether the bucket's own delete files have deletes without effect."""


class PrimaryKeyWriter:
    """A `LakeWriter` of primary-key tables."""

    def __init__(self, context: WriterInitContext, place: FilePlace, files: RowFiles, guard: ChangeGuard) -> None:
        self._context = context
        self._place = place
        self._files = files
        self._guard = guard
        self._keys = [files.state.schema.find_field(name) for name in context.table.primary_key]
        self._spool = Spool(files.schema)
        self._watched = watched_schema(files.schema)
        self._prepare = files.state.prepare(context.table)
        self._kinds: list[npt.NDArray[np.int8]] = []
        """Change types of the spooled rows."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes changes with the columns of `TableInfo.read_schema`. Raises BucketStopped, InvalidData, DataCorrupt, LakeUnavailable."""
        if batch.num_rows == 0:
            return
        watched, kinds = fit_records(self._prepare(batch, self._watched), self._watched, self._context), _change_types(batch)
        self._guard.check_changes(watched, kinds, [key.name for key in self._keys])
        rows = watched.select(self._files.schema.names)
        before = kinds.to_numpy() == ChangeType.UPDATE_BEFORE  # its +U comes in the same round, so a -U is never the last change
        with lake_errors("keep changes in a temporary file", table_path=self._context.table.path):
            for kept in kept_rows(iter([rows]), ~before):
                self._spool.add(kept)
                self._kinds.append(kinds.to_numpy()[~before])

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        """Finds the last changes and the rows to delete, and closes all files. Raises InvalidData, DataCorrupt, RoundFailed,
        LakeUnavailable."""
        self._guard.check_range(starting_offset, reached_offset)
        base, path = decode_bucket_files(self._context.base), self._context.table.path
        if self._files.provenance is not None:
            self._files.provenance.changes = (starting_offset, reached_offset)
        with lake_errors(f"fold the changes of bucket {self._context.bucket} of {path}", table_path=path):
            last = last_of_each_key(self._spool.rows, self._spool.batches([key.name for key in self._keys]))
            upserts = last & (self._change_types() != ChangeType.DELETE)
            replaced = self._context.replaces and bool(base.data or base.equality_deletes)
            looks_at_rows = bool(base.shared if replaced else last.any())
            dead = self._dead(base) if looks_at_rows else _DeletedRows()
            dying = self._dying_with_bucket(base, dead) if replaced else self._dying(base, dead.rows, self._changed(last))
            deletes, added = _count(dying), int(upserts.sum())
            base, rewritten = (base, replaced) if replaced or not looks_at_rows else self._rewriting(base, _union(dead.rows, dying), added)
            small = () if rewritten or not looks_at_rows else self._merge(self._small_files(base.own), _union(dead.rows, dying))
            if rewritten and not replaced:
                self._add_living(base.own.data, _union(dead.rows, dying))
            self._add_upserts(upserts)
            checksum = self._checksum_of(upserts) if small or (rewritten and not replaced) else None
            merged = not rewritten and (bool(small) or are_deletes_merged(base.own, deletes, left_over=dead.left_over))
            files = self._files.close()
            deleted_rows = _union(dead.by_own, dying) if merged or rewritten else dying
            files = (*files, *self._delete_files(_staying(deleted_rows, base, rewritten, small)))
        self._spool.close()
        if self._files.provenance is not None and checksum is None:
            checksum = self._files.provenance.checksum
        change = self._change(base, rewritten, merged, small) if last.any() or replaced else None
        return WriteResult(
            bucket=self._context.bucket,
            starting_offset=starting_offset,
            reached_offset=reached_offset,
            records=added,
            files=len(files),
            size_bytes=sum(file.file_size_in_bytes for file in files),
            payload=encode_files(replace(self._files.payload(files), change=change)),
            deletes=deletes,
            checksum=checksum,
        )

    def abort(self) -> None:
        """Deletes the files that were written so far. Never raises."""
        self._spool.close()
        self._files.abort()

    def _change_types(self) -> npt.NDArray[np.int8]:
        return np.concatenate(self._kinds) if self._kinds else np.zeros(0, np.int8)

    def _changed(self, last: Mask) -> ChangedKeys:
        names = [key.name for key in self._keys]
        types = tuple(self._files.schema.field(name).type for name in names)
        return ChangedKeys(tuple(names), types, int(last.sum()), lambda: kept_rows(self._spool.batches(names), last))

    def _dead(self, base: BucketFiles) -> _DeletedRows:
        own = base.own.deletes
        by_own, left_over = dead_rows(self._files.io, base.data, own)
        by_others, _ = dead_rows(self._files.io, base.data, [file for file in base.deletes if file not in own])
        return _DeletedRows(_union(by_others, by_own), by_own, left_over)

    @staticmethod
    def _is_to_be_rewritten(own: BucketFiles, deleted: Mapping[str, Mask], added: int) -> bool:
        return is_to_be_rewritten(own, sum(int(deleted[file.location].sum()) for file in own.data if file.location in deleted), added)

    def _rewriting(self, base: BucketFiles, deleted: Mapping[str, Mask], added: int) -> tuple[BucketFiles, bool]:
        """Returns whether the bucket's live rows are rewritten. Files that stay then are `shared` in the returned base."""
        if not self._is_to_be_rewritten(base.own, deleted, added):
            return base, False
        if not (remaining_files := self._perhaps_of_former_partitions(base.own)):
            return base, True
        base = replace(base, shared=base.shared | remaining_files)
        return base, self._is_to_be_rewritten(base.own, deleted, added)

    def _perhaps_of_former_partitions(self, base: BucketFiles) -> frozenset[str]:
        """Returns files of a clean table that may hold rows of a dropped partition of this name. If they were rewritten, the footer of the
        new file would claim that they came from the present partition's log. Files of other writers do not tell."""
        if self._files.provenance is None or not self._context.table.partition_keys:
            return frozenset()
        bucket, remaining_files = self._context.bucket, set[str]()
        for file in base.data:
            with open_parquet(self._files.io, file) as parquet:
                footer = footer_of(parquet, file.location)
            if footer is None or footer.bucket != bucket:
                remaining_files.add(file.location)
        return frozenset(remaining_files)

    def _dying_with_bucket(self, base: BucketFiles, dead: _DeletedRows) -> dict[str, Mask]:
        """Returns all live rows of the bucket in files that also hold rows of other buckets."""
        table = self._context.table
        keys = [self._files.state.schema.find_field(name) for name in bucket_keys(table)]
        shared = [file for file in base.data if file.location in base.shared]
        dying = rows_of_bucket(self._files.io, shared, keys, table.bucket_count, self._context.bucket.bucket_id)
        return {path: mask & ~dead.rows[path] if path in dead.rows else mask for path, mask in dying.items()}

    def _dying(self, base: BucketFiles, dead: Mapping[str, Mask], changed: ChangedKeys) -> dict[str, Mask]:
        """Returns by data file the live rows that have a changed key."""
        if not changed.count or not base.data:
            return {}
        dying: dict[str, Mask] = {}
        for number, positions in rows_with(changed, self._live_keys(base, changed)):
            file = base.data[number]
            mask = dying.setdefault(file.location, np.zeros(file.records, dtype=bool))
            mask[positions] = True
        for location, mask in dying.items():
            if location in dead:
                mask &= ~dead[location]
        return dying

    def _live_keys(self, base: BucketFiles, changed: ChangedKeys) -> Iterator[KeyRows]:
        bounds = changed.bounds()
        for number, file in enumerate(base.data):
            with open_parquet(self._files.io, file) as parquet:
                yield from key_rows(parquet, number, self._keys, bounds)

    def _small_files(self, own: BucketFiles) -> tuple[LiveFile, ...]:
        """Returns the files that are merged with the rows of this round."""
        table = self._context.table
        if not table.auto_compaction:
            return ()
        budget_bytes = merge_budget(table.freshness_ms, MERGED_BYTES) // table.bucket_count  # each bucket has its own writer
        small = files_to_merge(own, self._files.target_bytes, budget_bytes)
        remaining_files = self._perhaps_of_former_partitions(replace(own, data=small)) if small else frozenset()
        return tuple(file for file in small if file.location not in remaining_files)

    def _merge(self, small: tuple[LiveFile, ...], deleted: Mapping[str, Mask]) -> tuple[LiveFile, ...]:
        """Adds the live rows of the files and returns the files; adds nothing if one is damaged, because the round does not need it."""
        try:
            self._add_living(small, deleted, checked=True)
        except (LakewardError, OSError, pa.ArrowException) as error:
            _log.warning("small files were not merged; the round continues without the merge", error=describe(error))
            self._files.start_over()
            return ()
        return small

    def _add_living(self, files: Iterable[LiveFile], deleted: Mapping[str, Mask], *, checked: bool = False) -> None:
        """Adds the live rows of the files. `checked`: raises DataCorrupt for a file whose rows do not have its footer's checksum."""
        for file in files:
            living = ~deleted[file.location] if file.location in deleted else np.ones(file.records, dtype=bool)
            if not living.any():
                continue
            with open_parquet(self._files.io, file) as parquet:
                footer = footer_of(parquet, file.location) if checked else None
                for batch in kept_rows(self._whole_rows(parquet, footer, file.location), living):
                    self._files.add(batch)

    def _whole_rows(self, parquet: LakeParquet, footer: FileFooter | None, location: str) -> Iterator[pa.RecordBatch]:
        """Yields all rows of a file in the lake's present columns. Raises DataCorrupt at the end if they do not fit the footer."""
        state = self._files.state
        check = None if footer is None else FileCheck(parquet, footer, location, state.recorded)
        if check is None:
            yield from (fit(batch, self._files.schema) for batch in whole_rows(parquet, state.schema))
            return
        for stored, batch in stored_and_whole_rows(parquet, state.schema):
            check.add(stored)
            yield fit(batch, self._files.schema)
        check.end()

    def _add_upserts(self, upserts: Mask) -> None:
        if upserts.any():
            for batch in kept_rows(self._spool.batches(), upserts):
                self._files.add(batch)

    def _checksum_of(self, upserts: Mask) -> int | None:
        """Returns the checksum of the changed rows only. The checksum of the files also includes rewritten rows."""
        if self._files.provenance is None:
            return None
        names = self._files.provenance.names
        return sum_of(row_checksum(batch, names) for batch in kept_rows(self._spool.batches(), upserts)) if upserts.any() else 0

    def _delete_files(self, dying: Mapping[str, Mask]) -> tuple[DataFile, ...]:
        if not _count(dying):
            return ()
        footer_of = None if self._files.provenance is None else self._files.provenance.footer_of_deletes
        return (write_deletes(self._files.io, self._files.new_location(), dying, self._files.builder, footer_of),)

    def _change(self, base: BucketFiles, rewritten: bool, merged: bool, small: Sequence[LiveFile]) -> BucketChange:
        rewrites, place = rewritten or bool(small), self._place
        digest = base.digest() if rewrites else base.data_digest()
        removed = (*small, *base.own.deletes) if merged else ()
        if rewritten and (place.bucket is not None or base.shared):
            removed = (*base.own.data, *base.own.deletes)
        obsolete = tuple(file.location for file in removed)
        return BucketChange(place.partition, base.snapshot_id, digest, rewrites, obsolete, place.bucket)


def _change_types(batch: pa.RecordBatch) -> pa.Array[Any]:
    index = batch.schema.get_field_index(CHANGE_TYPE_COLUMN)
    if index < 0 or batch.column(index).type != CHANGE_TYPE_FIELD.type:
        raise InvalidData(f"the rows lack the column {CHANGE_TYPE_COLUMN!r} of type {CHANGE_TYPE_FIELD.type}", column=CHANGE_TYPE_COLUMN)
    return batch.column(index)


def _staying(deleted_rows: Mapping[str, Mask], base: BucketFiles, rewritten: bool, small: Iterable[LiveFile]) -> dict[str, Mask]:
    """Returns those rows of `deleted_rows` whose files stay, because a delete file names only rows of files that stay."""
    removed = {file.location for file in small}
    return {path: mask for path, mask in deleted_rows.items() if path not in removed and (not rewritten or path in base.shared)}


def _union(some: Mapping[str, Mask], others: Mapping[str, Mask]) -> dict[str, Mask]:
    return {**some, **{path: mask | some[path] if path in some else mask for path, mask in others.items()}}


def _count(masks: Mapping[str, Mask]) -> int:
    return sum(int(mask.sum()) for mask in masks.values())
