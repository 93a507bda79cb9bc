"""Manifests of a Paimon table. The only module that uses pypaimon's manifest readers and writers, which are not a documented API.

A snapshot names two lists of manifests: the base list has all manifests of the snapshot that it is built on, the delta list has those of
its own changes.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import PurePath
from typing import Any, cast

import pyarrow as pa
from pypaimon import CatalogFactory
from pypaimon.common.identifier import Identifier
from pypaimon.common.json_util import JSON
from pypaimon.manifest import manifest_file_manager
from pypaimon.manifest.manifest_file_manager import ManifestFileManager
from pypaimon.manifest.manifest_list_manager import ManifestListManager
from pypaimon.manifest.schema.data_file_meta import DataFileMeta
from pypaimon.manifest.schema.manifest_entry import ManifestEntry
from pypaimon.manifest.schema.manifest_file_meta import ManifestFileMeta
from pypaimon.manifest.schema.simple_stats import SimpleStats
from pypaimon.snapshot.snapshot import Snapshot
from pypaimon.table.file_store_table import FileStoreTable
from pypaimon.table.row.binary_row import BinaryRow
from pypaimon.table.row.generic_row import GenericRow, GenericRowDeserializer, GenericRowSerializer

from tiering.errors import BaseMoved
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.reading.snapshots import StoredSnapshot
from tiering.lake.paimon.schema.partitions import PartitionValue, bucket_folder, partition_values
from tiering.lake.paimon.schema.stored_schema import StoredSchema
from tiering.lake.paimon.storage.base import MANIFEST
from tiering.lake.paimon.writing.payload import FilesPayload, WrittenFile, unpack_keys
from tiering.lake.rules.upkeep.small_files import first_to_merge

Place = tuple[tuple[PartitionValue, ...], int]
"""Values of the partition columns, and the bucket."""

ENTRIES_A_MANIFEST = 20_000
MERGE_COUNT = 5
MERGE_BYTES = 8 << 20
"""If at least MERGE_COUNT manifests are smaller than MERGE_BYTES, some of them are merged. Paimon's `manifest.merge-min-count` is 30, which
suits tables with few commits and many files; MERGE_BYTES is its `manifest.target-file-size`.
"""
NO_LIMIT = 1 << 62
"""Upper bound for the bytes of manifests that a commit merges: none."""
ADD, DELETE = 0, 1
_APPENDED, _COMPACTED = 0, 1
"""`_FILE_SOURCE` of a file that a writer created, and of a file that a compaction created."""


@dataclass(frozen=True)
class ManifestLists:
    """The lists of a new snapshot, with name and size in bytes of each, and the number of rows that it adds or removes."""

    base: tuple[str, int]
    delta: tuple[str, int]
    changelog: tuple[str, int] | None
    added_records: int
    changelog_records: int
    removes_files: bool
    manifests: tuple[int, int] = (0, 0)
    """Numbers of manifests that a scan of the base and a scan of the new snapshot read."""


@dataclass(frozen=True)
class BucketState:
    """The content of a bucket: entries of its live data files, and their highest sequence number (-1 = none)."""

    entries: tuple[Any, ...] = ()

    @property
    def sequence(self) -> int:
        return max((int(entry.file.max_sequence_number) for entry in self.entries), default=-1)


@dataclass(frozen=True)
class Changes:
    """Entries of the files of one snapshot: data files that it added and removed, and changelog files with all changes of the added
    ones.
    """

    added: tuple[Any, ...]
    removed: tuple[Any, ...]
    changelog: tuple[Any, ...]


@dataclass
class Manifests:
    """The manifests of one table. `written` gets the path of each file before it is written, so that it is complete after a failure."""

    loaded: LoadedTable
    written: list[PurePath] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._table = _pypaimon_table(self.loaded)
        self._files = ManifestFileManager(self._table)
        self._lists = ManifestListManager(self._table)

    def write(self, prefix: str, payloads: Sequence[FilesPayload], *, merges_all: bool = False) -> ManifestLists:
        """Writes manifests and lists of a snapshot on the head of `loaded` that adds the files of `payloads`; all files are durable on
        return.

        `merges_all`: all manifests of the head are merged, instead of only small ones if they are many.
        """
        added = [entry for payload in payloads for entry in self._entries(payload, is_changelog=False)]
        followed = [entry for payload in payloads for entry in self._entries(payload, is_changelog=True)]
        removed = self._replaced(payloads)
        head = self.loaded.head
        carried = [] if head is None else self._lists.read_all(as_pypaimon(head))
        kept = self._merged_from(f"{prefix}-k", carried, 0) if merges_all and len(carried) > 1 else self._merged(f"{prefix}-k", carried)
        changed = self._manifests(f"{prefix}-m", [*removed, *added])
        base, delta = self._list(f"{prefix}-l0.avro", kept), self._list(f"{prefix}-l1.avro", changed)
        changelog = self._list(f"{prefix}-l2.avro", self._manifests(f"{prefix}-c", followed)) if followed else None
        self.loaded.storage.sync_folder(self._folder)
        records = sum(entry.file.row_count for entry in added) - sum(entry.file.row_count for entry in removed)
        return ManifestLists(
            base,
            delta,
            changelog,
            records,
            sum(entry.file.row_count for entry in followed),
            bool(removed),
            (len(carried), len(kept) + len(changed)),
        )

    def buckets(self, places: Collection[Place]) -> dict[Place, BucketState]:
        """Returns the content of the buckets at `places` (partition values and bucket), without empty buckets."""
        head = self.loaded.head
        if head is None or not places:
            return {}
        entries_by_place: dict[Place, list[Any]] = {}
        for entry in self.live_entries(head):
            place = (tuple(entry.partition.values), int(entry.bucket))
            if place in places:
                entries_by_place.setdefault(place, []).append(entry)
        return {place: BucketState(tuple(entries)) for place, entries in entries_by_place.items()}

    def place(self, payload: FilesPayload) -> Place:
        """Returns the partition values and the bucket of a payload's files."""
        return partition_values(self._table.partition_keys, self.loaded.schema.columns, payload.partition), payload.bucket

    def _replaced(self, payloads: Sequence[FilesPayload]) -> list[ManifestEntry]:
        bucket_states = self.buckets({self.place(payload) for payload in payloads if payload.replaces or payload.removed})
        removed_entries: list[ManifestEntry] = []
        for payload in payloads:
            entries = bucket_states.get(self.place(payload), BucketState()).entries
            named = [entry for entry in entries if payload.replaces or entry.file.file_name in payload.removed]
            if len(named) < len(payload.removed):
                path = self.loaded.path
                raise BaseMoved(f"files of {path} to be rewritten without some rows do not exist any more", table_path=path)
            removed_entries += [replace(entry, kind=DELETE) for entry in named]
        return removed_entries

    def _merged(self, prefix: str, manifests: list[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Returns `manifests` with the small ones at their end merged if they are many. Their order is kept, because a file is removed
        after it was added.
        """
        first = first_to_merge([meta.file_size for meta in manifests], MERGE_BYTES, NO_LIMIT, MERGE_COUNT - 1)
        return manifests if first is None else self._merged_from(prefix, manifests, first)

    def _merged_from(self, prefix: str, manifests: list[ManifestFileMeta], first: int) -> list[ManifestFileMeta]:
        """Returns `manifests` with those from position `first` on merged."""
        entries: dict[tuple[Any, ...], ManifestEntry] = {}
        for meta in manifests[first:]:
            for entry in self._files.read(meta.file_name, drop_stats=False):
                key = (tuple(entry.partition.values), entry.bucket, entry.file.level, entry.file.file_name, entry.file.external_path)
                if entry.kind == DELETE and key in entries:
                    del entries[key]
                else:
                    entries[key] = entry
        return [*manifests[:first], *self._manifests(prefix, list(entries.values()))]

    def _manifests(self, prefix: str, entries: list[ManifestEntry]) -> list[ManifestFileMeta]:
        parts = range(0, len(entries), ENTRIES_A_MANIFEST)
        return [self._manifest(f"{prefix}{number}.avro", entries[start : start + ENTRIES_A_MANIFEST]) for number, start in enumerate(parts)]

    def named_files(self, snapshot: StoredSnapshot, manifests: set[str]) -> Iterator[str]:
        """Yields the paths, below the table's folder, of all files that a snapshot names, removed data files included. Skips the contents
        of `manifests`, and adds the manifests that it reads to that set.
        """
        document = snapshot.document
        for key in ("baseManifestList", "deltaManifestList", "changelogManifestList"):
            name = document.get(key)
            if name is None:
                continue
            yield f"{MANIFEST}/{name}"
            for meta in self._lists.read(name):
                if meta.file_name in manifests:
                    continue
                manifests.add(meta.file_name)
                yield f"{MANIFEST}/{meta.file_name}"
                for entry in self._files.read(meta.file_name):
                    yield self.file_path(entry)
        if document.get("indexManifest") is not None:
            yield f"{MANIFEST}/{document['indexManifest']}"

    def changes(self, snapshot: StoredSnapshot) -> Changes:
        """Returns the changes that a snapshot itself made."""
        document = snapshot.document
        delta = self._entries_of(str(document["deltaManifestList"]))
        followed = document.get("changelogManifestList")
        return Changes(
            tuple(entry for entry in delta if entry.kind == ADD),
            tuple(entry for entry in delta if entry.kind == DELETE),
            () if followed is None else tuple(self._entries_of(str(followed))),
        )

    def _entries_of(self, manifest_list: str) -> list[Any]:
        return [entry for meta in self._lists.read(manifest_list) for entry in self._files.read(meta.file_name)]

    def added_size(self, snapshot: StoredSnapshot, *, with_base: bool) -> tuple[int, int]:
        """Returns the number and bytes of the data files that a snapshot adds to the one before it, or, `with_base`, to an empty table."""
        lists = ("baseManifestList", "deltaManifestList") if with_base else ("deltaManifestList",)
        files, size = 0, 0
        for name in filter(None, (snapshot.document.get(key) for key in lists)):
            for entry in self._entries_of(name):
                sign = -1 if entry.kind == DELETE else 1
                files += sign
                size += sign * int(entry.file.file_size)
        return files, size

    def live_entries(self, snapshot: StoredSnapshot, *, drop_stats: bool = False) -> list[Any]:
        """Returns the entries of the data files of a snapshot. `drop_stats`: without the bounds of their values, to save memory."""
        return list(self._files.read_entries_parallel(self._lists.read_all(as_pypaimon(snapshot)), drop_stats=drop_stats))

    def count(self, snapshot: StoredSnapshot) -> int:
        """Returns how many manifests a scan of the snapshot reads."""
        return len(self._lists.read_all(as_pypaimon(snapshot)))

    def file_path(self, entry: Any) -> str:
        """Returns the path of a file below the table's folder."""
        folder = bucket_folder(self._table.partition_keys, [str(value) for value in entry.partition.values], entry.bucket)
        return f"{folder}/{entry.file.file_name}"

    @property
    def _folder(self) -> PurePath:
        return self.loaded.root / MANIFEST

    def _manifest(self, name: str, entries: list[ManifestEntry]) -> ManifestFileMeta:
        self.written.append(self._folder / name)
        self._files.write(name, entries)
        self.loaded.storage.sync_written(self._folder / name)
        return cast(ManifestFileMeta, self._files._build_meta(name, entries))

    def _list(self, name: str, manifests: list[ManifestFileMeta]) -> tuple[str, int]:
        self.written.append(self._folder / name)
        size = int(self._lists.write(name, manifests))
        self.loaded.storage.sync_written(self._folder / name)
        return name, size

    def _entries(self, payload: FilesPayload, *, is_changelog: bool) -> Iterator[ManifestEntry]:
        keys = self._table.partition_keys
        values = partition_values(keys, self.loaded.schema.columns, payload.partition)
        partition = GenericRow(list(values), self._table.partition_keys_fields)
        key_fields = list(self._table.trimmed_primary_keys_fields)
        schema = self.loaded.schema.version(payload.schema_id) or self.loaded.schema
        for file in payload.files:
            if file.is_changelog is is_changelog:
                meta = _file_meta(file, payload, schema, key_fields)
                yield ManifestEntry(ADD, partition, payload.bucket, payload.total_buckets, meta)


def _pypaimon_table(loaded: LoadedTable) -> Any:
    identifier = Identifier.create(loaded.path.database_name, loaded.path.table_name)
    access = loaded.storage.manifest_access()
    if access is None:
        return CatalogFactory.create({"warehouse": str(loaded.warehouse)}).get_table(identifier)
    return FileStoreTable(access, identifier, loaded.location, loaded.schema.table)


def as_pypaimon(snapshot: StoredSnapshot) -> Snapshot:
    """Returns the snapshot in pypaimon's type."""
    return cast(Snapshot, JSON.from_json(snapshot.content.decode(), Snapshot))


def _file_meta(file: WrittenFile, payload: FilesPayload, schema: StoredSchema, key_fields: list[Any]) -> DataFileMeta:
    bounds = {entry.name: bound for entry in schema.table.fields if (bound := _column_bounds(file, entry)) is not None}
    fields = [entry for entry in schema.table.fields if entry.name in bounds]
    stats = SimpleStats(
        GenericRow([low for low, _, _ in bounds.values()], fields),
        GenericRow([high for _, high, _ in bounds.values()], fields),
        [nulls for _, _, nulls in bounds.values()],
    )
    first, last, low, high = _key_rows(file, key_fields)
    return DataFileMeta.create(
        file_name=file.name,
        file_size=file.size_bytes,
        row_count=file.records,
        min_key=first,
        max_key=last,
        key_stats=SimpleStats(low, high, [0] * len(low.fields)),
        value_stats=stats,
        min_sequence_number=file.min_sequence,
        max_sequence_number=file.max_sequence,
        schema_id=payload.schema_id,
        level=payload.level,
        extra_files=[],
        delete_row_count=file.deletes,
        file_source=_COMPACTED if payload.is_compacted else _APPENDED,
        value_stats_cols=[entry.name for entry in fields],
    )


def _column_bounds(file: WrittenFile, field: Any) -> tuple[Any, Any, int] | None:
    """Returns lowest value, highest value and number of nulls of a column; None = unknown, or pypaimon cannot write such a date."""
    bounds = file.bounds.get(field.name)
    if bounds is None or str(field.type).split()[0] != "DATE":
        return bounds
    try:
        low, high = (None if days is None else _EPOCH_DAY + timedelta(days) for days in bounds[:2])
    except OverflowError:
        return None
    return low, high, bounds[2]


def _key_rows(file: WrittenFile, fields: list[Any]) -> list[GenericRow | BinaryRow]:
    """Returns first and last key, and lowest and highest values; empty rows for a file of a log table."""
    if not file.keys:
        return [GenericRow([], [])] * 4
    keys = unpack_keys(file.keys).select([field.name for field in fields])
    return [key_row(keys.slice(row, 1), fields) for row in range(keys.num_rows)]


_ARITY_BYTES, _FIELD_BYTES = 4, 8
_EPOCH_DAY, _EPOCH = date(1970, 1, 1), datetime(1970, 1, 1)


# pypaimon builds binary rows only from Python values, which have no dates and times outside of the years 1 to 9999. For such a key the
# row is built with another value, and then its bytes are replaced. Format of Paimon's `BinaryRow`: after the null bits 8 bytes for each
# field. DATE: the number of days. TIMESTAMP with more than 3 digits: the position of its milliseconds in the high half, the nanoseconds
# within the millisecond in the low half.
def key_row(key: pa.Table, fields: list[Any]) -> GenericRow | BinaryRow:
    """Returns the only row of `key`, whose columns are `fields`."""
    values: list[Any] = []
    beyond: dict[int, pa.Scalar[Any]] = {}
    for place, column in enumerate(key.columns):
        value = cast(Any, column)[0]
        try:
            values.append(value.as_py())
        except (OverflowError, ValueError):
            beyond[place] = value
            values.append(_EPOCH_DAY if pa.types.is_date(value.type) else _EPOCH)
    row = GenericRow(values, fields)
    if not beyond:
        return row
    content = bytearray(GenericRowSerializer.to_bytes(row))
    for place, value in beyond.items():
        _put(content, len(fields), place, cast(Any, value))
    return BinaryRow(bytes(content), fields)


def _put(content: bytearray, arity: int, place: int, value: Any) -> None:
    """Replaces the value at `place` by a date, or by a timestamp in microseconds."""
    at = _ARITY_BYTES + GenericRowDeserializer.calculate_bit_set_width_in_bytes(arity) + place * _FIELD_BYTES
    if pa.types.is_date(value.type):
        struct.pack_into("<i", content, at, value.value)
        return
    milliseconds, microseconds = divmod(value.value, 1_000)
    (halves,) = struct.unpack_from("<Q", content, at)
    struct.pack_into("<Q", content, at, halves >> 32 << 32 | microseconds * 1_000)
    struct.pack_into("<q", content, _ARITY_BYTES + (halves >> 32), milliseconds)


class _LenientDeserializer:
    """Leaves a row as bytes if Python cannot represent its values. pypaimon writes such a row as it was read."""

    @staticmethod
    def from_bytes(bytes_data: bytes, data_fields: list[Any]) -> Any:
        try:
            return GenericRowDeserializer.from_bytes(bytes_data, data_fields)
        except OverflowError:
            return BinaryRow(bytes_data, data_fields)


def keep_unreadable_keys() -> None:
    """Lets pypaimon, in this process, read manifests of files whose keys Python cannot represent."""
    manifest_file_manager.GenericRowDeserializer = _LenientDeserializer


keep_unreadable_keys()
