"""The executor side of a snapshot split: reads all rows of one KV snapshot from remote files, without a call to a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tiering.cluster.capabilities import uncounted
from tiering.cluster.fluss.kv.snapshot_files import SnapshotFile, corrupt_snapshot, read_values
from tiering.cluster.fluss.log.packed_rows import PADDING, PackedBytes, RowEncoding, kv_encoding, rows_within_range
from tiering.cluster.fluss.log.schemas import LogLayout, log_layout, parse_schema_json
from tiering.errors import SourceChanged
from tiering.model.refused_records import RECORD_ID, UnwritableRow, snapshot_stopped
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import CHANGE_TYPE_FIELD, SNAPSHOT_OFFSET, SYSTEM_COLUMN_FIELDS, ChangeType, TablePath

_BUCKET_TYPE, _OFFSET_TYPE, _TIMESTAMP_TYPE = (field.type for field in SYSTEM_COLUMN_FIELDS)
_TIMESTAMP_US = SNAPSHOT_OFFSET * 1_000
_SCHEMA_ID_BYTES = 2
_LAYOUT_VERSION = "table.kv.value-layout-version"
_SCHEMA_ID_STARTS = {"1": 0, "2": 8}
"""Number of bytes before the schema id of a value, by the version of its layout. Version 2 has a tag there, with which Fluss 1.0 expires
the rows of tables with `table.kv.ttl`.
"""


@dataclass(frozen=True)
class ValueFormat:
    """The format of the values in a table's KV snapshots."""

    encoding: RowEncoding = RowEncoding.COMPACTED
    """Encoding of the row, which follows the schema id."""
    schema_id_start: int = 0
    """Number of bytes before the schema id."""

    @staticmethod
    def of(properties: Mapping[str, str]) -> ValueFormat | None:
        """Returns the format for a table with these options; None = an unknown format, so that the table is read from its log."""
        encoding, start = kv_encoding(properties), _SCHEMA_ID_STARTS.get(properties.get(_LAYOUT_VERSION, "1"))
        return None if encoding is None or start is None else ValueFormat(encoding, start)


@dataclass(frozen=True)
class FlussSnapshotReader:
    """Implements `SplitReader` and `CountingReader`. It can be pickled: it contains the list of files, not a connection."""

    split: TieringSnapshotSplit
    schema: pa.Schema
    """The table's own columns."""
    schemas: Mapping[int, bytes]
    """The JSON of each schema id that the table had when it was looked up."""
    files: tuple[SnapshotFile, ...]
    storage: Mapping[str, str]
    """Properties of the remote file system, without secrets."""
    value_format: ValueFormat = ValueFormat()

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows. Raises DataCorrupt, KvSnapshotGone, ClusterUnavailable, SourceChanged (a schema id added since), BucketStopped
        (a value that the table's types cannot hold).
        """
        return self.read_counted(uncounted)

    def read_counted(self, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """Yields the rows; before the first row, passes the size of all files to `count`."""
        decoder = ValueDecoder(self.split.table_path, self.schema, self.schemas, self.value_format)
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


class ValueDecoder:
    """Decodes values of one table. `schemas`: the JSON of each schema id that the table had when it was looked up."""

    def __init__(self, path: TablePath, schema: pa.Schema, schemas: Mapping[int, bytes], value_format: ValueFormat) -> None:
        self._path = path
        self._schema = schema
        self._schemas = schemas
        self._format = value_format
        self._layouts: dict[int, LogLayout] = {}

    def decode(self, values: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        """Yields rows with the table's columns, one batch for each schema id among the values, of which there is at least one.

        Raises SourceChanged for a schema id, or a column, that the table did not have yet; ValueError for bytes that are not valid values;
        UnwritableRow for a row with a value that the table's types cannot hold.
        """
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        if lengths.min() < self._format.schema_id_start + _SCHEMA_ID_BYTES:
            raise ValueError("a value ends before or within its schema id")
        data = PackedBytes.joined(values)
        ends = len(PADDING) + np.cumsum(lengths)
        starts = ends - lengths + self._format.schema_id_start
        schema_ids = data.read("<i2", starts)
        for schema_id in np.unique(schema_ids).tolist():
            layout = self._layout(schema_id)
            rows = np.flatnonzero(schema_ids == schema_id)
            columns = rows_within_range(data, starts[rows] + _SCHEMA_ID_BYTES, ends[rows], layout.written, self._format.encoding)
            yield layout.rows(pa.RecordBatch.from_arrays(columns, schema=layout.written))

    def _layout(self, schema_id: int) -> LogLayout:
        if schema_id not in self._layouts:
            schema_json = self._schemas.get(schema_id)
            if schema_json is None:
                raise SourceChanged(
                    f"the columns of {self._path} changed since it was looked up: a row of it has the schema id {schema_id}"
                )
            self._layouts[schema_id] = log_layout(parse_schema_json(schema_json), self._schema, str(self._path))
        return self._layouts[schema_id]
