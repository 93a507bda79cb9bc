"""Files of KV snapshots: Parquet, immutable; their sizes and CRC-32 checksums are in the metadata.

A snapshot consists of several files (none without rows), so that a reader can hold each file in memory and verify it before it uses a row.
A file is written under a temporary name, synced and renamed; it belongs to the snapshot only once the metadata names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32
from pyarrow import parquet as pq

from tiering.cluster.capabilities import uncounted
from tiering.cluster.embedded.stored_columns import ColumnsAt, as_present, check_columns, columns_in, versions_of
from tiering.cluster.embedded.stored_paths import read_published, stored_path
from tiering.errors import ClusterUnavailable, DataCorrupt, KvSnapshotGone
from tiering.files.durable_files import make_folder, sync_folder, write_whole
from tiering.model.schema.field_ids import without_metadata
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import CHANGE_TYPE_FIELD, SNAPSHOT_OFFSET, SYSTEM_COLUMN_FIELDS, BucketKey, ChangeType, TableInfo

SNAPSHOT_FOLDER = "kv-snapshots"
SUFFIX = ".parquet"
MAX_FILE_BYTES = 32 * 1024 * 1024
"""Maximum size of a file's rows as Arrow data, before they are encoded: a reader holds that much in memory."""
READ_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class SnapshotFile:
    """One file of a snapshot."""

    path: str
    """Path relative to the cluster's root folder."""
    size_bytes: int
    crc32: int
    records: int


@dataclass(frozen=True)
class StoredSnapshot:
    """A KV snapshot with its files, which have the first `columns` columns of the schema."""

    snapshot_id: int
    log_offset: int
    columns: int
    files: tuple[SnapshotFile, ...]
    schema_id: int


def write_snapshot_files(root: Path, table_id: int, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[SnapshotFile]:
    """Writes rows of `schema` durably to files whose names begin with `name`. Raises ClusterUnavailable, after removing its files."""
    folder = root / SNAPSHOT_FOLDER / str(table_id)
    written: list[SnapshotFile] = []
    try:
        make_folder(folder)
        for number, rows in enumerate(_portions(batches)):
            sink = pa.BufferOutputStream()
            pq.write_table(rows.cast(without_metadata(schema)), sink, compression="zstd", row_group_size=READ_BATCH_ROWS)
            content = sink.getvalue()
            file = folder / f"{name}-{number}{SUFFIX}"
            write_whole(file, content)
            written.append(SnapshotFile(str(file.relative_to(root)), content.size, crc32(content), rows.num_rows))
        sync_folder(folder)
    except OSError as error:
        remove_files(root, [file.path for file in written])
        raise ClusterUnavailable(f"cannot write a KV snapshot to {folder}: {error}", hint="Check that the disk is not full.") from error
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
    root: Path, files: Sequence[SnapshotFile], stored: pa.Schema, schema: pa.Schema, bucket: BucketKey
) -> Iterator[pa.RecordBatch]:
    """Yields all rows of files with the columns `stored`, from exactly the bytes whose checksums were verified, with the columns `schema`.

    Raises DataCorrupt naming file and bucket; KvSnapshotGone if a file is missing; ClusterUnavailable if the folder is missing.
    """
    for file in files:
        for batch in _verified(root, file, stored, bucket):
            yield as_present(batch, stored, schema)


def _verified(root: Path, file: SnapshotFile, stored_schema: pa.Schema, bucket: BucketKey) -> Iterator[pa.RecordBatch]:
    def corrupt(damage: str) -> DataCorrupt:
        return DataCorrupt(
            f"the KV snapshot file {root / file.path} of bucket {bucket} {damage}",
            hint="Restore the file from a backup of the cluster's folder. Or wait for the bucket's next KV snapshot, which is taken after "
            "a row of the bucket was changed, and CALL sys.retry_tiering.",
            path=file.path,
            bucket=bucket,
        )

    try:
        where = f"KV snapshot file {root / file.path}"
        content = read_published(root, file.path, (file.size_bytes, file.crc32), where, corrupt, root)
    except FileNotFoundError as error:
        raise KvSnapshotGone(f"the KV snapshot file {root / file.path} of bucket {bucket} does not exist", bucket=bucket) from error
    try:
        parquet = pq.ParquetFile(pa.BufferReader(content))
        if parquet.metadata.num_rows != file.records or not parquet.schema_arrow.equals(stored_schema):
            raise corrupt("does not contain the expected rows")
        yield from parquet.iter_batches(READ_BATCH_ROWS)
    except pa.ArrowException as error:
        raise corrupt(f"cannot be read ({error})") from error


def files_exist(root: Path, files: Sequence[SnapshotFile]) -> bool:
    """Returns whether all files exist. Their content is verified when it is read."""
    return all((root / file.path).is_file() for file in files)


def remove_files(root: Path, paths: Iterable[str]) -> None:
    """Removes files that are not in the metadata. Raises OSError, DataCorrupt."""
    for path in paths:
        stored_path(root, path).unlink(missing_ok=True)


_BUCKET_TYPE, _OFFSET_TYPE, _TIMESTAMP_TYPE = (field.type for field in SYSTEM_COLUMN_FIELDS)
_TIMESTAMP_US = SNAPSHOT_OFFSET * 1_000


@dataclass(frozen=True)
class EmbeddedSnapshotReader:
    """Implements `SplitReader`. It can be pickled: it contains the list of files, not a connection."""

    root: str
    schema: pa.Schema
    split: TieringSnapshotSplit
    snapshot: StoredSnapshot
    stored: pa.Schema
    """The columns of the snapshot's files."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows. Raises DataCorrupt, KvSnapshotGone, ClusterUnavailable."""
        return self.read_counted(uncounted)

    def read_counted(self, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """Yields the rows, and passes the size of each read file to `count`. Implements `CountingReader`."""
        whole = pa.schema([*self.schema, *SYSTEM_COLUMN_FIELDS, CHANGE_TYPE_FIELD])
        for file in self.snapshot.files:
            count(file.size_bytes)
            for rows in read_snapshot_files(Path(self.root), [file], self.stored, self.schema, self.split.bucket):
                size = rows.num_rows
                added = (
                    pa.array(np.full(size, self.split.bucket.bucket_id, dtype=np.int32), _BUCKET_TYPE),
                    pa.array(np.full(size, SNAPSHOT_OFFSET, dtype=np.int64), _OFFSET_TYPE),
                    pa.array(np.full(size, _TIMESTAMP_US, dtype=np.int64)).view(_TIMESTAMP_TYPE),
                    pa.array(np.full(size, ChangeType.INSERT, dtype=np.int8), CHANGE_TYPE_FIELD.type),
                )
                yield pa.RecordBatch.from_arrays([*rows.columns, *added], schema=whole)


def open_snapshot_reader(
    root: str, table: TableInfo, split: TieringSnapshotSplit, snapshot: StoredSnapshot | None, columns_at: ColumnsAt
) -> EmbeddedSnapshotReader:
    """Returns the reader of `split` for the snapshot that was looked up. `columns_at` returns the columns of a schema id.

    Raises KvSnapshotGone, and SourceChanged if the snapshot was taken with later columns than `table` has.
    """
    if snapshot is None:
        raise KvSnapshotGone(
            f"{table.path} bucket {split.bucket} has no KV snapshot {split.snapshot_id} (any more)",
            table_id=table.table_id,
            bucket=split.bucket,
            snapshot_id=split.snapshot_id,
        )
    check_columns(table, [snapshot])
    stored = columns_in(snapshot, versions_of(table, [snapshot], columns_at))
    return EmbeddedSnapshotReader(root, table.schema, split, snapshot, stored)
