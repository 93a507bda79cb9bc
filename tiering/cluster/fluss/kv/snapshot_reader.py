"""The executor side of a snapshot split: reads all rows of one KV snapshot from remote files, without a call to a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tiering.cluster.capabilities import uncounted
from tiering.cluster.fluss.kv.snapshot_files import SnapshotFile, corrupt_snapshot, read_values
from tiering.cluster.fluss.kv.values import ValueDecoder
from tiering.cluster.fluss.rows.encoding import RowEncoding
from tiering.model.refused_records import RECORD_ID, UnwritableRow, snapshot_stopped
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import CHANGE_TYPE_FIELD, SNAPSHOT_OFFSET, SYSTEM_COLUMN_FIELDS, ChangeType

_BUCKET_TYPE, _OFFSET_TYPE, _TIMESTAMP_TYPE = (field.type for field in SYSTEM_COLUMN_FIELDS)
_TIMESTAMP_US = SNAPSHOT_OFFSET * 1_000


@dataclass(frozen=True)
class FlussSnapshotReader:
    """Implements `SplitReader`. It can be pickled: it contains the list of files, not a connection."""

    split: TieringSnapshotSplit
    schema: pa.Schema
    """The table's own columns."""
    schemas: Mapping[int, bytes]
    """The JSON of each schema id that the table had when it was looked up."""
    files: tuple[SnapshotFile, ...]
    storage: Mapping[str, str]
    """Properties of the remote file system, without secrets."""
    encoding: RowEncoding = RowEncoding.COMPACTED
    """Encoding of the rows in the snapshot."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows. Raises DataCorrupt, KvSnapshotGone, ClusterUnavailable, SourceChanged (a schema id added since), BucketStopped
        (a value that the table's types cannot hold).
        """
        return self.read_counted(uncounted)

    def read_counted(self, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """Yields the rows; before the first row, passes the size of all files to `count`. Implements `CountingReader`."""
        decoder = ValueDecoder(self.split.table_path, self.schema, self.schemas, self.encoding)
        for values in read_values(self.files, self.storage, self.split, count):
            try:
                batches = list(decoder.decode(values))
            except UnwritableRow as error:
                split, reason = self.split, f"the column {error.column!r} of a row {error.reason}"
                ids = {"column": error.column, RECORD_ID: error.detail or None}
                raise snapshot_stopped(split.table_path, split.bucket, split.partition_name, reason, **ids) from error
            except ValueError as error:
                raise corrupt_snapshot(self.split, str(error)) from error
            yield from map(self._with_system_columns, batches)

    def _with_system_columns(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        count = rows.num_rows
        added = (
            pa.array(np.full(count, self.split.bucket.bucket_id, dtype=np.int32), _BUCKET_TYPE),
            pa.array(np.full(count, SNAPSHOT_OFFSET, dtype=np.int64), _OFFSET_TYPE),
            pa.array(np.full(count, _TIMESTAMP_US, dtype=np.int64)).view(_TIMESTAMP_TYPE),
            pa.array(np.full(count, ChangeType.INSERT, dtype=np.int8), CHANGE_TYPE_FIELD.type),
        )
        whole = pa.schema([*self.schema, *SYSTEM_COLUMN_FIELDS, CHANGE_TYPE_FIELD])
        return pa.RecordBatch.from_arrays([*rows.columns, *added], schema=whole)
