"""How pypaimon reads and writes manifests in S3: by the same file system as all else, with our keys and time-outs."""

from __future__ import annotations

from typing import Any

from pyarrow.fs import FileInfo, FileSystem, FileType
from pypaimon.common.file_io import FileIO


class ManifestAccess(FileIO):  # type: ignore[misc]
    """pypaimon's `FileIO`, as far as its readers and writers of manifests use it."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files

    def new_input_stream(self, path: str) -> Any:
        return self._files.open_input_file(_path(path))

    def new_output_stream(self, path: str) -> Any:
        return self._files.open_output_stream(_path(path))

    def get_file_status(self, path: str) -> FileInfo:
        """Raises FileNotFoundError."""
        info = self._files.get_file_info(_path(path))
        if info.type is FileType.NotFound:
            raise FileNotFoundError(path)
        return info

    def exists(self, path: str) -> bool:
        return self._files.get_file_info(_path(path)).type is not FileType.NotFound

    def delete(self, path: str, recursive: bool = False) -> bool:
        """Deletes a file; folders are not for manifests."""
        if recursive or not self.exists(path):
            return False
        self._files.delete_file(_path(path))
        return True

    def list_status(self, path: str) -> Any:
        raise NotImplementedError("manifests are never listed")

    def mkdirs(self, path: str) -> bool:
        raise NotImplementedError("a store has no folders")

    def rename(self, src: str, dst: str) -> bool:
        raise NotImplementedError("a manifest is never renamed")


def _path(location: str) -> str:
    return location.partition("://")[2] or location
