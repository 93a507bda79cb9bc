"""The live files of a primary-key table's buckets at one head of the lake table.

The driver reads them from the head's manifests (Iceberg spec, "Scan Planning"). They travel to a bucket's writer as bytes; no bytes = no
files. Before the commit, the committer checks that the bucket still has the files that the writer saw.

Where buckets share a partition value (a clean table with several bucket keys), the footers of files tell their bucket. A file of another
writer, such as a compaction, may hold rows of any bucket: it belongs to all of them, and none of them removes it.

Other writers may use another format or partition spec. The rows of a key are looked up in Parquet, and a position delete applies only to
data files of its own partition spec (Iceberg spec, "Position Delete Files"). One rewrite of the table gives all its files the form of
Lakeward's.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import PlainSerializer
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import Table

from tiering.errors import BaseMoved, RoundFailed, SchemaDrift
from tiering.lake.base import LakeView
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.reading.lake_parquet import FileBuckets
from tiering.lake.iceberg.schema.drift import drift
from tiering.lake.iceberg.schema.partition_values import FilePlace, PartitionValue
from tiering.lake.iceberg.writing.data_files import BucketChange
from tiering.lake.rules.hints import PARQUET_PROPERTIES, rewrite_call, tier_call
from tiering.lake.rules.upkeep.rewrite_runs import DEAD_SHARE
from tiering.lake.rules.upkeep.small_files import first_to_merge
from tiering.lake.writing.packed import Packed
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class LiveFile:
    """A live file. `records`: rows of a data file, including deleted ones, or deletes of a delete file."""

    location: str
    records: int
    size_bytes: int

    @staticmethod
    def of(file: DataFile) -> LiveFile:
        return LiveFile(file.file_path, file.record_count, file.file_size_in_bytes)


@dataclass(frozen=True)
class BucketFiles:
    """The live files of one bucket at a snapshot. Equality deletes come from other writers and are only counted."""

    snapshot_id: int | None
    data: tuple[LiveFile, ...] = ()
    deletes: tuple[LiveFile, ...] = ()
    equality_deletes: tuple[LiveFile, ...] = ()
    shared: Annotated[frozenset[str], PlainSerializer(sorted)] = frozenset()
    """Locations of files that may also hold, or delete, rows of other buckets or of a former partition."""

    @property
    def own(self) -> BucketFiles:
        """The files of this bucket without the data and position-delete files that it shares with other buckets."""
        data, deletes = (tuple(file for file in files if file.location not in self.shared) for files in (self.data, self.deletes))
        return replace(self, data=data, deletes=deletes, shared=frozenset())

    def data_digest(self) -> str:
        """Returns a digest of the data files' locations. It changes if a data file is added or removed."""
        return _digest(self.data)

    def digest(self) -> str:
        """Returns a digest of the locations of all files."""
        return _digest((*self.data, *self.deletes, *self.equality_deletes))


NOTHING = BucketFiles(None)


_PACKED = Packed(BucketFiles, "the files of a bucket", version=3)

encode_bucket_files = _PACKED.encode


def decode_bucket_files(data: bytes) -> BucketFiles:
    """Returns the files of these bytes. Raises ValueError that names an unknown version."""
    return _PACKED.decode(data) if data else NOTHING


def _digest(files: Iterable[LiveFile]) -> str:
    return hashlib.sha256("\n".join(sorted(file.location for file in files)).encode()).hexdigest()


def live_bucket_files(
    table: Table, path: TablePath, snapshot_id: int, requested_places: Collection[FilePlace], file_buckets: FileBuckets | None = None
) -> dict[FilePlace, BucketFiles]:
    """Returns the live files of each of `requested_places` of the table's current spec. Places without files are left out.

    `file_buckets` avoids reading footers again. Raises SchemaDrift for a file that cannot be read, because it has another partition spec or
    is not Parquet, and LakeUnavailable.
    """
    places: dict[PartitionValue, list[FilePlace]] = defaultdict(list)
    for place in requested_places:
        places[place.partition].append(place)
    by_partition: dict[PartitionValue, list[DataFile]] = defaultdict(list)
    with lake_errors(f"read the manifests of {path}", table_path=path):
        for entry in live_entries(table, snapshot_id):
            file, partition = entry.data_file, partition_of(entry.data_file)
            _check_spec(table, path, file)
            if partition in places:
                _check_format(table, path, file)
                by_partition[partition].append(file)
    live_files: dict[FilePlace, BucketFiles] = {}
    with lake_errors(f"read the footers of {path}", table_path=path):
        for partition, files in by_partition.items():
            is_shared = any(place.bucket is not None for place in places[partition])
            buckets = _buckets_of(table, files, file_buckets or FileBuckets()) if is_shared else {}
            for place in places[partition]:
                members = [file for file in files if place.bucket is None or buckets[file.file_path] in (None, place.bucket)]
                if members:
                    shared = frozenset(path for path, bucket in buckets.items() if bucket is None)
                    live_files[place] = _base(snapshot_id, members, shared)
    return live_files


def check_live_files(table: Table, path: TablePath) -> None:
    """Checks the files of the table's head. Raises SchemaDrift with a `mend` (`DriftCheck.check_fit`), LakeUnavailable."""
    with lake_errors(f"read the manifests of {path}", table_path=path):
        for _ in checked_entries(table, path, table.metadata.current_snapshot_id):
            pass


def checked_entries(table: Table, path: TablePath, snapshot_id: int | None) -> Iterator[ManifestEntry]:
    """Yields the entries of the live files of a snapshot. Raises SchemaDrift, as `check_live_files` does."""
    for entry in live_entries(table, snapshot_id):
        _check_spec(table, path, entry.data_file)
        _check_format(table, path, entry.data_file)
        yield entry


def live_entries(table: Table, snapshot_id: int | None) -> Iterator[ManifestEntry]:
    """Yields the entries of the live files of a snapshot; nothing if it does not exist."""
    snapshot = None if snapshot_id is None else table.metadata.snapshot_by_id(snapshot_id)
    for manifest in () if snapshot is None else snapshot.manifests(table.io):
        if manifest.has_added_files() or manifest.has_existing_files():
            yield from manifest.fetch_manifest_entry(table.io, discard_deleted=True)


def _check_spec(table: Table, path: TablePath, file: DataFile) -> None:
    """Raises SchemaDrift for a file of another partition spec than the table's present one."""
    if file.spec_id != table.metadata.default_spec_id:
        raise _unusual(table, path, "holds files of a former partition spec, whose buckets are unknown")


def _check_format(table: Table, path: TablePath, file: DataFile) -> None:
    """Raises SchemaDrift for a data file, or a file of position deletes, that is not Parquet."""
    if file.file_format is not FileFormat.PARQUET and file.content is not DataFileContent.EQUALITY_DELETES:
        raise _unusual(
            table,
            path,
            f"holds the {file.file_format.value} file {file.file_path}, but Lakeward looks up the rows of a key only in Parquet",
        )


def _unusual(table: Table, path: TablePath, difference: str) -> SchemaDrift:
    """Returns the error, which says how to rewrite the files. If a property of the table names their format, it must be changed first."""
    others = _other_formats(table.properties)
    first = f"First set {' and '.join(others)} of the lake table to parquet. " if others else ""
    hint = f"{first}Rewrite its files (in Spark: {rewrite_call(path)}), then {tier_call(path)}. The rows stay in the log until then."
    return drift(path, None, difference, hint, mend="write_parquet" if others else "rewrite_files")


def _other_formats(properties: Mapping[str, str]) -> list[str]:
    """Returns the properties that name another format than Parquet. The format of deletes is Parquet unless its property is set."""
    return [name for name in PARQUET_PROPERTIES if properties.get(name, "parquet").lower() != "parquet"]


def _buckets_of(table: Table, files: Sequence[DataFile], file_buckets: FileBuckets) -> Mapping[str, int | None]:
    """Returns the bucket of each file by location. None for equality deletes: other writers made them, for rows of any bucket."""
    of_others = {file.file_path: None for file in files if file.content is DataFileContent.EQUALITY_DELETES}
    others = [file for file in files if file.file_path not in of_others]
    return {**file_buckets.of(table.io, str(table.metadata.table_uuid), others), **of_others}


def partition_of(file: DataFile) -> PartitionValue:
    """Returns the partition value of a file in the form of `schema.partition_values`."""
    return tuple(file.partition[index] for index in range(len(file.partition)))


def _base(snapshot_id: int, files: Sequence[DataFile], shared: frozenset[str]) -> BucketFiles:
    # Sorted by location, because delete files list their paths in this order.
    in_order = sorted(files, key=lambda file: file.file_path)
    data, deletes, equality = (
        tuple(LiveFile.of(file) for file in in_order if file.content is content)
        for content in (DataFileContent.DATA, DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)
    )
    return BucketFiles(snapshot_id, data, deletes, equality, shared)


def replaced_partitions(changes: Sequence[BucketChange], base: LakeView, table: Table) -> frozenset[PartitionValue]:
    """Returns the partitions whose files at `base`'s head are all replaced. If some files of a bucket stay, its change names the replaced
    files instead (`BucketChange.obsolete`).

    Raises BaseMoved if a foreign commit added or removed data files of a bucket since its rows were looked up, or delete files of a
    rewritten bucket: a row could be doubled, stay although it was deleted, or reappear. Raises SchemaDrift, LakeUnavailable.
    """
    _check_once(changes, base)
    stale = {change.place for change in changes if change.base_snapshot_id != base.head}
    current_files = live_bucket_files(table, base.path, base.head, stale) if stale and base.head is not None else {}
    for change in changes:
        if change.place in stale:
            present = current_files.get(change.place, NOTHING)
            if change.base_files != (present.digest() if change.rewritten else present.data_digest()):
                raise BaseMoved(
                    f"files of the partition {change.partition} of the lake table {base.path} were replaced between snapshot "
                    f"{change.base_snapshot_id} and snapshot {base.head}, while a round looked up rows in them",
                    table_path=base.path,
                    lake_snapshot_id=base.head,
                )
    return frozenset(change.partition for change in changes if change.rewritten and change.bucket is None and not change.obsolete)


def _check_once(changes: Sequence[BucketChange], base: LakeView) -> None:
    """Raises RoundFailed if a bucket had two writers, because they do not see each other's rows."""
    if len({change.place for change in changes}) < len(changes):
        raise RoundFailed(
            f"two writers changed the same bucket of {base.path} in one round",
            cause_class="InconsistentRound",
            hint="Nothing was committed; the next round retries. This is a defect of Lakeward: please report it.",
            table_path=base.path,
        )


MANY_FILES = 100
SMALL_FILE_BYTES = 16 << 20
"""A bucket with MANY_FILES files of a smaller average size costs its readers more time to open than to read."""

MANY_DELETE_FILES = 1
"""A reader opens all of a bucket's delete files for each of its data files, so a bucket has at most one."""


def is_to_be_rewritten(base: BucketFiles, dead: int, added: int) -> bool:
    """Whether a round rewrites all live rows of `base`. After the round `dead` of its rows are deleted, and `added` are new.

    False with equality deletes of other writers, because it is unknown which rows they delete.
    """
    if base.equality_deletes or not base.data:
        return False
    if dead > DEAD_SHARE * (sum(file.records for file in base.data) + added):
        return True
    files = (*base.data, *base.deletes)
    return len(files) >= MANY_FILES and sum(file.size_bytes for file in files) < SMALL_FILE_BYTES * len(files)


def files_to_merge(own: BucketFiles, target_bytes: int, budget_bytes: int) -> tuple[LiveFile, ...]:
    """Returns the smallest data files of a bucket, whose live rows the round writes together with its own; none if there are few files.

    None with equality deletes of other tools, because it is unknown which rows they delete.
    """
    if own.equality_deletes:
        return ()
    by_size = sorted(own.data, key=lambda file: (-file.size_bytes, file.location))
    first = first_to_merge([file.size_bytes for file in by_size], target_bytes, budget_bytes)
    return () if first is None else tuple(by_size[first:])


def are_deletes_merged(base: BucketFiles, deletes: int, *, left_over: bool) -> bool:
    """Whether the round's delete file takes over the deletes of the bucket's delete files, which are then removed.

    `deletes`: rows that the round deletes. `left_over`: whether some existing deletes have no effect (`dead_rows`).
    """
    return left_over or (deletes > 0 and len(base.deletes) >= MANY_DELETE_FILES)
