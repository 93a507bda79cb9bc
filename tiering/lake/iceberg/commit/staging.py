"""Prepares a snapshot: its manifests, its summary, and the one request that would publish it. Publishes nothing.

Every call writes fresh files under a fresh snapshot id. So a commit that is built again on a new head shares only the data files with the
first one.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile, write_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from tiering.clock import Clock
from tiering.instants import to_milliseconds
from tiering.lake.base import LakeView
from tiering.lake.iceberg.commit.manifests import AVRO_COMPRESSION, ManifestMaker, Merge, Rewrite, merge_all, merge_small
from tiering.lake.iceberg.primary_key.bucket_files import partition_of
from tiering.lake.iceberg.reading.view import TAG, summary_of
from tiering.lake.iceberg.schema.partition_values import PartitionValue
from tiering.model.upkeep import UpkeepStats

FOR_EVER_MS = 2**63 - 1
"""Iceberg's own value for a reference that never expires."""


def rewritten_files(removed: Sequence[DataFile], added: Sequence[DataFile]) -> UpkeepStats:
    """Returns the number and bytes of files that other files replaced, and of the new files; all zero if no file is removed."""
    if not removed:
        return UpkeepStats()
    before, after = (sum(file.file_size_in_bytes for file in files) for files in (removed, added))
    return UpkeepStats(len(removed), len(added), before, after)


@dataclass(frozen=True)
class StagedSnapshot:
    """A snapshot that is not published yet.

    `rewritten`: the files that its own changes replaced, without merged ones. The manifest counts are those of the head before and after.
    """

    snapshot_id: int
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    rewritten: UpkeepStats
    manifests: tuple[int, int]


@dataclass(frozen=True)
class FileChanges:
    """The files to add, of one partition spec, and the live files to remove: all data and delete files of the partitions `replaced` of that
    spec, and the files `obsolete`."""

    added: Sequence[DataFile]
    spec_id: int
    replaced: Collection[PartitionValue] = ()
    obsolete: Collection[str] = ()

    def removes(self, file: DataFile) -> bool:
        """Whether a live file is removed."""
        return partition_of(file) in self.replaced or file.file_path in self.obsolete


@dataclass(frozen=True)
class _Written:
    """A snapshot with a written manifest list, the files that it removes, and its number of manifests."""

    snapshot: Snapshot
    removed: Sequence[DataFile]
    manifests: int


class SnapshotStager:
    """Stages one snapshot on `base`, with the commit time of `clock`. `files` lists the written metadata files, also if staging fails.

    `all_manifests`: merges all live manifests, and not only small ones if they are many."""

    def __init__(self, table: Table, base: LakeView, round_id: str, clock: Clock, *, all_manifests: bool = False) -> None:
        self._clock = clock
        self._merge = merge_all if all_manifests else merge_small
        self._table = table
        self._base = base
        self._metadata = table.metadata
        self._snapshot_id = table.metadata.new_snapshot_id()
        self.commit_id = f"lakeward-{round_id}-{uuid.uuid4()}"
        """Part of the names of all metadata files of this attempt. The sweep tells from it which round wrote them."""
        self.files: list[str] = []

    def stage(self, changes: FileChanges, properties: Mapping[str, str], merged: FileChanges | None = None) -> StagedSnapshot:
        """Returns the request that publishes `changes`, with `properties` in the snapshot's summary.

        `merged`: files that replace others with the same rows. They get a snapshot of their own below that of `changes`, with the operation
        `replace`, so that readers that follow the table read each row once (Iceberg spec, "Snapshots"). One request publishes both.
        """
        head = None if self._base.head is None else self._metadata.snapshot_by_id(self._base.head)
        manifests_before = 0 if head is None else len(_live_manifests(head, self._table))
        before: list[Snapshot] = []
        if merged is not None:
            # The snapshot that follows merges the manifests of both.
            replacing = self._snapshot(self._metadata.new_snapshot_id(), head, merged, {}, Operation.REPLACE, _unmerged)
            before.append(replacing.snapshot)
        last = self._snapshot(self._snapshot_id, before[0] if before else head, changes, properties)
        updates = self._updates([*before, last.snapshot])
        rewritten = rewritten_files(last.removed, changes.added)
        return StagedSnapshot(self._snapshot_id, self._requirements(), updates, rewritten, (manifests_before, last.manifests))

    def _snapshot(
        self,
        snapshot_id: int,
        parent: Snapshot | None,
        changes: FileChanges,
        properties: Mapping[str, str],
        operation: Operation | None = None,
        merge: Merge | None = None,
    ) -> _Written:
        """Returns a snapshot on `parent` with its manifests. `operation` None = append, or overwrite if files or rows are removed."""
        maker = ManifestMaker(self._table, snapshot_id, self._new_manifest)
        carried, removed = self._carried_over(changes, parent, maker, merge or self._merge)
        manifests = [*maker.added(changes.added, changes.spec_id), *carried]
        is_on_head = parent is None or parent.snapshot_id == self._base.head
        sequence_number = self._metadata.next_sequence_number() + (0 if is_on_head else 1)
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": snapshot_id,
                "parent-snapshot-id": None if parent is None else parent.snapshot_id,
                "sequence-number": sequence_number,
                # This clock may be behind the last commit's. Iceberg's readers refuse a snapshot log that goes back in time.
                "timestamp-ms": max(to_milliseconds(self._clock.now()), self._metadata.last_updated_ms),
                "manifest-list": self._write_list(snapshot_id, parent, sequence_number, manifests),
                "summary": self._summary(changes, removed, properties, parent, operation),
                "schema-id": self._metadata.current_schema_id,
            }
        )
        return _Written(snapshot, removed, len(manifests))

    def _carried_over(
        self, changes: FileChanges, parent: Snapshot | None, maker: ManifestMaker, merge: Merge
    ) -> tuple[list[ManifestFile], list[DataFile]]:
        """Returns the manifests of `parent` that the snapshot keeps, and the files that they lose."""
        if parent is None:
            return [], []
        live = _live_manifests(parent, self._table)
        if not (changes.replaced or changes.obsolete):
            return merge(live, maker), []
        unchanged, reduced, removed_files = maker.without(live, changes.removes)
        return [*merge(unchanged, maker), *reduced], removed_files  # a merge would drop the entries of removed files

    def _write_list(self, snapshot_id: int, parent: Snapshot | None, sequence_number: int, manifests: list[ManifestFile]) -> str:
        location = self._new_location(f"snap-{snapshot_id}-0-{self.commit_id}.avro")
        with write_manifest_list(
            format_version=self._metadata.format_version,
            output_file=self._table.io.new_output(location),
            snapshot_id=snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=sequence_number,
            avro_compression=AVRO_COMPRESSION,
        ) as writer:
            writer.add_manifests(manifests)
        return location

    def _summary(
        self,
        changes: FileChanges,
        removed: Sequence[DataFile],
        properties: Mapping[str, str],
        parent: Snapshot | None,
        operation: Operation | None,
    ) -> Summary:
        collector = SnapshotSummaryCollector()
        schema, spec = self._metadata.schema(), self._metadata.specs()[changes.spec_id]
        for file in changes.added:
            collector.add_file(file, schema=schema, partition_spec=spec)
        for file in removed:
            collector.remove_file(file, schema=schema, partition_spec=spec)
        previous = None if parent is None or parent.summary is None else dict(summary_of(parent))
        # Never APPEND with deletes: Iceberg's compaction looks for the deletes of others in OVERWRITE and DELETE snapshots only.
        only_data = not removed and all(file.content is DataFileContent.DATA for file in changes.added)
        changing = Operation.APPEND if only_data else Operation.OVERWRITE
        summary = update_snapshot_summaries(Summary(changing, **collector.build(), **properties), previous)
        return summary if operation is None else summary.model_copy(update={"operation": operation})

    def _requirements(self) -> tuple[TableRequirement, ...]:
        """Returns the compare-and-set on table, columns, head and the tag, which names `base.tiered`. A table without snapshots has no
        tag."""
        same_table = AssertTableUUID(uuid=self._metadata.table_uuid)
        same_schema = AssertCurrentSchemaId.model_validate({"current-schema-id": self._metadata.current_schema_id})
        same_head = _assert_ref(MAIN_BRANCH, self._base.head)
        if not self._metadata.snapshots:
            return (same_table, same_schema, same_head)
        return (same_table, same_schema, same_head, _assert_ref(TAG, self._base.tiered))

    def _updates(self, snapshots: Sequence[Snapshot]) -> tuple[TableUpdate, ...]:
        main = self._metadata.refs.get(MAIN_BRANCH)
        # The update replaces the whole reference, so the user's settings for expiry are copied.
        retention = {} if main is None else main.model_dump(by_alias=True, include={"max_snapshot_age_ms", "min_snapshots_to_keep"})
        return (
            *(AddSnapshotUpdate(snapshot=snapshot) for snapshot in snapshots),
            self._set_ref(MAIN_BRANCH, SnapshotRefType.BRANCH, retention),
            self._set_ref(TAG, SnapshotRefType.TAG, {"max-ref-age-ms": FOR_EVER_MS}),
        )

    def _set_ref(self, name: str, kind: SnapshotRefType, retention: Mapping[str, int | None]) -> SetSnapshotRefUpdate:
        return SetSnapshotRefUpdate.model_validate({"ref-name": name, "type": kind, "snapshot-id": self._snapshot_id, **retention})

    def _new_manifest(self) -> str:
        return self._new_location(f"{self.commit_id}-m{len(self.files)}.avro")

    def _new_location(self, name: str) -> str:
        location = self._table.location_provider().new_metadata_location(name)
        self.files.append(location)
        return location


def _live_manifests(snapshot: Snapshot, table: Table) -> list[ManifestFile]:
    return [manifest for manifest in snapshot.manifests(table.io) if manifest.has_added_files() or manifest.has_existing_files()]


def _unmerged(manifests: Sequence[ManifestFile], rewrite: Rewrite) -> list[ManifestFile]:
    return list(manifests)


def _assert_ref(name: str, snapshot_id: int | None) -> AssertRefSnapshotId:
    return AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": snapshot_id})
