"""The files of an Iceberg table for the sweep: what lies in its folders, and what any of its snapshots names.

Files are compared by their path on the file system, so that `file:///a` and `/a` are one. Needs a storage that can list
(pyarrow's); another one is refused.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider

from tiering.errors import InvalidArgument
from tiering.lake.base import LakeView
from tiering.lake.care import StoredFile
from tiering.lake.iceberg.border import lake_border
from tiering.lake.iceberg.marker_files import marker_path
from tiering.lake.marker import PATH_KEY


def stored_files(view: LakeView, warehouse: str | None) -> list[StoredFile]:
    """See `LakeCare.stored_files`."""
    table = cast(Table, view.handle)
    io = _io(table)
    places = load_location_provider(table.location(), dict(table.metadata.properties))
    folders = {places.data_path, places.metadata_path, marker_path(table, warehouse, "any").rsplit("/", 1)[0]}
    found: dict[str, StoredFile] = {}
    with lake_border(f"list the files of {view.path}", table_path=view.path):
        for folder in sorted(folders):
            scheme, netloc, path = io.parse_location(folder, io.properties)
            selector = FileSelector(path, recursive=True, allow_not_found=True)
            for file in io.fs_by_scheme(scheme, netloc).get_file_info(selector):
                if file.type is FileType.File:
                    modified = datetime.fromtimestamp(0, UTC) if file.mtime is None else file.mtime.astimezone(UTC)
                    found[file.path] = StoredFile(file.path, file.base_name, file.size or 0, modified)
    return list(found.values())


def live_files(view: LakeView) -> set[str]:
    """See `LakeCare.live_files`: manifest lists, manifests, data and delete files (removed ones too) and marker files."""
    table = cast(Table, view.handle)
    io = _io(table)
    named: set[str] = set()
    with lake_border(f"read the manifests of {view.path}", table_path=view.path):
        seen: set[str] = set()
        for snapshot in table.metadata.snapshots:
            named.add(snapshot.manifest_list)
            if snapshot.summary is not None and (marker := snapshot.summary.additional_properties.get(PATH_KEY)) is not None:
                named.add(marker)
            for manifest in snapshot.manifests(io):
                if manifest.manifest_path not in seen:
                    seen.add(manifest.manifest_path)
                    named.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io, discard_deleted=False))
        named |= seen
    return {io.parse_location(location, io.properties)[2] for location in named}


def delete_file(view: LakeView, location: str) -> None:
    """See `LakeCare.delete_file`. A file that is gone already is fine."""
    table = cast(Table, view.handle)
    io = _io(table)
    scheme, netloc, _ = io.parse_location(table.location(), io.properties)
    with lake_border(f"delete {location}", table_path=view.path):
        filesystem = io.fs_by_scheme(scheme, netloc)
        if filesystem.get_file_info(location).type is FileType.File:
            filesystem.delete_file(location)


def _io(table: Table) -> PyArrowFileIO:
    if not isinstance(table.io, PyArrowFileIO):
        raise InvalidArgument(f"the storage of {table.location()} cannot list its files through {type(table.io).__name__}")
    return table.io
