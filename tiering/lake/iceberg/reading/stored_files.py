"""The files of an Iceberg table for the sweep: what lies in its folders, and what any of its snapshots names.

Files are compared by their path on the file system, so that `file:///a` and `/a` are one. What a symbolic link leads to is no file
of the table's if it lies elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import cast

from pyarrow.fs import FileSelector, FileType
from pyiceberg.table import Table

from tiering.lake.base import LakeView
from tiering.lake.iceberg.catalogs.file_io import io_of, locations_of
from tiering.lake.iceberg.commit.marker_files import marker_path
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.reading.view import summary_of
from tiering.lake.maintenance import StoredFile
from tiering.lake.marker import PATH_KEY


def stored_files(view: LakeView, warehouse: str | None) -> list[StoredFile]:
    """See `LakeMaintenance.stored_files`."""
    table = cast(Table, view.handle)
    locations = locations_of(table.location(), table.metadata.properties)
    folders = {locations.data_path, locations.metadata_path, marker_path(table, warehouse, "any").rsplit("/", 1)[0]}
    with lake_errors(f"list the files of {view.path}", table_path=view.path):
        return list({file.location: file for folder in sorted(folders) for file in _files_below(table, folder)}.values())


def metadata_files(table: Table) -> Iterator[StoredFile]:
    """The files in the folder of the table's metadata, also those that no snapshot names. Raises what the storage raises."""
    return _files_below(table, locations_of(table.location(), table.metadata.properties).metadata_path)


def _files_below(table: Table, folder: str) -> Iterator[StoredFile]:
    io = io_of(table)
    io.places.check(folder)
    scheme, netloc, path = io.parse_location(folder, io.properties)
    selector = FileSelector(path, recursive=True, allow_not_found=True)
    for file in io.fs_by_scheme(scheme, netloc).get_file_info(selector):
        if file.type is FileType.File and io.places.has(scheme, netloc, file.path):
            modified = datetime.fromtimestamp(0, UTC) if file.mtime is None else file.mtime.astimezone(UTC)
            yield StoredFile(file.path, file.base_name, file.size or 0, modified)


def live_files(view: LakeView) -> set[str]:
    """See `LakeMaintenance.live_files`: manifest lists, manifests, data and delete files (removed ones too) and marker files."""
    table = cast(Table, view.handle)
    io = io_of(table)
    named: set[str] = set()
    with lake_errors(f"read the manifests of {view.path}", table_path=view.path):
        manifests: set[str] = set()
        for snapshot in table.metadata.snapshots:
            named.add(snapshot.manifest_list)
            if (marker := summary_of(snapshot).get(PATH_KEY)) is not None:
                named.add(marker)
            for manifest in snapshot.manifests(io):
                if manifest.manifest_path not in manifests:
                    manifests.add(manifest.manifest_path)
                    named.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io, discard_deleted=False))
        named |= manifests
    return {io.parse_location(location, io.properties)[2] for location in named}


def delete_file(view: LakeView, location: str) -> None:
    """See `LakeMaintenance.delete_file`. A file that is gone already is fine."""
    table = cast(Table, view.handle)
    io = io_of(table)
    scheme, netloc, _ = io.parse_location(table.location(), io.properties)
    io.places.check_path(scheme, netloc, location)
    with lake_errors(f"delete {location}", table_path=view.path):
        filesystem = io.fs_by_scheme(scheme, netloc)
        if filesystem.get_file_info(location).type is FileType.File:
            filesystem.delete_file(location)
