"""File access for lakes on a local disk: a file is on the disk before its writer goes on.

The catalog's database syncs what it commits, pyiceberg's files do not: after a power cut a committed snapshot could
name files that are empty. Object stores need nothing of the kind. Who may read a file is who may read its folder, whatever the
umask of the process that writes it, an executor's among them.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from urllib.parse import urlparse

from pyarrow.fs import FileSystem
from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from tiering.files.durable_files import sync_folder
from tiering.files.private_files import make_folders_like_their_parent, open_like_folder

CLASS_NAME = "tiering.lake.iceberg.catalogs.durable_io.DurableFileIO"
"""What the catalog property `py-io-impl` names."""

BUFFER_BYTES = 1 << 20


def is_location(warehouse: str) -> bool:
    """Whether a warehouse is a path or a URI; to some catalogs it is a mere name."""
    return warehouse.startswith("/") or "://" in warehouse


def is_local(location: str) -> bool:
    """Whether a location is a path of this machine."""
    return urlparse(location).scheme in ("", "file")


class DurableFileIO(PyArrowFileIO):
    """PyArrow's file access, but for local files that are written."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)

    def new_output(self, location: str) -> PyArrowFile:
        """As PyArrowFileIO; a local file and its name are synced when it is closed."""
        if not is_local(location):
            return super().new_output(location)
        scheme, netloc, path = self.parse_location(location, self.properties)
        return _DurableFile(location, path, self.fs_by_scheme(scheme, netloc))


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
        self.flush()
        os.fsync(self.fileno())
        super().close()
        sync_folder(self._folder)
