"""Lets pypaimon read and write manifests in S3 through Lakeward's file system, with its keys and timeouts."""

from __future__ import annotations

from typing import Any

from pyarrow.fs import FileInfo, FileSystem, FileType
from pypaimon.common.file_io import FileIO


class ManifestAccess(FileIO):  # type: ignore[misc]
    """The part of pypaimon's `FileIO` that its manifest readers and writers use."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files

    def new_input_stream(self, path: str) -> Any:
        return self._files.open_input_file(_path(path))

    def new_output_stream(self, path: str) -> Any:
        return self._files.open_output_stream(_path(path))

    def get_file_status(self, path: str) -> FileInfo:
        """Returns the status of a file. Raises FileNotFoundError."""
        info = self._files.get_file_info(_path(path))
        if info.type is FileType.NotFound:
            raise FileNotFoundError(path)
        return info

    def exists(self, path: str) -> bool:
        return self._files.get_file_info(_path(path)).type is not FileType.NotFound

    def delete(self, path: str, recursive: bool = False) -> bool:
        """Deletes a file. Folders are not supported, because manifests need none."""
        if recursive or not self.exists(path):
            return False
        self._files.delete_file(_path(path))
        return True

    def list_status(self, path: str) -> Any:
        raise NotImplementedError("manifests are never listed")

    def mkdirs(self, path: str) -> bool:
        raise NotImplementedError("an object store has no folders")

    def rename(self, src: str, dst: str) -> bool:
        raise NotImplementedError("a manifest is never renamed")


def _path(location: str) -> str:
    return location.partition("://")[2] or location
