"""The live files of a primary-key table's buckets at one head of the lake table.

The driver reads them from the head's manifests (Iceberg spec, "Scan Planning"). They travel to a bucket's writer as zstd-compressed JSON,
version 2; no bytes = no files. Before the commit, the committer checks that the bucket still has the files that the writer saw.

Where buckets share a partition value (a clean table with several bucket keys), the footers of files tell their bucket. A file of another
writer, such as a compaction, may hold rows of any bucket: it belongs to all of them, and none of them removes it.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import zstandard
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table

from tiering.errors import BaseMoved, RoundFailed
from tiering.lake.base import LakeView
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.file_check import check_format, check_spec, is_live
from tiering.lake.iceberg.reading.file_footers import FileBuckets
from tiering.lake.iceberg.schema.partition_values import FilePlace, PartitionValue
from tiering.lake.iceberg.writing.data_files import BucketChange
from tiering.lake.rules.upkeep.rewrite_runs import DEAD_SHARE
from tiering.lake.rules.upkeep.small_files import first_to_merge
from tiering.model.tables import TablePath

VERSION = 2


@dataclass(frozen=True)
class LiveFile:
    """A live file. `records`: rows of a data file, including deleted ones, or deletes of a delete file."""

    location: str
    records: int
    size_bytes: int


@dataclass(frozen=True)
class BucketFiles:
    """The live files of one bucket at a snapshot. Equality deletes come from other writers and are only counted."""

    snapshot_id: int | None
    data: tuple[LiveFile, ...] = ()
    deletes: tuple[LiveFile, ...] = ()
    equality_deletes: tuple[LiveFile, ...] = ()
    shared: frozenset[str] = frozenset()
    """Locations of files that may also hold, or delete, rows of other buckets or of a former partition."""

    @property
    def own(self) -> BucketFiles:
        """These files without the shared data and position-delete files."""
        data, deletes = (tuple(file for file in files if file.location not in self.shared) for files in (self.data, self.deletes))
        return replace(self, data=data, deletes=deletes, shared=frozenset())

    def data_digest(self) -> str:
        """Returns a digest of the data files' locations. It changes if a data file is added or removed."""
        return _digest(self.data)

    def digest(self) -> str:
        """Returns a digest of the locations of all files."""
        return _digest((*self.data, *self.deletes, *self.equality_deletes))


NOTHING = BucketFiles(None)


def encode_bucket_files(files: BucketFiles) -> bytes:
    """Returns `files` as bytes. Equal files give equal bytes."""
    document: dict[str, Any] = {"version": VERSION, "snapshot_id": files.snapshot_id}
    for name in ("data", "deletes", "equality_deletes"):
        document[name] = [(file.location, file.records, file.size_bytes) for file in getattr(files, name)]
    document["shared"] = sorted(files.shared)
    return zstandard.ZstdCompressor().compress(json.dumps(document, separators=(",", ":")).encode())


def decode_bucket_files(data: bytes) -> BucketFiles:
    """Returns the files of these bytes. Raises ValueError that names an unknown version."""
    if not data:
        return NOTHING
    try:
        document = json.loads(zstandard.ZstdDecompressor().decompress(data))
    except zstandard.ZstdError as error:
        raise ValueError(f"the files of a bucket cannot be decompressed: {error}") from error
    if document["version"] != VERSION:
        raise ValueError(f"the files of a bucket have version {document['version']!r}; this Lakeward reads version {VERSION}")
    rows, deletes, equality = (tuple(LiveFile(*file) for file in document[name]) for name in ("data", "deletes", "equality_deletes"))
    return BucketFiles(document["snapshot_id"], rows, deletes, equality, frozenset(document["shared"]))


def _digest(files: Iterable[LiveFile]) -> str:
    return hashlib.sha256("\n".join(sorted(file.location for file in files)).encode()).hexdigest()


def live_bucket_files(
    table: Table, path: TablePath, snapshot_id: int, requested_places: Collection[FilePlace], file_buckets: FileBuckets | None = None
) -> dict[FilePlace, BucketFiles]:
    """Returns the live files of each of `requested_places` of the table's current spec. Places without files are left out.

    `file_buckets` avoids reading footers again. Raises SchemaDrift for a file that cannot be read, because it has another partition spec or
    is not Parquet, and LakeUnavailable.
    """
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return {}
    places: dict[PartitionValue, list[FilePlace]] = defaultdict(list)
    for place in requested_places:
        places[place.partition].append(place)
    by_partition: dict[PartitionValue, list[DataFile]] = defaultdict(list)
    with lake_errors(f"read the manifests of {path}", table_path=path):
        for manifest in snapshot.manifests(table.io):
            if not is_live(manifest):
                continue
            check_spec(table, path, manifest)
            for entry in manifest.fetch_manifest_entry(table.io):
                file = entry.data_file
                partition = partition_of(file)
                if partition in places:
                    check_format(table, path, file)
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
        tuple(LiveFile(file.file_path, file.record_count, file.file_size_in_bytes) for file in in_order if file.content is content)
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
