"""Keeps a table's manifests few: many small ones are merged now and then, inside of a round's own commit.

A commit adds a manifest, and every commit and every scan reads the list of them all: unmerged, a commit grows by some
1 ms with each one before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pyiceberg.manifest import ManifestFile, write_manifest
from pyiceberg.table import Table

MERGE_COUNT = 100
"""Small manifests of one partition spec that are merged into one (Iceberg's `commit.manifest.min-count-to-merge`)."""
TARGET_BYTES = 8 << 20
"""Of a merged manifest (Iceberg's `commit.manifest.target-size-bytes`)."""

AVRO_COMPRESSION: Final = "deflate"
"""Every reader has it."""


class Rewrite(Protocol):
    """Writes the live entries of several manifests as one."""

    def __call__(self, spec_id: int, manifests: Sequence[ManifestFile]) -> ManifestFile: ...


def merge_small(manifests: Sequence[ManifestFile], rewrite: Rewrite) -> list[ManifestFile]:
    """`manifests`, those of data files, with the small ones of a spec merged once there are MERGE_COUNT of them."""
    by_spec: dict[int, list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        by_spec[manifest.partition_spec_id].append(manifest)
    kept: list[ManifestFile] = []
    for spec_id, ones in by_spec.items():
        small = [one for one in ones if one.manifest_length < TARGET_BYTES // 2]
        if len(small) < MERGE_COUNT:
            kept.extend(ones)
            continue
        kept.extend(one for one in ones if one.manifest_length >= TARGET_BYTES // 2)
        kept.extend(rewrite(spec_id, bin_) if len(bin_) > 1 else bin_[0] for bin_ in _bins(small))
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


@dataclass(frozen=True)
class ManifestRewriter:
    """A `Rewrite` for one staged snapshot. Entries keep the snapshot and the sequence numbers that they have."""

    table: Table
    snapshot_id: int
    new_location: Callable[[], str]

    def __call__(self, spec_id: int, manifests: Sequence[ManifestFile]) -> ManifestFile:
        metadata = self.table.metadata
        with write_manifest(
            format_version=metadata.format_version,
            spec=metadata.specs()[spec_id],
            schema=metadata.schema(),
            output_file=self.table.io.new_output(self.new_location()),
            snapshot_id=self.snapshot_id,
            avro_compression=AVRO_COMPRESSION,
        ) as writer:
            for manifest in manifests:
                for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True):
                    writer.existing(entry)
        return writer.to_manifest_file()
