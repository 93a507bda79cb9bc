"""The executor side of a snapshot split: reads all rows of one KV snapshot from immutable files, without a call to the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tiering.cluster.capabilities import uncounted
from tiering.cluster.embedded.kv.snapshot_files import StoredSnapshot, read_snapshot_files
from tiering.errors import KvSnapshotGone, SourceChanged
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import CHANGE_TYPE_FIELD, SNAPSHOT_OFFSET, SYSTEM_COLUMN_FIELDS, ChangeType, TableInfo

_BUCKET_TYPE, _OFFSET_TYPE, _TIMESTAMP_TYPE = (field.type for field in SYSTEM_COLUMN_FIELDS)
_TIMESTAMP_US = SNAPSHOT_OFFSET * 1_000


@dataclass(frozen=True)
class EmbeddedSnapshotReader:
    """Implements `SplitReader`. It can be pickled: it contains the list of files, not a connection."""

    root: str
    schema: pa.Schema
    split: TieringSnapshotSplit
    snapshot: StoredSnapshot

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows. Raises DataCorrupt, KvSnapshotGone, ClusterUnavailable."""
        return self.read_counted(uncounted)

    def read_counted(self, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """Yields the rows, and passes the size of each read file to `count`. Implements `CountingReader`."""
        whole = pa.schema([*self.schema, *SYSTEM_COLUMN_FIELDS, CHANGE_TYPE_FIELD])
        for file in self.snapshot.files:
            count(file.size_bytes)
            for rows in read_snapshot_files(Path(self.root), [file], self.schema, self.snapshot.columns, self.split.bucket):
                size = rows.num_rows
                added = (
                    pa.array(np.full(size, self.split.bucket.bucket_id, dtype=np.int32), _BUCKET_TYPE),
                    pa.array(np.full(size, SNAPSHOT_OFFSET, dtype=np.int64), _OFFSET_TYPE),
                    pa.array(np.full(size, _TIMESTAMP_US, dtype=np.int64)).view(_TIMESTAMP_TYPE),
                    pa.array(np.full(size, ChangeType.INSERT, dtype=np.int8), CHANGE_TYPE_FIELD.type),
                )
                yield pa.RecordBatch.from_arrays([*rows.columns, *added], schema=whole)


def open_snapshot_reader(
    root: str, table: TableInfo, split: TieringSnapshotSplit, snapshot: StoredSnapshot | None
) -> EmbeddedSnapshotReader:
    """Returns the reader of `split` for the snapshot that was looked up.

    Raises KvSnapshotGone, and SourceChanged if the snapshot has columns that `table` does not have yet.
    """
    if snapshot is None:
        raise KvSnapshotGone(
            f"{table.path} bucket {split.bucket} has no KV snapshot {split.snapshot_id} (any more)",
            table_id=table.table_id,
            bucket=split.bucket,
            snapshot_id=split.snapshot_id,
        )
    if snapshot.columns > len(table.schema):
        raise SourceChanged(f"columns were added to {table.path} since it was looked up", table_id=table.table_id)
    return EmbeddedSnapshotReader(root, table.schema, split, snapshot)
