"""Iceberg's maintenance procedures on a `LakeWorld`'s lake table, without Spark: the same commits, and the same files deleted.

Each function is a whole procedure. It reads the table and commits in one go, as a procedure does that meets no other commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from support.lakes.foreign.files import described_file, written_file
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import local, read
from tiering.clock import SystemClock
from tiering.lake.iceberg.commit.staging import FileChanges, SnapshotStager
from tiering.model.tables import TableInfo

Maintenance = Callable[[LakeWorld, TableInfo], None]


def rewrite_data_files(world: LakeWorld, table: TableInfo) -> None:
    """Each partition's files become one; deleted rows are left out."""
    loaded = world.iceberg(table)
    for tasks in _by_partition(loaded):
        scan = ArrowScan(loaded.metadata, loaded.io, loaded.schema(), AlwaysTrue())
        rows = scan.to_table(tasks)
        added = list(_dataframe_to_data_files(loaded.metadata, rows, loaded.io)) if rows.num_rows else []
        _replace(world, table, added, [task.file for task in tasks])
        loaded = world.iceberg(table)


def rewrite_oldest_data_files(world: LakeWorld, table: TableInfo) -> None:
    """Does the same as `rewrite_data_files` with a small file group: two files of one partition."""
    loaded = world.iceberg(table)
    tasks = max(_by_partition(loaded), key=len, default=[])[:2]
    if tasks:
        rows = ArrowScan(loaded.metadata, loaded.io, loaded.schema(), AlwaysTrue()).to_table(tasks)
        added = list(_dataframe_to_data_files(loaded.metadata, rows, loaded.io)) if rows.num_rows else []
        _replace(world, table, added, [task.file for task in tasks])


def rewrite_position_delete_files(world: LakeWorld, table: TableInfo) -> None:
    """Each partition's delete files become one, without deletes of data files that are gone."""
    loaded = world.iceberg(table)
    for tasks in _by_partition(loaded):
        files = {file.file_path: file for task in tasks for file in task.delete_files}
        if not files:
            continue
        rows = pa.concat_tables([read(local(location)).select(["file_path", "pos"]) for location in files])
        living = {task.file.file_path for task in tasks}
        rows = rows.filter(pa.array([path in living for path in rows["file_path"].to_pylist()], pa.bool_()))
        rows = rows.group_by(["file_path", "pos"]).aggregate([]).sort_by([("file_path", "ascending"), ("pos", "ascending")])
        model = next(iter(files.values()))
        written = written_file(loaded.location(), rows, "positions")
        added = described_file(written, rows.num_rows, DataFileContent.POSITION_DELETES, model.spec_id, model.partition, None)
        _replace(world, table, [added] if rows.num_rows else [], list(files.values()))


def rewrite_manifests(world: LakeWorld, table: TableInfo) -> None:
    """All manifests of data files become one, and so do those of delete files."""
    _replace(world, table, [], [], all_manifests=True)


def expire_snapshots(world: LakeWorld, table: TableInfo) -> None:
    """`retain_last => 1`, of any age: what only expired snapshots named is deleted."""
    before = referenced(world, table)
    world.iceberg(table).maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=9)).commit()
    for location in before - referenced(world, table):
        local(location).unlink(missing_ok=True)


def remove_orphan_files(world: LakeWorld, table: TableInfo) -> None:
    """`older_than` now, which Iceberg's documentation warns of: files of rounds that have not committed yet go, too."""
    loaded = world.iceberg(table)
    named = {local(location) for location in referenced(world, table)}
    named |= {local(location) for location in (loaded.metadata_location, *(entry.metadata_file for entry in loaded.metadata.metadata_log))}
    for file in local(loaded.location()).rglob("*"):
        if file.is_file() and file not in named and not file.name.startswith("version-hint"):
            file.unlink()


def referenced(world: LakeWorld, table: TableInfo) -> set[str]:
    """Locations of manifest lists, manifests, data and delete files by which any snapshot is read."""
    loaded, locations = world.iceberg(table), set[str]()
    for snapshot in loaded.metadata.snapshots:
        locations.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(loaded.io):
            if manifest.manifest_path not in locations:
                locations.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(loaded.io, discard_deleted=True)
                locations.update(entry.data_file.file_path for entry in entries)
    return locations


def _by_partition(loaded: Table) -> list[list[FileScanTask]]:
    tasks: dict[str, list[FileScanTask]] = defaultdict(list)
    for task in loaded.scan().plan_files():
        tasks[repr(task.file.partition)].append(task)
    return [tasks[partition] for partition in sorted(tasks)]


def _replace(
    world: LakeWorld, table: TableInfo, added: Sequence[DataFile], removed: Sequence[DataFile], *, all_manifests: bool = False
) -> None:
    """One snapshot of the kind that compactions leave: no marker, and no tag moves."""
    loaded, view = world.iceberg(table), world.view(table)
    head = loaded.metadata.current_snapshot()
    if head is None:
        return
    stager = SnapshotStager(loaded, view, "foreign", SystemClock(), all_manifests=all_manifests)
    changes = FileChanges(added, loaded.metadata.default_spec_id, (), {file.file_path for file in removed})
    snapshot = stager._snapshot(loaded.metadata.new_snapshot_id(), head, changes, {}, Operation.REPLACE).snapshot
    to_it = {"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": snapshot.snapshot_id}
    updates = (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(to_it))
    loaded.catalog.commit_table(loaded, (), updates)


ALL: dict[str, Maintenance] = {
    action.__name__: action
    for action in (
        rewrite_data_files,
        rewrite_oldest_data_files,
        rewrite_position_delete_files,
        rewrite_manifests,
        expire_snapshots,
        remove_orphan_files,
    )
}
