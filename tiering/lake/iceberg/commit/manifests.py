"""Keeps the number of a table's manifests low: a round's own commit merges small ones, like data files (`small_files`).

Each commit adds a manifest. Every scan, and every commit that removes files, reads all manifests. Each further manifest adds 1 to 2 ms to
both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

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

from tiering.lake.rules.upkeep.small_files import first_to_merge

T = TypeVar("T")

SMALL_MANIFESTS = 4
"""Number of small manifests of one partition spec and content that stay unmerged. Iceberg's `commit.manifest.min-count-to-merge` is 100,
which is meant for tables with few commits and many files."""
TARGET_BYTES = 8 << 20
"""Target size of a merged manifest (Iceberg's `commit.manifest.target-size-bytes`)."""

AVRO_COMPRESSION: Final = "deflate"
"""A compression that every reader supports."""


EQUALITY_IDS = 135
"""Field id of `equality_ids` in a manifest's entries."""

_DATA = (DataFileContent.DATA,)
_DELETES = (DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)

_Losing = tuple[ManifestFile, list[ManifestEntry]]
"""A manifest that loses files, with all of its live entries."""


class Rewrite(Protocol):
    """Writes the live entries of several manifests of one spec and content as one manifest."""

    def __call__(self, manifests: Sequence[ManifestFile]) -> ManifestFile: ...


Merge = Callable[[Sequence[ManifestFile], Rewrite], list[ManifestFile]]
"""Selects which of a snapshot's manifests are merged, and merges them."""


def merge_small(manifests: Sequence[ManifestFile], rewrite: Rewrite) -> list[ManifestFile]:
    """Returns `manifests` with small ones of a spec and content (data or deletes) merged if there are more than SMALL_MANIFESTS of them.

    The smallest ones are merged, so that an entry of a table with very many files is rewritten seldom.
    """
    kept: list[ManifestFile] = []
    for group in by_spec_and_content(manifests):
        ordered = sorted(group, key=lambda manifest: -manifest.manifest_length)
        sizes = [manifest.manifest_length for manifest in ordered]
        first = first_to_merge(sizes, TARGET_BYTES, TARGET_BYTES, SMALL_MANIFESTS)
        kept.extend(group if first is None else [*ordered[:first], rewrite(ordered[first:])])
    return kept


def merge_all(manifests: Sequence[ManifestFile], rewrite: Rewrite) -> list[ManifestFile]:
    """Returns `manifests` with all of a spec and content merged to manifests of at most TARGET_BYTES."""
    kept: list[ManifestFile] = []
    for group in by_spec_and_content(manifests):
        kept.extend(rewrite(bin_) if len(bin_) > 1 else bin_[0] for bin_ in _bins(group, lambda manifest: manifest.manifest_length))
    return kept


def by_spec_and_content(manifests: Iterable[ManifestFile]) -> Iterable[list[ManifestFile]]:
    """Returns `manifests` grouped by partition spec and content (data or deletes), each group in the given order."""
    groups: dict[tuple[int, ManifestContent], list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        groups[manifest.partition_spec_id, manifest.content].append(manifest)
    return groups.values()


def _bins(items: Iterable[T], size_of: Callable[[T], int]) -> list[list[T]]:
    """Returns groups of neighbours with at most TARGET_BYTES each."""
    bins: list[list[T]] = []
    size = 0
    for item in items:
        if not bins or size + size_of(item) > TARGET_BYTES:
            bins.append([])
            size = 0
        bins[-1].append(item)
        size += size_of(item)
    return bins


def _with_int_ids(schema: Schema) -> Schema:
    """Returns the `schema` of manifest entries with the field ids of equality deletes as ints (spec, "Manifests"). pyiceberg writes longs,
    which no reader in Java accepts. In Avro both have the same bytes."""
    ids = ListType(element_id=136, element_type=IntegerType(), element_required=True)

    def corrected(field: NestedField) -> NestedField:
        if field.field_id == EQUALITY_IDS:
            return field.model_copy(update={"field_type": ids})
        if isinstance(field.field_type, StructType):
            return field.model_copy(update={"field_type": StructType(*(corrected(nested) for nested in field.field_type.fields))})
        return field

    return Schema(*(corrected(field) for field in schema.fields), schema_id=schema.schema_id)


class _DeleteManifestWriter(ManifestWriterV2):
    """Writes manifests of delete files. pyiceberg writes only those of data files, whose metadata differs (spec, "Manifests")."""

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
        """Merges manifests (`Rewrite`). The entries keep their snapshot and sequence numbers."""
        with self._open(manifests[0].partition_spec_id, manifests[0].content) as writer:
            for manifest in manifests:
                for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True):
                    writer.existing(entry)
        return writer.to_manifest_file()

    def added(self, files: Sequence[DataFile], spec_id: int) -> list[ManifestFile]:
        """Returns new manifests that add `files`: one of data files and one of delete files, if there are any."""
        manifests = []
        for content, kinds in ((ManifestContent.DATA, _DATA), (ManifestContent.DELETES, _DELETES)):
            added_files = [file for file in files if file.content in kinds]
            if added_files:
                with self._open(spec_id, content) as writer:
                    for file in added_files:
                        writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file))
                manifests.append(writer.to_manifest_file())
        return manifests

    def without(
        self, manifests: Iterable[ManifestFile], is_removed: Callable[[DataFile], bool]
    ) -> tuple[list[ManifestFile], list[ManifestFile], list[DataFile]]:
        """Returns the manifests without any removed file, new manifests that replace the others, and the removed files.

        A new manifest marks the files as deleted by this snapshot. It replaces several manifests of a group, as far as they fit into one.
        """
        unchanged: list[ManifestFile] = []
        reduced: list[ManifestFile] = []
        removed_files: list[DataFile] = []
        for group in by_spec_and_content(manifests):
            losing: list[_Losing] = []
            for manifest in group:
                entries = manifest.fetch_manifest_entry(self.table.io, discard_deleted=True)
                removed = [entry.data_file for entry in entries if is_removed(entry.data_file)]
                removed_files.extend(removed)
                if removed:
                    losing.append((manifest, entries))
                else:
                    unchanged.append(manifest)
            reduced.extend(self._reduced(bin_, is_removed) for bin_ in _bins(losing, lambda entry: entry[0].manifest_length))
        return unchanged, reduced, removed_files

    def _reduced(self, losing: Sequence[_Losing], is_removed: Callable[[DataFile], bool]) -> ManifestFile:
        first, _ = losing[0]
        with self._open(first.partition_spec_id, first.content) as writer:
            for _, entries in losing:
                for entry in entries:
                    (writer.delete if is_removed(entry.data_file) else writer.existing)(entry)
        return writer.to_manifest_file()

    def _open(self, spec_id: int, content: ManifestContent) -> ManifestWriter:
        metadata = self.table.metadata
        kind = ManifestWriterV2 if content is ManifestContent.DATA else _DeleteManifestWriter
        output = self.table.io.new_output(self.new_location())
        return kind(metadata.specs()[spec_id], metadata.schema(), output, self.snapshot_id, AVRO_COMPRESSION)
