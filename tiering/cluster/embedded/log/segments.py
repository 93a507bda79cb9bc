"""Segment files: the rows of one append in one bucket, as an uncompressed Arrow IPC file that never changes.

A file has the table's columns, followed by the change type for a primary-key table. Offsets and commit time are not stored in it, because
they belong to the append: the reader adds them. Files are written under a temporary name, synced and renamed, and belong to the log only
once the metadata names them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from isal.isal_zlib import crc32  # zlib's CRC-32, five times as fast: it uses special instructions of the processor
from pyarrow import ipc

from tiering.cluster.embedded.stored_paths import read_published, stored_path
from tiering.errors import BadRequest, DataCorrupt, LogTruncated, SourceChanged
from tiering.files.durable_files import make_folder, sync_folder, write_whole
from tiering.library_guards.arrow_ipc import read_file_batch
from tiering.model.schema.field_ids import without_metadata
from tiering.model.tables import CHANGE_TYPE_FIELD, BucketKey

LOG_FOLDER = "log"
SUFFIX = ".arrow"
DROPPED_SUFFIX = ".dropped"
"""Suffix of an empty file, the tombstone, which shows that a table or partition was dropped, so that its missing segments are no damage."""
LOG_STARTS_FILE = "log-starts.json"
"""File with the log starts of a table's cut buckets (`maintenance`), so that a cut segment is no damage either."""
GAP_HINT = (
    "The cluster's list of segments, meta.db, has a gap. Restore meta.db together with the folder log from one backup of the cluster's "
    "folder, or drop the table and load it again."
)
"""Hint for an offset of the log that no segment covers."""
SYNCING_THREADS = 16
"""Disks and journals handle this many syncs concurrently; more threads gain little."""
MAX_SEGMENT_BYTES = 16 * 1024 * 1024
"""Maximum size of a segment, which a reader holds in memory; larger appends become several segments."""


@dataclass(frozen=True)
class EncodedSegment:
    """A segment before it has a name and offsets."""

    content: pa.Buffer
    crc32: int
    records: int


@dataclass(frozen=True)
class Segment:
    """A published segment: records `[starting_offset, stopping_offset)` of one bucket, committed together."""

    path: str
    """Path relative to the cluster's root folder."""
    starting_offset: int
    stopping_offset: int
    size_bytes: int
    crc32: int
    commit_us: int
    columns: int
    """Number of columns in the file: the first ones of the schema."""
    schema_id: int
    """The version of the table's columns with which the file was written."""


def encode_segments(batch: pa.RecordBatch) -> Iterator[EncodedSegment]:
    """Yields `batch` (not empty) as segments of bounded size, in order."""
    schema = without_metadata(batch.schema)  # the same rows have the same bytes, whatever the comments and ids of their columns
    pieces = max(1, -(-batch.nbytes // MAX_SEGMENT_BYTES))
    rows = -(-batch.num_rows // pieces)
    for start in range(0, batch.num_rows, rows):
        piece = batch.slice(start, rows)
        sink = pa.BufferOutputStream()
        with ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(piece.columns, schema=schema))
        content = sink.getvalue()
        yield EncodedSegment(content, crc32(content), piece.num_rows)


def write_segments(root: Path, table_id: int, named: Iterable[tuple[str, EncodedSegment]]) -> list[str]:
    """Writes each segment under its name, durably; returns their paths relative to `root`. Raises OSError."""
    folder = root / LOG_FOLDER / str(table_id)
    files = [(folder / f"{name}{SUFFIX}", segment.content) for name, segment in named]
    if not files:
        return []
    make_folder(folder)
    if len(files) == 1:
        write_whole(*files[0])
    else:
        # An append to hundreds of partitions needs hundreds of syncs, which are faster concurrently.
        with ThreadPoolExecutor(min(len(files), SYNCING_THREADS)) as pool:
            list(pool.map(write_whole, *zip(*files, strict=True)))
    sync_folder(folder)
    return [str(final.relative_to(root)) for final, _ in files]


def read_segment(root: Path, segment: Segment, columns: pa.Schema, bucket: BucketKey, *, changes: bool = False) -> pa.RecordBatch:
    """Returns the rows of a segment, from exactly the bytes whose checksum was verified.

    They have `columns` (`stored_columns.columns_in`), and with `changes` (a primary-key table) the change type after them.

    Raises DataCorrupt naming file, bucket and offset range; SourceChanged if table or partition were dropped in the meantime, LogTruncated
    if the log was cut; ClusterUnavailable if the folder is missing.
    """
    path = stored_path(root, segment.path)
    where = f"{path}, bucket {bucket}, offsets [{segment.starting_offset}, {segment.stopping_offset})"

    def corrupt(damage: str) -> DataCorrupt:
        return _corrupt(f"the segment {damage}", where, segment, bucket)

    try:
        published = (segment.size_bytes, segment.crc32)
        content = read_published(root, segment.path, published, f"segment {where}", corrupt, root / LOG_FOLDER)
    except FileNotFoundError as error:
        if _is_dropped(path.parent, bucket):
            raise SourceChanged(f"the table or partition was dropped while it was read: {where}", bucket=bucket) from error
        if _is_cut(path, segment, bucket):
            raise LogTruncated(f"the log was cut while it was read: {where}", bucket=bucket) from error
        raise corrupt("is missing") from error
    stored_schema = pa.schema([*columns, *([CHANGE_TYPE_FIELD] if changes else [])])
    try:
        return read_file_batch(content, stored_schema, segment.stopping_offset - segment.starting_offset)
    except BadRequest as error:
        raise corrupt(f"does not contain the expected rows ({error.message})") from error


def table_tombstone(root: Path, table_id: int) -> Path:
    """Returns the path of a dropped table's tombstone, which is written before any segment of the table is removed."""
    return root / LOG_FOLDER / f"{table_id}{DROPPED_SUFFIX}"


def partition_tombstone(root: Path, table_id: int, partition_id: int) -> Path:
    """Returns the path of a dropped partition's tombstone."""
    return root / LOG_FOLDER / str(table_id) / f"{partition_id}{DROPPED_SUFFIX}"


def _is_dropped(folder: Path, bucket: BucketKey) -> bool:
    of_table = folder.with_name(folder.name + DROPPED_SUFFIX)
    return of_table.exists() or (bucket.partition_id is not None and (folder / f"{bucket.partition_id}{DROPPED_SUFFIX}").exists())


def log_starts_file(root: Path, table_id: int) -> Path:
    """Returns the path of the file with the log starts of a table's cut buckets."""
    return root / LOG_FOLDER / str(table_id) / LOG_STARTS_FILE


def _is_cut(file: Path, segment: Segment, bucket: BucketKey) -> bool:
    try:
        starts = json.loads(file.with_name(LOG_STARTS_FILE).read_text())
    except FileNotFoundError:
        return False
    return segment.stopping_offset <= int(starts.get(str(bucket), 0))


def write_tombstone(file: Path) -> None:
    """Writes the file durably. Raises OSError."""
    make_folder(file.parent)
    file.touch()
    sync_folder(file.parent)


def _corrupt(damage: str, where: str, segment: Segment, bucket: BucketKey) -> DataCorrupt:
    return DataCorrupt(
        f"{damage}: {where}",
        hint="Restore the file from a backup of the cluster's folder; records after it cannot be read until then.",
        path=segment.path,
        bucket=bucket,
        starting_offset=segment.starting_offset,
        stopping_offset=segment.stopping_offset,
    )
