"""A Paimon table's folder on a local file system, held open: what is read and linked through it is that table's, whatever becomes of
its name.

Paimon keeps `schema/schema-N`, `snapshot/snapshot-N` with the hints LATEST and EARLIEST, `manifest/`, `consumer/`, and data files in
`[key=value/...]bucket-N/`. No file of these is ever changed.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tiering.files.durable_files import set_mode

SCHEMA, SNAPSHOT, MANIFEST, CONSUMER, TAG = "schema", "snapshot", "manifest", "consumer", "tag"
_NUMBERED = re.compile(r"(?:schema|snapshot)-([0-9]{1,18})")
_NAMESPACE = uuid.UUID("5d2f1d0e-6ad6-5cf5-9f5f-5a2b3c1f7a10")


class TableFolder:
    """An open folder; paths are relative to it."""

    def __init__(self, root: Path, descriptor: int) -> None:
        self.root = root
        self._descriptor = descriptor

    @staticmethod
    @contextmanager
    def opened(root: Path) -> Iterator[TableFolder | None]:
        """None if there is no such folder."""
        try:
            descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        try:
            yield TableFolder(root, descriptor)
        finally:
            os.close(descriptor)

    def is_in_place(self) -> bool:
        """Whether the folder still has its name."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.root))
        return False

    def numbers(self, folder: str) -> list[int]:
        """The numbers of `schema-N` or `snapshot-N` in `folder`, sorted; none without such a folder."""
        return sorted(int(match[1]) for name in self.names(folder) if (match := _NUMBERED.fullmatch(name)))

    def names(self, folder: str) -> list[str]:
        """Names in `folder`; none without such a folder."""
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        except FileNotFoundError:
            return []
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def stamp(self, path: str) -> tuple[int, int, int] | None:
        """What tells a file from another one of that name; None if there is none."""
        try:
            status = os.stat(path, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self, path: str) -> bytes | None:
        """A file's content; None if there is none."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def create(self, folder: str, name: str, content: bytes) -> None:
        """Makes a file that is there whole, durably, or not at all. Raises FileExistsError: nothing is ever replaced.

        The link is the one moment at which it comes to be, and fails in a folder that was removed.
        """
        temporary = f"{folder}/.lakeward-{uuid.uuid4()}.tmp"
        self._write(temporary, content)
        try:
            os.link(temporary, f"{folder}/{name}", src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            self._sync(folder)
        finally:
            self._remove(temporary)

    def replace(self, folder: str, name: str, content: bytes) -> None:
        """Writes a hint: whoever reads it sees the former one or this one. Raises OSError."""
        temporary = f"{folder}/.lakeward-{uuid.uuid4()}.tmp"
        self._write(temporary, content)
        try:
            os.rename(temporary, f"{folder}/{name}", src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError:
            self._remove(temporary)
            raise

    def make(self, folder: str) -> None:
        """Makes a folder of the table's if it is missing: Paimon makes them when it needs them. Raises OSError in a dropped table."""
        try:
            os.mkdir(folder, dir_fd=self._descriptor)
        except FileExistsError:
            return
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            set_mode(descriptor, self._rights())
        finally:
            os.close(descriptor)
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

    def _sync(self, folder: str) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _remove(self, path: str) -> None:
        with suppress(OSError):
            os.unlink(path, dir_fd=self._descriptor)


def table_uuid(folder: TableFolder) -> str | None:
    """The table's identity, made from its first schema file, which nobody changes or expires; None if there is no table.

    A catalog that is a mere folder gives tables no uuid. The file says when the table was made, in milliseconds.
    """
    numbers = folder.numbers(SCHEMA)
    content = folder.read(f"{SCHEMA}/schema-{numbers[0]}") if numbers else None
    return None if content is None else str(uuid.uuid5(_NAMESPACE, content.decode("utf-8", "replace")))
