"""Removes the rows of a Paimon table that `reconcile_lake` found: doubled offsets, rows behind a gap, whole buckets.

Files of a log table that contain such rows are rewritten without them; other files stay. In a clean table, footers tell which offsets a
file has, and each file is rewritten separately, because a footer describes one bucket. An emptied bucket of a primary-key table loses all
its files. This needs about 25 bytes of memory for each row of a bucket, for the rows' offsets.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tiering.errors import LakewardError
from tiering.lake.base import LakeView, WriteResult, WriterInitContext
from tiering.lake.log_starts import commit_times_ms
from tiering.lake.maintenance import Removal
from tiering.lake.paimon.commit.manifests import Manifests, Place
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.data_files import open_data_file
from tiering.lake.paimon.reading.file_columns import FileColumns
from tiering.lake.paimon.reading.file_lists import schema_of_files
from tiering.lake.paimon.reading.footers import offsets_of, read_footer
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.schema.drift import drift
from tiering.lake.paimon.schema.partitions import bucket_folder, partition_texts, partition_values
from tiering.lake.paimon.storage.base import discard
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.writing.parquet_files import FilePlace, ParquetFiles, paimon_rows
from tiering.lake.paimon.writing.payload import FilesPayload, WrittenFile, encode_files
from tiering.lake.proof.file_footer import FileFooter
from tiering.lake.rules.row_repair import rows_to_remove
from tiering.lake.writing.keys import Mask
from tiering.lake.writing.provenance import Provenance
from tiering.model.tables import OFFSET_COLUMN, SYSTEM_COLUMNS, BucketKey, TableInfo

_BATCH_ROWS = 1 << 18
NO_BUCKET = -1
"""Bucket number for rows that belong to none of the examined buckets."""
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Target:
    """The target of the new files."""

    table: TableInfo
    view: LakeView
    state: TableState
    round_id: str

    @property
    def columns(self) -> pa.Schema:
        """The columns of new files."""
        return self.state.columns

    @property
    def total_buckets(self) -> int:
        return self.state.total_buckets

    @property
    def loaded(self) -> LoadedTable:
        return cast(LoadedTable, self.view.handle)


@dataclass(frozen=True)
class _File:
    entry: Any
    path: PurePath
    buckets: Numbers
    offsets: Numbers
    footer: FileFooter | None = None
    """Set only for a clean table."""
    times_ms: Numbers | None = None
    """Commit times; set only for a table with system columns."""


def remove_rows(table: TableInfo, view: LakeView, round_id: str, removal: Removal, state: TableState) -> list[WriteResult]:
    """Implements `RowRemoval.remove_rows`."""
    target = _Target(table, view, state, round_id)
    with lake_errors(f"remove rows from the lake table {view.path}", table_path=view.path):
        manifests = Manifests(target.loaded)
        results: list[WriteResult] = []
        for place, buckets in _places(target, removal).items():
            if table.primary_key:
                results += _emptied(target, manifests, place, [bucket for bucket in buckets if bucket in removal.emptied])
            else:
                results += _without_rows(target, manifests, place, buckets, removal)
        return results


def _places(target: _Target, removal: Removal) -> dict[Place, list[BucketKey]]:
    """Returns the examined buckets by their place in the lake. Without a bucket key all buckets of a partition share one place."""
    keys = target.loaded.schema.table.partition_keys
    places: defaultdict[Place, list[BucketKey]] = defaultdict(list)
    for bucket, (name, _) in removal.places.items():
        values = partition_values(keys, target.columns, partition_texts(target.table, name))
        places[values, bucket.bucket_id if target.total_buckets > 0 else 0].append(bucket)
    return places


def _emptied(target: _Target, manifests: Manifests, place: Place, buckets: list[BucketKey]) -> Iterator[WriteResult]:
    """Yields the write results that remove all files of the buckets."""
    for bucket in buckets:
        state = manifests.buckets([place]).get(place)
        if state is not None:
            rows = sum(int(entry.file.row_count) for entry in state.entries)
            yield _result(bucket, _payload(target, place, (), replaces=True), (), rows)


def _without_rows(target: _Target, manifests: Manifests, place: Place, buckets: list[BucketKey], removal: Removal) -> Iterator[WriteResult]:
    """Yields one write result for each bucket that loses rows; the first one carries the changes of the files."""
    state = manifests.buckets([place]).get(place)
    if state is None:
        return
    files = [_file(target, entry, target.loaded.root / manifests.file_path(entry), buckets) for entry in state.entries]
    masks = _rows_to_remove(files, buckets, removal)
    lost = Counter(int(number) for file, mask in zip(files, masks, strict=True) for number in file.buckets[mask])
    changed = [(file, mask) for file, mask in zip(files, masks, strict=True) if mask.any()]
    if not changed:
        return
    removed = tuple(str(file.entry.file.file_name) for file, _ in changed)
    written = _write_remaining_rows(target, place, changed)
    payload = _payload(target, place, written, removed=removed)
    for bucket in sorted((bucket for bucket in buckets if lost[bucket.bucket_id]), key=BucketKey.sort_key):
        yield _result(bucket, payload, written, lost[bucket.bucket_id])
        payload, written = _payload(target, place, ()), ()


def _file(target: _Target, entry: Any, path: PurePath, buckets: list[BucketKey]) -> _File:
    if not target.loaded.schema.layout.has_row_offsets:
        footer = read_footer(target.loaded.storage, target.table.path, path, int(entry.file.row_count))
        # NO_BUCKET: the file is of a former partition with that name.
        bucket_id = footer.bucket.bucket_id if footer.bucket in buckets else NO_BUCKET
        return _File(entry, path, np.full(footer.rows, bucket_id, np.int64), offsets_of(footer), footer)
    if path.suffix != ".parquet":
        raise drift(target.table.path, None, f"has the file {path.name}, which is not a Parquet file")
    with open_data_file(target.loaded.storage, path) as file:
        rows = file.read(columns=list(SYSTEM_COLUMNS), use_threads=False)
    columns = [rows.column(name) for name in SYSTEM_COLUMNS] if rows.num_columns == len(SYSTEM_COLUMNS) else []
    if not columns or any(column.null_count for column in columns):
        raise drift(target.table.path, OFFSET_COLUMN, f"has the file {path.name}, which has rows without bucket, offset or commit time")
    numbers, offsets = (column.to_numpy().astype(np.int64) for column in columns[:2])
    times = [commit_times_ms(chunk) for chunk in columns[2].chunks]
    return _File(entry, path, numbers, offsets, times_ms=np.concatenate([np.zeros(0, np.int64), *times]))


def _rows_to_remove(files: list[_File], buckets: list[BucketKey], removal: Removal) -> list[Mask]:
    """Returns for each file a mask of the rows to remove from `buckets`: their offset occurred before, in this or another file, or is at or
    above the bucket's ceiling.

    Rows that the bucket's log did not write stay: a former partition of the same name may have written them.
    """
    numbers, offsets = (np.concatenate(parts) for parts in ([file.buckets for file in files], [file.offsets for file in files]))
    is_removed = np.zeros(len(numbers), dtype=bool)
    for bucket in buckets:
        may_go, begin, ceiling = numbers == bucket.bucket_id, removal.begins.get(bucket), removal.ceilings.get(bucket)
        times = [file.times_ms for file in files if file.times_ms is not None]
        if begin is not None and times:
            may_go &= begin.own(np.concatenate(times))
        is_removed |= rows_to_remove(offsets, may_go, ceiling)
    return np.split(is_removed, np.cumsum([len(file.offsets) for file in files])[:-1])


def _write_remaining_rows(target: _Target, place: Place, changed: list[tuple[_File, Mask]]) -> tuple[WrittenFile, ...]:
    if target.loaded.schema.layout.has_row_offsets:
        return _rows_that_stay(target, place, changed, None)
    written: list[WrittenFile] = []
    try:
        for file, mask in changed:
            assert file.footer is not None
            context = WriterInitContext(target.table, target.loaded.uuid, file.footer.bucket, None, target.round_id, "")
            written += _rows_that_stay(target, place, [(file, mask)], target.state.provenance(context))
    except BaseException:
        discard(target.loaded.storage, (target.loaded.root / file_written.path for file_written in written))
        raise
    return tuple(written)


def _rows_that_stay(
    target: _Target, place: Place, changed: list[tuple[_File, Mask]], provenance: Provenance | None
) -> tuple[WrittenFile, ...]:
    keys, (values, bucket) = target.loaded.schema.table.partition_keys, place
    folder = bucket_folder(keys, [str(value) for value in values], bucket)
    prefix = f"lakeward-{target.round_id}-{uuid.uuid4()}-{bucket}"
    files = ParquetFiles(
        FilePlace(target.table.path, target.loaded.root, folder, prefix, target.loaded.storage), target.columns, provenance
    )
    with files.aborted_on_error():
        for file, mask in changed:
            if provenance is not None:
                provenance.take_offsets(file.offsets[~mask])
            first = 0
            present = _present(target, file)
            with target.loaded.storage.opened_file(file.path) as source, pq.ParquetFile(source) as parquet:
                for batch in parquet.iter_batches(_BATCH_ROWS, use_threads=False):
                    stays = batch.filter(pa.array(~mask[first : first + batch.num_rows]))
                    first += batch.num_rows
                    if stays.num_rows:
                        files.add(paimon_rows(present(stays), target.columns))
        return files.close()


def _present(target: _Target, file: _File) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Returns the function that gives rows of a file the present columns."""
    schema_id = int(file.entry.file.schema_id)
    if schema_id == target.loaded.schema.schema_id:
        return lambda rows: rows
    stored = FileColumns({schema_id: schema_of_files(target.loaded, schema_id).numbered_all})

    def misfit(column: str, problem: str) -> LakewardError:
        return drift(target.table.path, column, f"has the file {file.path.name}, whose column {column!r} has {problem}")

    return lambda rows: stored.present(rows, schema_id, target.state.numbered, misfit)


def _payload(
    target: _Target, place: Place, files: tuple[WrittenFile, ...], *, removed: tuple[str, ...] = (), replaces: bool = False
) -> FilesPayload:
    (values, bucket), loaded = place, target.loaded
    texts = tuple(str(value) for value in values)
    return FilesPayload(
        loaded.uuid, loaded.schema.schema_id, texts, bucket, target.total_buckets, files, replaces=replaces, removed=removed
    )


def _result(bucket: BucketKey, payload: FilesPayload, files: tuple[WrittenFile, ...], rows: int) -> WriteResult:
    size = sum(file.size_bytes for file in files)
    return WriteResult(bucket, 0, 0, 0, len(files), size, encode_files(payload), deletes=rows)
