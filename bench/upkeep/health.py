"""How a lake table looks to its own format's library: files, deletes, manifests and snapshots of the head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFileContent, clear_manifest_cache
from pyiceberg.table import Table, TableProperties
from pyiceberg.utils.properties import property_as_int
from pypaimon import CatalogFactory
from pypaimon.manifest.manifest_list_manager import ManifestListManager
from upkeep.world import AgingWorld

from tiering.model.tables import TablePath

SMALL_SHARE = 0.75
"""A data file below this share of the target size is small: the bound of Iceberg's `rewrite_data_files`."""


@dataclass(frozen=True)
class Health:
    """Counts at the head of one table. `target_bytes`: the size at which a data file ends."""

    data_files: int
    small_files: int
    data_bytes: int
    delete_files: int
    manifests: int
    snapshots: int
    target_bytes: int


def health_of(world: AgingWorld, path: TablePath) -> Health:
    """Health of the table from the format's own library, without any cache."""
    if world.kind.format == "paimon":
        return _paimon_health(paimon_table(world, path))
    clear_manifest_cache()
    return _iceberg_health(iceberg_table(world.iceberg_catalog(), path))


def iceberg_table(catalog: Catalog, path: TablePath) -> Table:
    return catalog.load_table(str(path))


def paimon_catalog(world: AgingWorld) -> Any:
    """pypaimon's, of the world's warehouse."""
    return CatalogFactory.create({"warehouse": str(world.warehouse)})


def paimon_table(world: AgingWorld, path: TablePath) -> Any:
    return paimon_catalog(world).get_table(str(path))


def _iceberg_health(table: Table) -> Health:
    head = table.current_snapshot()
    if head is None:
        raise SystemExit(f"{table.name()} has no snapshot")
    manifests = head.manifests(table.io)
    files = [entry.data_file for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)]
    data = [file.file_size_in_bytes for file in files if file.content is DataFileContent.DATA]
    key, default = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
    target = property_as_int(table.properties, key, default) or default
    return _health(data, target, len(files) - len(data), len(manifests), len(table.metadata.snapshots))


def _paimon_health(table: Any) -> Health:
    snapshots = table.snapshot_manager()
    head = snapshots.get_latest_snapshot()
    manifests = ManifestListManager(table).read_all(head)
    splits = table.new_read_builder().new_scan().plan().splits()
    data = [file.file_size for split in splits for file in split.files]
    target = table.options.target_file_size(bool(table.primary_keys))
    return _health(data, target, 0, len(manifests), len(snapshots.list_snapshots()))


def _health(data: Iterable[int], target: int, deletes: int, manifests: int, snapshots: int) -> Health:
    sizes = list(data)
    small = sum(size < SMALL_SHARE * target for size in sizes)
    return Health(len(sizes), small, sum(sizes), deletes, manifests, snapshots, target)
