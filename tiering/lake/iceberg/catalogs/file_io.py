"""File access for lakes: only to allowed places, and synced to disk before a writer continues.

It is made only from the catalog's own properties. No table's properties reach it, and it opens no file outside of `places`.

The catalog's database syncs what it commits, but pyiceberg does not sync files: after a power cut, a committed snapshot could name empty
files. So local files and their names are synced. Object stores need no sync, and HDFS keeps a closed file by its own guarantee.
A file has the read permissions of its folder, whatever the umask of the writing process is, for example an executor.
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
from tiering.lake.iceberg_options import allowed_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table

CLASS_NAME = "tiering.lake.iceberg.catalogs.file_io.LakeFileIO"
"""Value of the catalog property `py-io-impl`, so that pyiceberg uses this class wherever it opens files itself."""

BUFFER_BYTES = 1 << 20
HDFS = "hdfs"
_OF_THE_ENVIRONMENT = {HDFS_USER: "HADOOP_USER_NAME", HDFS_KERB_TICKET: "KRB5CCNAME"}
"""Properties of PyArrow's file system for which hdfs-native reads only environment variables."""


class _HdfsFile(PyArrowFile):
    def __init__(self, location: str, path: str, filesystem: FileSystem, hdfs: Hdfs) -> None:
        super().__init__(location, path, filesystem)
        self._hdfs = hdfs

    def create(self, overwrite: bool = False) -> OutputStream:
        """Creates the file. The name node itself checks that it does not exist, without an earlier request."""
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
        finally:  # otherwise garbage collection would flush and sync it again
            super().close()
        sync_folder(self._folder)


class LakeFileIO(PyArrowFileIO):
    """Opens, writes and deletes files in `places`, and syncs local ones. Raises ForbiddenLocation for all other files."""

    def __init__(self, properties: Properties = EMPTY_DICT, places: AllowedLocations | None = None) -> None:
        super().__init__(storage_properties(properties))
        self.places = AllowedLocations.of(properties) if places is None else places

    def new_input(self, location: str) -> PyArrowFile:
        """Returns a file to read. Raises ForbiddenLocation."""
        self.places.check(location)
        return super().new_input(location)

    def new_output(self, location: str) -> PyArrowFile:
        """Returns a file to write. A local file and its name are synced when it is closed. Raises ForbiddenLocation."""
        self.places.check(location)
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme == HDFS:
            return _HdfsFile(location, path, self.fs_by_scheme(scheme, netloc), open_hdfs(self._authority(netloc)))
        if not is_local(location):
            return super().new_output(location)
        return _DurableFile(location, path, self.fs_by_scheme(scheme, netloc))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Deletes a file. Raises ForbiddenLocation."""
        self.places.check(location if isinstance(location, str) else location.location)
        super().delete(location)

    def _initialize_hdfs_fs(self, scheme: str, netloc: str | None) -> FileSystem:
        """Returns the file system of `hdfs://`, without libhdfs and with time-outs. Raises SetupError, InvalidArgument."""
        return hdfs_file_system(self._authority(netloc)) if scheme == HDFS else super()._initialize_hdfs_fs(scheme, netloc)

    def _authority(self, netloc: str | None) -> str:
        for name, variable in _OF_THE_ENVIRONMENT.items():
            if name in self.properties:
                raise InvalidArgument(
                    f"the lake property {name!r} is not used", hint=f"Set the environment variable {variable} wherever rounds run."
                )
        host, port = self.properties.get(HDFS_HOST), self.properties.get(HDFS_PORT)
        return netloc or (f"{host}:{port}" if host and port else host or "")


def io_of(table: Table) -> LakeFileIO:
    """Returns the file access of a table that a catalog of `catalogs.opening` loaded. Raises TypeError for any other table."""
    if not isinstance(table.io, LakeFileIO):
        raise TypeError(f"the table {table.name()} was not loaded by one of Lakeward's catalogs")
    return table.io


def locations_of(table_location: str, properties: Mapping[str, str]) -> LocationProvider:
    """Returns the provider of locations for a table's new files. They are always below its own location, whatever its properties say."""
    own = allowed_properties(properties)
    if own.get(TableProperties.OBJECT_STORE_ENABLED, "").lower() == "true":
        spread = {name: own[name] for name in (TableProperties.WRITE_OBJECT_STORE_PARTITIONED_PATHS,) if name in own}
        return ObjectStoreLocationProvider(table_location.rstrip("/"), spread)
    return SimpleLocationProvider(table_location.rstrip("/"), {})
