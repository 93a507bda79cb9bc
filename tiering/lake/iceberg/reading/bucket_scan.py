"""Readers of the live rows of an Iceberg primary-key table, by bucket (`RowScan.bucket_readers`).

The driver reads only manifests; executors read deletes and data files. A bucket is usually a partition value. Where buckets share a
partition value (a clean table with several bucket keys), the names of files tell their bucket. A file of another writer may have rows of
all of them, so all files of such a partition belong to all of its buckets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, ManifestEntry
from pyiceberg.table import Table

from tiering.lake.base import LakeView
from tiering.lake.file_lists import BucketRows
from tiering.lake.iceberg.catalogs.file_io import LakeFileIO
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.bucket_files import LiveFile, checked_entries, partition_of
from tiering.lake.iceberg.primary_key.parquet_files import rows_of_bucket
from tiering.lake.iceberg.reading.file_pruning import FileFilter, file_filter
from tiering.lake.iceberg.reading.row_scan import IcebergFileReader, packed_mask, table_with
from tiering.lake.iceberg.schema.drift import drift
from tiering.lake.iceberg.schema.layout import bucket_keys, has_bucket_in_partition, layout_of_schema
from tiering.lake.iceberg.schema.partition_values import PartitionValue, file_place
from tiering.lake.iceberg.upkeep.file_rewriter import AppliedDeletes, EqualityDelete
from tiering.lake.iceberg.upkeep.live_files import can_be_applied
from tiering.lake.iceberg.writing.writer import TableState
from tiering.lake.rules.hints import rewrite_call
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.reading.conditions import Condition
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.redaction.redact import remember_secrets

READER_BYTES = 64 << 20
"""Bytes of the data files of one reader. Each reader reads the deletes of its partition."""


@dataclass(frozen=True)
class IcebergFilesReader:
    """A `LakeRowReader` of data files of one partition, with all deletes of the partition.

    `left_out`: rows of these buckets (ids) are not yielded. `bucket_keys` choose the bucket.
    """

    state: TableState
    path: TablePath
    columns: pa.Schema
    files: tuple[LiveFile, ...]
    sequence_numbers: tuple[int, ...]
    deletes: tuple[LiveFile, ...] = ()
    equality_deletes: tuple[EqualityDelete, ...] = ()
    left_out: tuple[int, ...] = ()
    bucket_keys: tuple[str, ...] = ()
    bucket_count: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def records(self) -> int:
        """The number of rows of the files, deleted ones included."""
        return sum(file.records for file in self.files)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        remember_secrets(self.state.storage)
        with lake_errors(f"open the storage of {self.path}", table_path=self.path):
            io = LakeFileIO(dict(self.state.storage), self.state.places)
        deleted = self._deleted(io).rows
        for file in self.files:
            packed = packed_mask(deleted.get(file.location))
            yield from IcebergFileReader(self.state, self.path, self.columns, file, packed).read(columns)

    def _deleted(self, io: FileIO) -> AppliedDeletes:
        applied = AppliedDeletes()
        applied.apply_positions(io, self.files, self.deletes)
        applied.apply_equality(io, self.state.schema, self.files, self.sequence_numbers, self.equality_deletes)
        keys = [self.state.schema.find_field(name) for name in self.bucket_keys]
        for bucket_id in self.left_out:
            for location, mask in rows_of_bucket(io, self.files, keys, self.bucket_count, bucket_id).items():
                applied.rows[location] = mask | applied.rows[location] if location in applied.rows else mask
        return applied


@dataclass
class _PartitionFiles:
    """The live files of one partition value."""

    data: list[ManifestEntry] = field(default_factory=list)
    deletes: list[LiveFile] = field(default_factory=list)
    equality_deletes: list[EqualityDelete] = field(default_factory=list)


def bucket_readers(
    table: TableInfo,
    view: LakeView | None,
    snapshot_id: int,
    buckets: Mapping[BucketKey, str | None],
    left_out: Collection[BucketKey] = (),
    conditions: Sequence[Condition] = (),
) -> list[BucketRows]:
    """Returns the readers of the live rows at the snapshot (`RowScan.bucket_readers`)."""
    loaded = table_with(snapshot_id, view, table.path)
    places: dict[PartitionValue, dict[int | None, BucketKey]] = defaultdict(dict)
    for bucket, name in buckets.items():
        place = file_place(table, bucket, name, loaded.schema())
        places[place.partition][place.bucket] = bucket
    with lake_errors(f"read the manifests of {table.path}", table_path=table.path):
        partitions = _partitions(table, loaded, snapshot_id, file_filter(loaded, table.schema, conditions))
    planning = _Planning(table, loaded, frozenset(left_out))
    return [rows for partition, files in partitions.items() for rows in planning.rows_of(files, places.get(partition, {}))]


def _partitions(table: TableInfo, loaded: Table, snapshot_id: int, may_match: FileFilter) -> dict[PartitionValue, _PartitionFiles]:
    """Returns the live files of the snapshot by partition value, in the order of their locations, without needless data files."""
    partitions: dict[PartitionValue, _PartitionFiles] = defaultdict(_PartitionFiles)
    entries = checked_entries(loaded, table.path, snapshot_id)
    for entry in sorted(entries, key=lambda entry: entry.data_file.file_path):
        file = entry.data_file
        files = partitions[partition_of(file)]
        if file.content is DataFileContent.DATA:
            if may_match(file):
                files.data.append(entry)
        elif file.content is DataFileContent.POSITION_DELETES:
            files.deletes.append(LiveFile.of(file))
        elif can_be_applied(file, loaded.schema()):
            files.equality_deletes.append(EqualityDelete(LiveFile.of(file), entry.sequence_number or 0, tuple(file.equality_ids or ())))
        else:
            difference = f"holds the equality deletes {file.file_path}, which cannot be compared: their columns may be NULL or are floats"
            hint = f"Rewrite the files of the lake table (in Spark: {rewrite_call(table.path)})."
            raise drift(table.path, None, difference, hint)
    return partitions


class _Planning:
    """Divides the files of each partition value into readers."""

    def __init__(self, table: TableInfo, loaded: Table, left_out: frozenset[BucketKey]) -> None:
        self._table = table
        self._state = TableState.of(loaded)
        self._left_out = left_out
        self._shares = not has_bucket_in_partition(table, layout_of_schema(loaded.schema()))

    def rows_of(self, files: _PartitionFiles, buckets: Mapping[int | None, BucketKey]) -> Iterator[BucketRows]:
        """Yields the rows of a partition value. `buckets`: those with changes, by `FilePlace.bucket`."""
        by_bucket: dict[int | None, list[ManifestEntry]] = defaultdict(list)
        for entry in files.data:
            by_bucket[self._bucket_id(entry)].append(entry)
        if self._shares and None in by_bucket:
            yield self._rows(files, files.data, frozenset(buckets.values()))
            return
        for bucket_id, entries in by_bucket.items():
            key = buckets.get(bucket_id)
            if key is None or key not in self._left_out:
                yield self._rows(files, entries, frozenset() if key is None else frozenset((key,)))

    def _bucket_id(self, entry: ManifestEntry) -> int | None:
        if not self._shares:
            return None
        name = entry.data_file.file_path.rpartition("/")[2]
        bucket = bucket_of_name(name, is_partitioned=bool(self._table.partition_keys))
        return None if bucket is None else bucket.bucket_id

    def _rows(self, files: _PartitionFiles, entries: Sequence[ManifestEntry], buckets: frozenset[BucketKey]) -> BucketRows:
        ends = accumulate(entry.data_file.file_size_in_bytes for entry in entries)
        chunks = groupby(zip(entries, ends, strict=True), key=lambda item: (item[1] - item[0].data_file.file_size_in_bytes) // READER_BYTES)
        return BucketRows(buckets, tuple(self._reader(files, [entry for entry, _ in chunk], buckets) for _, chunk in chunks))

    def _reader(self, files: _PartitionFiles, entries: Sequence[ManifestEntry], buckets: frozenset[BucketKey]) -> IcebergFilesReader:
        left_out = sorted(bucket.bucket_id for bucket in buckets & self._left_out)
        return IcebergFilesReader(
            state=self._state,
            path=self._table.path,
            columns=self._table.schema,
            files=tuple(LiveFile.of(entry.data_file) for entry in entries),
            sequence_numbers=tuple(entry.sequence_number or 0 for entry in entries),
            deletes=tuple(files.deletes),
            equality_deletes=tuple(files.equality_deletes),
            left_out=tuple(left_out),
            bucket_keys=bucket_keys(self._table) if left_out else (),
            bucket_count=self._table.bucket_count,
        )
