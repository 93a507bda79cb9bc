"""File access for lakes: only where a lake's files may lie, and on the disk before a writer goes on.

It is made from the catalog's own properties alone: no table's properties reach it, and it opens no file outside of `places`.

The catalog's database syncs what it commits, pyiceberg's files do not: after a power cut a committed snapshot could
name files that are empty. So local files and their names are synced; object stores need nothing of the kind, and a file on HDFS is
what it promises of one that was closed. Who may read a file is
who may read its folder, whatever the umask of the process that writes it, an executor's among them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.fs import FileSystem
from pyiceberg.io import HDFS_HOST, HDFS_KERB_TICKET, HDFS_PORT, HDFS_USER, InputFile, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import LocationProvider, ObjectStoreLocationProvider, SimpleLocationProvider
from pyiceberg.typedef import EMPTY_DICT, Properties

from tiering.errors import InvalidArgument
from tiering.files.durable_files import sync_folder
from tiering.files.hdfs import Hdfs, hdfs_file_system, open_hdfs
from tiering.files.private_files import make_folders_like_their_parent, open_like_folder
from tiering.lake.catalog_properties import storage_properties
from tiering.lake.iceberg.catalogs.locations import AllowedLocations, is_local
from tiering.lake_table_options import allowed_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table

CLASS_NAME = "tiering.lake.iceberg.catalogs.file_io.LakeFileIO"
"""What the catalog property `py-io-impl` names, so that pyiceberg takes this class wherever it opens files by itself."""

BUFFER_BYTES = 1 << 20
HDFS = "hdfs"
_OF_THE_ENVIRONMENT = {HDFS_USER: "HADOOP_USER_NAME", HDFS_KERB_TICKET: "KRB5CCNAME"}
"""Properties of PyArrow's file system that hdfs-native takes from variables alone."""


class DurableFileIO(PyArrowFileIO):
    """PyArrow's file access, but for local files that are written."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)

    def new_output(self, location: str) -> PyArrowFile:
        """As PyArrowFileIO; a local file and its name are synced when it is closed."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme == HDFS:
            return _HdfsFile(location, path, self.fs_by_scheme(scheme, netloc), open_hdfs(self._authority(netloc)))
        if not is_local(location):
            return super().new_output(location)
        return _DurableFile(location, path, self.fs_by_scheme(scheme, netloc))

    def _initialize_hdfs_fs(self, scheme: str, netloc: str | None) -> FileSystem:
        """Of `hdfs://` without libhdfs, and with time-outs. Raises SetupError, InvalidArgument."""
        return hdfs_file_system(self._authority(netloc)) if scheme == HDFS else super()._initialize_hdfs_fs(scheme, netloc)

    def _authority(self, netloc: str | None) -> str:
        for name, variable in _OF_THE_ENVIRONMENT.items():
            if name in self.properties:
                raise InvalidArgument(f"the lake property {name!r} is not read", hint=f"Set {variable} wherever rounds run.")
        host, port = self.properties.get(HDFS_HOST), self.properties.get(HDFS_PORT)
        return netloc or (f"{host}:{port}" if host and port else host or "")


class _HdfsFile(PyArrowFile):
    def __init__(self, location: str, path: str, filesystem: FileSystem, hdfs: Hdfs) -> None:
        super().__init__(location, path, filesystem)
        self._hdfs = hdfs

    def create(self, overwrite: bool = False) -> OutputStream:
        """The name node looks whether it is there, not a question before."""
        return self._hdfs.create(self._path, overwrite=overwrite)


class _DurableFile(PyArrowFile):
    def __init__(self, location: str, path: str, filesystem: FileSystem) -> None:
        super().__init__(location, path, filesystem)
        self.path = Path(path)

    def create(self, overwrite: bool = False) -> OutputStream:
        make_folders_like_their_parent(self.path.parent)
        return _SyncedWriter(self.path, overwrite)


class _SyncedWriter(io.BufferedWriter):
    def __init__(self, path: Path, overwrite: bool) -> None:
        super().__init__(io.FileIO(open_like_folder(path, overwrite=overwrite), "w"), BUFFER_BYTES)
        self._folder = path.parent

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
        finally:  # else it stays open, and is flushed and synced again whenever it is collected as garbage
            super().close()
        sync_folder(self._folder)


class LakeFileIO(DurableFileIO):
    """Opens, writes and deletes files in `places`, and syncs local ones. Raises ForbiddenLocation for all others."""

    def __init__(self, properties: Properties = EMPTY_DICT, places: AllowedLocations | None = None) -> None:
        super().__init__(storage_properties(properties))
        self.places = AllowedLocations.of(properties) if places is None else places

    def new_input(self, location: str) -> PyArrowFile:
        """As PyArrowFileIO."""
        self.places.check(location)
        return super().new_input(location)

    def new_output(self, location: str) -> PyArrowFile:
        """As DurableFileIO."""
        self.places.check(location)
        return super().new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """As PyArrowFileIO."""
        self.places.check(location if isinstance(location, str) else location.location)
        super().delete(location)


def io_of(table: Table) -> LakeFileIO:
    """The file access of a table that a catalog of `catalogs.opening` loaded. Raises TypeError for another's."""
    if not isinstance(table.io, LakeFileIO):
        raise TypeError(f"the table {table.name()} was not loaded by a catalog of Lakeward's")
    return table.io


def locations_of(table_location: str, properties: Mapping[str, str]) -> LocationProvider:
    """Where new files of a table go: always under its own location, whatever its properties say."""
    own = allowed_properties(properties)
    if own.get(TableProperties.OBJECT_STORE_ENABLED, "").lower() == "true":
        spread = {name: own[name] for name in (TableProperties.WRITE_OBJECT_STORE_PARTITIONED_PATHS,) if name in own}
        return ObjectStoreLocationProvider(table_location.rstrip("/"), spread)
    return SimpleLocationProvider(table_location.rstrip("/"), {})
