"""The live files of a table's head by bucket, for upkeep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, FloatType

from tiering.lake.iceberg.primary_key.bucket_files import LiveFile, partition_of
from tiering.lake.iceberg.primary_key.file_check import is_live
from tiering.lake.iceberg.schema.layout import has_bucket_in_partition, layout_of_schema
from tiering.lake.iceberg.schema.partition_values import EPOCH, VALUE_SEPARATOR, PartitionValue
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.tables import BucketKey, TableInfo, TableType

_FLOATS = (FloatType, DoubleType)


@dataclass(frozen=True)
class StandingData:
    """A live file with its own rows, and the sequence number of the commit that added these rows."""

    file: DataFile
    sequence_number: int


@dataclass
class PartitionFiles:
    """The live files of one partition value. Delete files apply to all of its buckets."""

    partition: PartitionValue
    buckets: dict[BucketKey, list[StandingData]] = field(default_factory=lambda: defaultdict(list))
    deletes: list[DataFile] = field(default_factory=list)
    equality_deletes: list[StandingData] = field(default_factory=list)
    has_unknown_deletes: bool = False
    """Whether there are equality deletes that upkeep cannot apply (`_can_be_applied`)."""
    unknown: list[DataFile] = field(default_factory=list)
    """Data files whose bucket is unknown."""

    @property
    def deleted_rows(self) -> int:
        """The number of rows that delete files name. Some may be named twice, or be in files that are gone."""
        return sum(file.record_count for file in (*self.deletes, *(entry.file for entry in self.equality_deletes)))

    @property
    def rows(self) -> int:
        """The number of rows of all data files, including deleted ones."""
        in_buckets = sum(entry.file.record_count for entries in self.buckets.values() for entry in entries)
        return in_buckets + sum(file.record_count for file in self.unknown)

    @property
    def can_be_rewritten(self) -> bool:
        """Whether all deletes can be applied. Position deletes in other formats than Parquet come from Iceberg 3."""
        return not self.has_unknown_deletes and all(file.file_format is FileFormat.PARQUET for file in self.deletes)

    @property
    def data_files(self) -> int:
        return len(self.unknown) + sum(map(len, self.buckets.values()))


@dataclass
class StandingFiles:
    """The live files of a table's present partition spec by partition, and the number of data files of former specs."""

    partitions: dict[PartitionValue, PartitionFiles] = field(default_factory=dict)
    of_former_specs: int = 0
    has_global_deletes: bool = False
    """Whether equality deletes of a former spec without partitions exist, which apply to all files (spec, "Scan Planning")."""


def standing_files(
    table: TableInfo,
    loaded: Table,
    snapshot_id: int | None,
    living: Mapping[str, int],
    partitions: Collection[PartitionValue] | None = None,
) -> StandingFiles:
    """Returns the live files of a snapshot, or of some `partitions` of it. `living`: living ids by name. Reads only manifests."""
    live_files = StandingFiles()
    names = _BucketNames(table, loaded, living)
    for spec_id, entry in live_entries(loaded, snapshot_id):
        file = entry.data_file
        if spec_id != loaded.metadata.default_spec_id:
            live_files.of_former_specs += file.content is DataFileContent.DATA
            is_global = file.content is DataFileContent.EQUALITY_DELETES and not loaded.specs()[spec_id].fields
            live_files.has_global_deletes = live_files.has_global_deletes or is_global
            continue
        partition = partition_of(file)
        if partitions is not None and partition not in partitions:
            continue
        files = live_files.partitions.setdefault(partition, PartitionFiles(partition))
        if file.content is DataFileContent.POSITION_DELETES:
            files.deletes.append(file)
        elif file.content is DataFileContent.EQUALITY_DELETES:
            files.equality_deletes.append(StandingData(file, entry.sequence_number or 0))
            files.has_unknown_deletes = files.has_unknown_deletes or not _can_be_applied(file, loaded.schema())
        elif (key := names.bucket_of(file)) is None:
            files.unknown.append(file)
        else:
            files.buckets[key].append(StandingData(file, entry.sequence_number or 0))
    return live_files


def live_entries(loaded: Table, snapshot_id: int | None) -> Iterator[tuple[int, ManifestEntry]]:
    """Yields the entries of live files with the ids of their partition specs."""
    snapshot = None if snapshot_id is None else loaded.metadata.snapshot_by_id(snapshot_id)
    for manifest in () if snapshot is None else snapshot.manifests(loaded.io):
        if is_live(manifest):
            for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=True):
                yield manifest.partition_spec_id, entry


def _can_be_applied(file: DataFile, schema: Schema) -> bool:
    """Whether the rows of an equality-delete file can be compared: in columns without NULL, which engines compare differently, and without
    floats."""
    try:
        columns = [schema.find_field(field_id) for field_id in file.equality_ids or ()]
    except ValueError:
        return False
    kinds = [column.required and column.field_type.is_primitive and not isinstance(column.field_type, _FLOATS) for column in columns]
    return file.file_format is FileFormat.PARQUET and bool(kinds) and all(kinds)


def live_file(file: DataFile) -> LiveFile:
    return LiveFile(file.file_path, file.record_count, file.file_size_in_bytes)


class _BucketNames:
    """Tells the bucket of a data file: by its name if a round wrote it, else by its partition value."""

    def __init__(self, table: TableInfo, loaded: Table, living: Mapping[str, int]) -> None:
        layout = layout_of_schema(loaded.schema())
        self._table = table
        self._living = living
        self._has_bucket = has_bucket_in_partition(table, layout)
        # Rows of a foreign file in a clean table do not tell offsets, nor whether a former partition of the same name wrote them.
        is_log, is_clean = table.table_type is TableType.LOG, not layout.has_row_offsets
        self._takes_foreign = self._has_bucket and not (is_clean and (is_log or table.partition_keys))

    def bucket_of(self, file: DataFile) -> BucketKey | None:
        if file.file_format is not FileFormat.PARQUET:
            return None
        key = bucket_of_name(file.file_path.rpartition("/")[2], is_partitioned=bool(self._table.partition_keys))
        if key is not None:
            return key
        if not self._takes_foreign:
            return None
        partition = partition_of(file)
        partition_id = self._living.get(partition_name(self._table, partition) or "")
        if self._table.partition_keys and partition_id is None:
            return None
        return BucketKey(partition_id, int(partition[-1]))


def partition_name(table: TableInfo, partition: PartitionValue) -> str | None:
    """Returns the name of the source's partition with this value; None in a table without partitions."""
    if not table.partition_keys:
        return None
    values = zip(table.partition_keys, partition, strict=False)
    return VALUE_SEPARATOR.join(_text(table, key, value) for key, value in values)


def _text(table: TableInfo, key: str, value: int | str | date) -> str:
    is_date = str(table.schema.field(key).type).startswith("date") and isinstance(value, int)
    return (EPOCH + timedelta(days=value)).isoformat() if is_date and isinstance(value, int) else str(value)
