"""Keeps a table's manifests few: many small ones are merged now and then, inside of a round's own commit.

A commit adds a manifest, and every commit and every scan reads the list of them all: unmerged, a commit grows by some
1 ms with each one before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import TableVersion
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

MERGE_COUNT = 100
"""Small manifests of one partition spec that are merged into one (Iceberg's `commit.manifest.min-count-to-merge`)."""
TARGET_BYTES = 8 << 20
"""Of a merged manifest (Iceberg's `commit.manifest.target-size-bytes`)."""

AVRO_COMPRESSION: Final = "deflate"
"""Every reader has it."""


EQUALITY_IDS = 135
"""Field id of `equality_ids` in a manifest's entries."""

_DATA = (DataFileContent.DATA,)
_DELETES = (DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)


class Rewrite(Protocol):
    """Writes the live entries of several manifests of one spec and content as one."""

    def __call__(self, manifests: Sequence[ManifestFile]) -> ManifestFile: ...


def merge_small(manifests: Sequence[ManifestFile], rewrite: Rewrite) -> list[ManifestFile]:
    """`manifests`, with the small ones of a spec and content (data or deletes) merged once there are MERGE_COUNT of them."""
    alike: dict[tuple[int, ManifestContent], list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        alike[manifest.partition_spec_id, manifest.content].append(manifest)
    kept: list[ManifestFile] = []
    for group in alike.values():
        small = [manifest for manifest in group if manifest.manifest_length < TARGET_BYTES // 2]
        if len(small) < MERGE_COUNT:
            kept.extend(group)
            continue
        kept.extend(manifest for manifest in group if manifest.manifest_length >= TARGET_BYTES // 2)
        kept.extend(rewrite(bin_) if len(bin_) > 1 else bin_[0] for bin_ in _bins(small))
    return kept


def _bins(manifests: Sequence[ManifestFile]) -> list[list[ManifestFile]]:
    """Neighbours together, at most TARGET_BYTES each."""
    bins: list[list[ManifestFile]] = [[]]
    size = 0
    for manifest in manifests:
        if bins[-1] and size + manifest.manifest_length > TARGET_BYTES:
            bins.append([])
            size = 0
        bins[-1].append(manifest)
        size += manifest.manifest_length
    return bins


def _with_int_ids(schema: Schema) -> Schema:
    """`schema` of manifest entries with the field ids of equality deletes as ints (spec, "Manifests"): pyiceberg writes longs, and no
    reader in Java takes them. In Avro both have the same bytes."""
    ids = ListType(element_id=136, element_type=IntegerType(), element_required=True)

    def mended(field: NestedField) -> NestedField:
        if field.field_id == EQUALITY_IDS:
            return field.model_copy(update={"field_type": ids})
        if isinstance(field.field_type, StructType):
            return field.model_copy(update={"field_type": StructType(*(mended(nested) for nested in field.field_type.fields))})
        return field

    return Schema(*(mended(field) for field in schema.fields), schema_id=schema.schema_id)


class _DeleteManifestWriter(ManifestWriterV2):
    """pyiceberg writes manifests of data files only: one of delete files differs in what it says of itself (spec, "Manifests")."""

    def _with_partition(self, format_version: TableVersion) -> Schema:
        return _with_int_ids(super()._with_partition(format_version))

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


@dataclass(frozen=True)
class ManifestMaker:
    """Writes manifests for one staged snapshot, in the table's current schema."""

    table: Table
    snapshot_id: int
    new_location: Callable[[], str]

    def __call__(self, manifests: Sequence[ManifestFile]) -> ManifestFile:
        """A `Rewrite`. Entries keep the snapshot and the sequence numbers that they have."""
        with self._open(manifests[0].partition_spec_id, manifests[0].content) as writer:
            for manifest in manifests:
                for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True):
                    writer.existing(entry)
        return writer.to_manifest_file()

    def added(self, files: Sequence[DataFile], spec_id: int) -> list[ManifestFile]:
        """Manifests that add `files`: one of data and one of delete files, as far as there are any."""
        manifests = []
        for content, kinds in ((ManifestContent.DATA, _DATA), (ManifestContent.DELETES, _DELETES)):
            mine = [file for file in files if file.content in kinds]
            if mine:
                with self._open(spec_id, content) as writer:
                    for file in mine:
                        writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file))
                manifests.append(writer.to_manifest_file())
        return manifests

    def without(self, manifest: ManifestFile, is_removed: Callable[[DataFile], bool]) -> tuple[ManifestFile, list[DataFile]]:
        """`manifest` with some of its live files marked as deleted by this snapshot, and these; itself if it has none of them."""
        entries = manifest.fetch_manifest_entry(self.table.io, discard_deleted=True)
        removed = [entry.data_file for entry in entries if is_removed(entry.data_file)]
        if not removed:
            return manifest, []
        with self._open(manifest.partition_spec_id, manifest.content) as writer:
            for entry in entries:
                (writer.delete if is_removed(entry.data_file) else writer.existing)(entry)
        return writer.to_manifest_file(), removed

    def _open(self, spec_id: int, content: ManifestContent) -> ManifestWriter:
        metadata = self.table.metadata
        kind = ManifestWriterV2 if content is ManifestContent.DATA else _DeleteManifestWriter
        output = self.table.io.new_output(self.new_location())
        return kind(metadata.specs()[spec_id], metadata.schema(), output, self.snapshot_id, AVRO_COMPRESSION)
