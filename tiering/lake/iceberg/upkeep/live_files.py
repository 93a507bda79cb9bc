"""The live files of a table's head by bucket, for upkeep, and the rewrites that still fit the snapshot on which a commit builds.

Other tools may have changed the table since a rewrite was planned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, FloatType

from tiering.lake.iceberg.commit.staging import FileChanges
from tiering.lake.iceberg.primary_key.bucket_files import live_entries, partition_of
from tiering.lake.iceberg.schema.layout import has_bucket_in_partition, layout_of_schema, own_fields
from tiering.lake.iceberg.schema.partition_values import PartitionValue, bucket_of_value, value_text
from tiering.lake.iceberg.writing.data_files import FilesPayload
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.tables import PARTITION_SEPARATOR, BucketKey, TableInfo, TableType

_FLOATS = (FloatType, DoubleType)


@dataclass(frozen=True)
class LiveEntry:
    """A live file with its own rows, and the sequence number of the commit that added these rows."""

    file: DataFile
    sequence_number: int


@dataclass
class PartitionFiles:
    """The live files of one partition value. Delete files apply to all of its buckets."""

    partition: PartitionValue
    buckets: dict[BucketKey, list[LiveEntry]] = field(default_factory=lambda: defaultdict(list))
    deletes: list[DataFile] = field(default_factory=list)
    equality_deletes: list[LiveEntry] = field(default_factory=list)
    has_unknown_deletes: bool = False
    """Whether there are equality deletes that upkeep cannot apply (`can_be_applied`)."""
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
class LiveFiles:
    """The live files of a table's present partition spec by partition, and the number of data files of former specs."""

    partitions: dict[PartitionValue, PartitionFiles] = field(default_factory=dict)
    of_former_specs: int = 0
    has_global_deletes: bool = False
    """Whether equality deletes of a former spec without partitions exist, which apply to all files (spec, "Scan Planning")."""


def read_live_files(
    table: TableInfo,
    loaded: Table,
    snapshot_id: int | None,
    living: Mapping[str, int],
    partitions: Collection[PartitionValue] | None = None,
) -> LiveFiles:
    """Returns the live files of a snapshot, or of those whose values of Lakeward's own fields are in `partitions`. Reads only manifests.

    `living`: living ids by name.
    """
    live_files = LiveFiles()
    names = _BucketNames(table, loaded, living)
    own = own_fields(table, layout_of_schema(loaded.schema()))
    for entry in live_entries(loaded, snapshot_id):
        file = entry.data_file
        if file.spec_id != loaded.metadata.default_spec_id:
            live_files.of_former_specs += file.content is DataFileContent.DATA
            is_global = file.content is DataFileContent.EQUALITY_DELETES and not loaded.specs()[file.spec_id].fields
            live_files.has_global_deletes = live_files.has_global_deletes or is_global
            continue
        partition = partition_of(file)
        if partitions is not None and partition[:own] not in partitions:
            continue
        files = live_files.partitions.setdefault(partition, PartitionFiles(partition))
        if file.content is DataFileContent.POSITION_DELETES:
            files.deletes.append(file)
        elif file.content is DataFileContent.EQUALITY_DELETES:
            files.equality_deletes.append(LiveEntry(file, entry.sequence_number or 0))
            files.has_unknown_deletes = files.has_unknown_deletes or not can_be_applied(file, loaded.schema())
        elif (key := names.bucket_of(file)) is None:
            files.unknown.append(file)
        else:
            files.buckets[key].append(LiveEntry(file, entry.sequence_number or 0))
    return live_files


def can_be_applied(file: DataFile, schema: Schema) -> bool:
    """Returns whether the rows of an equality-delete file can be compared: in columns without NULL, which engines compare differently, and
    without floats."""
    try:
        columns = [schema.find_field(field_id) for field_id in file.equality_ids or ()]
    except ValueError:
        return False
    kinds = [column.required and column.field_type.is_primitive and not isinstance(column.field_type, _FLOATS) for column in columns]
    return file.file_format is FileFormat.PARQUET and bool(kinds) and all(kinds)


class _BucketNames:
    """Tells the bucket of a data file: by its name if a round wrote it, else by its partition value."""

    def __init__(self, table: TableInfo, loaded: Table, living: Mapping[str, int]) -> None:
        self._table = table
        self._living = living
        self._layout = layout_of_schema(loaded.schema())
        # Rows of a foreign file in a clean table do not tell offsets, nor whether a former partition of the same name wrote them.
        is_log, is_clean = table.table_type is TableType.LOG, not self._layout.has_row_offsets
        self._takes_foreign = has_bucket_in_partition(table, self._layout) and not (is_clean and (is_log or table.partition_keys))

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
        bucket_id = bucket_of_value(self._table, partition, self._layout)
        return None if bucket_id is None else BucketKey(partition_id, bucket_id)


def partition_name(table: TableInfo, partition: PartitionValue) -> str | None:
    """Returns the name of the source's partition with this value; None in a table without partitions."""
    if not table.partition_keys:
        return None
    dates = (pa.types.is_date(table.schema.field(key).type) for key in table.partition_keys)
    return PARTITION_SEPARATOR.join(value_text(value, is_date=is_date) for is_date, value in zip(dates, partition, strict=False))


@dataclass
class _FilesOfSnapshot:
    """The live files of a snapshot. `data` and `equality`: partition value and sequence number of each data file and equality delete.

    `deletes`: by partition value of the present spec. `has_global`: some deletes of a former spec apply to all files.
    """

    data: dict[str, tuple[PartitionValue, int]] = field(default_factory=dict)
    equality: dict[str, tuple[PartitionValue, int]] = field(default_factory=dict)
    deletes: dict[PartitionValue, set[str]] = field(default_factory=lambda: defaultdict(set))
    has_global: bool = False


@dataclass(frozen=True)
class FittingRewrites:
    """The rewrites to commit, by their numbers. `obsolete` are all files to remove with them: the old data files, and delete files that
    name only these."""

    rewrites: Mapping[int, FilesPayload] = field(default_factory=dict)
    obsolete: frozenset[str] = frozenset()

    @property
    def kept(self) -> Collection[int]:
        """The numbers of the rewrites that are committed."""
        return self.rewrites.keys()

    def changes(self, table: Table) -> FileChanges | None:
        """Returns the changes of the table's files; None if there are none."""
        if not self.rewrites:
            return None
        files = [file for payload in self.rewrites.values() for file in payload.files]
        return FileChanges(files, table.metadata.default_spec_id, (), self.obsolete)


def fitting_rewrites(table: Table, head: int | None, rewrites: Mapping[int, FilesPayload]) -> FittingRewrites:
    """Returns the rewrites whose old files are all live in the snapshot `head`, and whose partition has just the delete files that they
    applied.

    Otherwise a row that was deleted since would reappear. The new files must have the table's present columns and spec.
    """
    if not rewrites or head is None or table.metadata.snapshot_by_id(head) is None:
        return FittingRewrites()
    present = (table.metadata.current_schema_id, table.metadata.default_spec_id)
    rewrites = {number: payload for number, payload in rewrites.items() if payload.spec_id == present[1]}
    written_here = {payload.change.base_snapshot_id for payload in rewrites.values() if payload.change is not None} == {head}
    if written_here and not any(payload.deletes for payload in rewrites.values()):
        return _with_obsolete(rewrites, None)
    live = _files_of(table, head)
    fitting = {
        number: payload for number, payload in rewrites.items() if _fits(payload, live) and (payload.schema_id, payload.spec_id) == present
    }
    return _with_obsolete(fitting, live)


def _files_of(table: Table, head: int) -> _FilesOfSnapshot:
    live = _FilesOfSnapshot()
    for entry in live_entries(table, head):
        file = entry.data_file
        partition, sequence_number = partition_of(file), entry.sequence_number or 0
        if file.content is DataFileContent.DATA:
            live.data[file.file_path] = partition, sequence_number
        elif file.spec_id == table.metadata.default_spec_id:
            live.deletes[partition].add(file.file_path)
            if file.content is DataFileContent.EQUALITY_DELETES:
                live.equality[file.file_path] = partition, sequence_number
        elif file.content is DataFileContent.EQUALITY_DELETES and not table.specs()[file.spec_id].fields:
            live.has_global = True
    return live


def _fits(payload: FilesPayload, live: _FilesOfSnapshot) -> bool:
    change = payload.change
    if change is None or live.has_global or not live.data.keys() >= set(change.obsolete):
        return False
    return live.deletes.get(change.partition, set()) == set(payload.deletes)


def _with_obsolete(rewrites: Mapping[int, FilesPayload], live: _FilesOfSnapshot | None) -> FittingRewrites:
    """Adds the obsolete files. `live` None: none of the rewrites applies a delete file."""
    replaced = {location for payload in rewrites.values() if payload.change is not None for location in payload.change.obsolete}
    deletes = {location: names for payload in rewrites.values() for location, names in payload.deletes.items()}
    remaining = {} if live is None else {location: place for location, place in live.data.items() if location not in replaced}
    oldest: dict[PartitionValue, int] = {}
    for partition, sequence_number in remaining.values():
        oldest[partition] = min(sequence_number, oldest.get(partition, sequence_number))
    equality = {} if live is None else live.equality
    applied = {location for location, names in deletes.items() if location not in equality and remaining.keys().isdisjoint(names)}
    for location in deletes.keys() & equality.keys():
        partition, sequence_number = equality[location]
        if oldest.get(partition, sequence_number) >= sequence_number:  # it applies to no remaining data file
            applied.add(location)
    return FittingRewrites(rewrites, frozenset(replaced | applied))
