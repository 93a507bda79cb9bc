"""Files of KV snapshots: Parquet, immutable, each with its size and CRC-32 in the metadata.

A snapshot is one or more files (none: no rows), so that a reader can hold each whole and verify it before it uses a row.
Written under a temporary name, synced, renamed; they count only once the metadata names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

from tiering.cluster.embedded.stored_paths import readable_path, stored_path
from tiering.errors import ClusterUnavailable, DataCorrupt, KvSnapshotGone
from tiering.files.crc32 import crc32
from tiering.files.durable_files import make_folder, sync_folder, write_whole
from tiering.model.tables import BucketKey

SNAPSHOT_FOLDER = "kv-snapshots"
SUFFIX = ".parquet"
MAX_FILE_BYTES = 32 * 1024 * 1024
"""Of the rows as Arrow, before they are encoded: what a reader holds."""
READ_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class SnapshotFile:
    """One file of a snapshot."""

    path: str
    """Relative to the cluster's root folder."""
    size_bytes: int
    crc32: int
    records: int


@dataclass(frozen=True)
class StoredSnapshot:
    """A KV snapshot with its files. They hold the first `columns` columns of the table."""

    snapshot_id: int
    log_offset: int
    columns: int
    files: tuple[SnapshotFile, ...]


def write_snapshot_files(root: Path, table_id: int, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[SnapshotFile]:
    """Writes rows of `schema` durably as files whose names begin with `name`. Raises ClusterUnavailable, after removing its files."""
    folder = root / SNAPSHOT_FOLDER / str(table_id)
    written: list[SnapshotFile] = []
    try:
        make_folder(folder)
        for number, rows in enumerate(_portions(batches)):
            sink = pa.BufferOutputStream()
            pq.write_table(rows.cast(schema), sink, compression="zstd", row_group_size=READ_BATCH_ROWS)
            content = sink.getvalue()
            file = folder / f"{name}-{number}{SUFFIX}"
            write_whole(file, content)
            written.append(SnapshotFile(str(file.relative_to(root)), content.size, crc32(content), rows.num_rows))
        sync_folder(folder)
    except OSError as error:
        remove_files(root, [file.path for file in written])
        raise ClusterUnavailable(f"cannot write a KV snapshot to {folder}: {error}", hint="Is the disk full?") from error
    return written


def _portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(waiting.nbytes for waiting in pending) >= MAX_FILE_BYTES:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)


def read_snapshot_files(
    root: Path, files: Sequence[SnapshotFile], schema: pa.Schema, columns: int, bucket: BucketKey
) -> Iterator[pa.RecordBatch]:
    """All rows, from exactly the bytes whose checksums were verified; the files hold the first `columns` of `schema`, the rest is NULL.

    Raises DataCorrupt naming file and bucket; KvSnapshotGone if a file is missing; ClusterUnavailable if the folder is.
    """
    held = pa.schema(list(schema)[:columns])
    for file in files:
        for batch in _verified(root, file, held, bucket):
            added = [pa.nulls(batch.num_rows, field.type) for field in list(schema)[columns:]]
            yield pa.RecordBatch.from_arrays([*batch.columns, *added], schema=schema)


def _verified(root: Path, file: SnapshotFile, held: pa.Schema, bucket: BucketKey) -> Iterator[pa.RecordBatch]:
    content = _read(root, file, bucket)
    if content.size != file.size_bytes:
        raise _corrupt(f"has {content.size} bytes instead of {file.size_bytes}", root, file, bucket)
    if crc32(content) != file.crc32:
        raise _corrupt("does not match its checksum", root, file, bucket)
    try:
        parquet = pq.ParquetFile(pa.BufferReader(content))
        if parquet.metadata.num_rows != file.records or not parquet.schema_arrow.equals(held):
            raise _corrupt("does not hold the rows it should", root, file, bucket)
        yield from parquet.iter_batches(READ_BATCH_ROWS)
    except pa.ArrowException as error:
        raise _corrupt(f"cannot be read ({error})", root, file, bucket) from error


def _read(root: Path, file: SnapshotFile, bucket: BucketKey) -> pa.Buffer:
    try:
        with pa.OSFile(str(readable_path(root, file.path)), "rb") as opened:
            if opened.size() != file.size_bytes:
                raise _corrupt(f"has {opened.size()} bytes instead of {file.size_bytes}", root, file, bucket)
            return opened.read_buffer()
    except FileNotFoundError as error:
        if not root.is_dir():
            hint = "Every executor must see the cluster's folder under the same path."
            raise ClusterUnavailable(f"the cluster's folder {root} is not there", hint=hint) from error
        raise KvSnapshotGone(f"the KV snapshot file {root / file.path} of bucket {bucket} is not there", bucket=bucket) from error
    except OSError as error:
        raise ClusterUnavailable(f"cannot read the KV snapshot file {root / file.path}: {error}") from error


def files_exist(root: Path, files: Sequence[SnapshotFile]) -> bool:
    """Whether all files exist. Their content is verified when it is read."""
    return all((root / file.path).is_file() for file in files)


def remove_files(root: Path, paths: Iterable[str]) -> None:
    """Removes files that nothing names. Raises OSError, DataCorrupt."""
    for path in paths:
        stored_path(root, path).unlink(missing_ok=True)


def _corrupt(damage: str, root: Path, file: SnapshotFile, bucket: BucketKey) -> DataCorrupt:
    return DataCorrupt(
        f"the KV snapshot file {root / file.path} of bucket {bucket} {damage}",
        hint="Restore the file from a backup of the cluster's folder, or wait until the bucket's next KV snapshot, which is taken once "
        "a row of it has changed, and CALL sys.retry_tiering.",
        path=file.path,
        bucket=bucket,
    )
