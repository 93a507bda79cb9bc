"""The files of an Iceberg table for the sweep: the files in its folders, and the files that its snapshots name.

Files are compared by their path on the file system, so that `file:///a` and `/a` are equal. The target of a symbolic link does not belong
to the table if it is elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import cast

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

from tiering.lake.base import LakeView
from tiering.lake.iceberg.catalogs.file_io import io_of, locations_of
from tiering.lake.iceberg.commit.marker_files import marker_path
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.reading.view import summary_of
from tiering.lake.maintenance import StoredFile
from tiering.lake.marker import PATH_KEY

REMEMBERED_NAMES = 200_000
"""Upper bound of the remembered names of all tables together, about 50 MB. A table with more is read completely by each sweep."""


def stored_files(view: LakeView, warehouse: str | None) -> list[StoredFile]:
    """Returns all files in the table's folders (`LakeMaintenance.stored_files`)."""
    table = cast(Table, view.handle)
    locations = locations_of(table.location(), table.metadata.properties)
    folders = {locations.data_path, locations.metadata_path, marker_path(table, warehouse, "any").rsplit("/", 1)[0]}
    with lake_errors(f"list the files of {view.path}", table_path=view.path):
        return list({file.location: file for folder in sorted(folders) for file in _files_below(table, folder)}.values())


def metadata_files(table: Table) -> Iterator[StoredFile]:
    """Yields the files in the metadata folder, including those that no snapshot names. Raises the errors of the storage."""
    return _files_below(table, locations_of(table.location(), table.metadata.properties).metadata_path)


def _files_below(table: Table, folder: str) -> Iterator[StoredFile]:
    io = io_of(table)
    io.places.check(folder)
    scheme, netloc, path = io.parse_location(folder, io.properties)
    selector = FileSelector(path, recursive=True, allow_not_found=True)
    is_allowed = io.places.checker(scheme, netloc)
    for file in io.fs_by_scheme(scheme, netloc).get_file_info(selector):
        if file.type is FileType.File and is_allowed(file.path):
            modified = datetime.fromtimestamp(0, UTC) if file.mtime is None else file.mtime.astimezone(UTC)
            yield StoredFile(file.path, file.base_name, file.size or 0, modified)


@dataclass(frozen=True)
class _FileNames:
    """The names in one table's metadata: manifests by manifest list, and data and delete files by manifest."""

    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    manifests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names(self) -> int:
        return sum(map(len, self.lists.values())) + sum(map(len, self.manifests.values()))


class NamedFiles:
    """Finds the files that the snapshots of tables name. Safe to use from several threads.

    Manifests and manifest lists are read once while a snapshot of the table names them, because neither ever changes. A table keeps about a
    hundred snapshots, and most of their manifests were there at the last sweep.
    """

    def __init__(self, remembered_names: int = REMEMBERED_NAMES) -> None:
        self._limit = remembered_names
        self._lock = Lock()
        self._tables: OrderedDict[str, _FileNames] = OrderedDict()

    def of(self, view: LakeView) -> set[str]:
        """Returns manifest lists, manifests, data and delete files (also removed ones) and marker files (`LakeMaintenance.live_files`)."""
        table = cast(Table, view.handle)
        io = io_of(table)
        with self._lock:
            cached = self._tables.get(view.table_uuid, _FileNames())
        lists: dict[str, tuple[str, ...]] = {}
        manifests: dict[str, tuple[str, ...]] = {}
        named = {marker for snapshot in table.metadata.snapshots if (marker := summary_of(snapshot).get(PATH_KEY)) is not None}
        with lake_errors(f"read the manifests of {view.path}", table_path=view.path):
            for snapshot in table.metadata.snapshots:
                listed = cached.lists.get(snapshot.manifest_list)
                if listed is None:
                    files = snapshot.manifests(io)
                    unread = (file for file in files if file.manifest_path not in cached.manifests and file.manifest_path not in manifests)
                    manifests.update((file.manifest_path, _names_in(file, io)) for file in unread)
                    listed = tuple(file.manifest_path for file in files)
                lists[snapshot.manifest_list] = listed
                manifests.update((path, cached.manifests[path]) for path in listed if path not in manifests)
        self._remember(view.table_uuid, _FileNames(lists, manifests))
        named.update(lists, manifests, *manifests.values())
        return {io.parse_location(location, io.properties)[2] for location in named}

    def _remember(self, table_uuid: str, named: _FileNames) -> None:
        with self._lock:
            self._tables.pop(table_uuid, None)
            self._tables[table_uuid] = named
            while sum(entry.names for entry in self._tables.values()) > self._limit:
                self._tables.popitem(last=False)


def _names_in(manifest: ManifestFile, io: FileIO) -> tuple[str, ...]:
    return tuple(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io, discard_deleted=False))


def delete_file(view: LakeView, location: str) -> None:
    """Deletes a file (`LakeMaintenance.delete_file`). A missing file is no error."""
    table = cast(Table, view.handle)
    io = io_of(table)
    scheme, netloc, _ = io.parse_location(table.location(), io.properties)
    io.places.check_path(scheme, netloc, location)
    with lake_errors(f"delete {location}", table_path=view.path):
        filesystem = io.fs_by_scheme(scheme, netloc)
        if filesystem.get_file_info(location).type is FileType.File:
            filesystem.delete_file(location)
