"""A Paimon warehouse in a folder of this machine.

A table's folder stays open while it is used: reads and links through it affect that table, even if its name changes.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from tiering.files.durable_files import set_mode, sync_folder
from tiering.files.private_files import make_folders_like_their_parent, open_like_folder
from tiering.lake.maintenance import StoredFile
from tiering.lake.paimon.storage.base import numbered


@dataclass(frozen=True)
class LocalStorage:
    """Implements `Storage` for a folder of this machine."""

    is_local = True

    def location(self, path: PurePath) -> str:
        return str(path)

    def path_of(self, location: str) -> Path:
        return Path(location)

    def check_commits(self, warehouse: PurePath) -> None:
        """Does nothing, because a link never replaces a file."""

    @contextmanager
    def opened_table(self, root: PurePath) -> Iterator[LocalTableFolder | None]:
        try:
            descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        try:
            yield LocalTableFolder(Path(root), descriptor)
        finally:
            os.close(descriptor)

    def folders_in(self, folder: PurePath) -> list[str]:
        path = Path(folder)
        return [entry.name for entry in path.iterdir() if entry.is_dir()] if path.exists() else []

    def make_folder(self, folder: PurePath) -> None:
        make_folders_like_their_parent(Path(folder))

    def create_file(self, path: PurePath) -> Any:
        return os.fdopen(open_like_folder(Path(path), overwrite=False), "wb")

    def sync_file(self, stream: Any) -> None:
        stream.flush()
        os.fsync(stream.fileno())

    def sync_written(self, path: PurePath) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_folder(self, folder: PurePath) -> None:
        sync_folder(Path(folder))

    @contextmanager
    def opened_file(self, path: PurePath) -> Iterator[Any]:
        yield path

    def read(self, path: PurePath) -> bytes:
        return Path(path).read_bytes()

    def sizes(self, paths: Sequence[PurePath]) -> list[int | None]:
        return [_size(Path(path)) for path in paths]

    def delete(self, path: PurePath) -> None:
        Path(path).unlink(missing_ok=True)

    def files_below(self, folder: PurePath) -> Iterator[StoredFile]:
        """Yields all files below `folder`. Symbolic links are not followed."""
        if not Path(folder).is_dir():
            return
        for path in sorted(Path(folder).rglob("*")):
            with suppress(FileNotFoundError):  # the file was removed in the meantime
                if path.is_file() and not path.is_symlink():
                    status = path.stat()
                    yield StoredFile(str(path), path.name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def manifest_access(self) -> Any:
        return None


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


LOCAL = LocalStorage()


class LocalTableFolder:
    """Implements `TableFolder` for a folder of this machine."""

    def __init__(self, root: Path, descriptor: int) -> None:
        self.root = root
        self._descriptor = descriptor

    def is_in_place(self) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.root))
        return False

    def numbers(self, folder: str) -> list[int]:
        return numbered(self.names(folder))

    def names(self, folder: str) -> list[str]:
        try:
            with self._opened(folder) as descriptor:
                return os.listdir(descriptor)
        except FileNotFoundError:
            return []

    def stamp(self, path: str) -> tuple[int, int, int] | None:
        try:
            status = os.stat(path, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self, path: str) -> bytes | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def read_ahead(self, paths: Iterable[str]) -> None:
        """Does nothing: each file is read when it is requested."""

    def create(self, folder: str, name: str, content: bytes) -> None:
        """Creates a file by a link. The link is the one moment at which the file appears, and fails in a removed folder."""
        temporary = f"{folder}/.lakeward-{uuid.uuid4()}.tmp"
        self._write(temporary, content)
        try:
            os.link(temporary, f"{folder}/{name}", src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            with self._opened(folder) as descriptor:
                os.fsync(descriptor)
        finally:
            self._remove(temporary)

    def replace(self, folder: str, name: str, content: bytes) -> None:
        temporary = f"{folder}/.lakeward-{uuid.uuid4()}.tmp"
        self._write(temporary, content)
        try:
            os.rename(temporary, f"{folder}/{name}", src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError:
            self._remove(temporary)
            raise

    def remove(self, folder: str, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(f"{folder}/{name}", dir_fd=self._descriptor)

    def make(self, folder: str) -> None:
        try:
            os.mkdir(folder, dir_fd=self._descriptor)
        except FileExistsError:
            return
        with self._opened(folder) as descriptor:
            set_mode(descriptor, self._rights())
        os.fsync(self._descriptor)

    def _rights(self) -> int:
        return stat.S_IMODE(os.fstat(self._descriptor).st_mode)

    def _write(self, path: str, content: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)
        with os.fdopen(descriptor, "wb") as file:
            set_mode(descriptor, self._rights() & 0o666)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def _opened(self, folder: str) -> Iterator[int]:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _remove(self, path: str) -> None:
        with suppress(OSError):
            os.unlink(path, dir_fd=self._descriptor)
