"""The warehouse of a HadoopCatalog on HDFS.

A version is a closed file that gets its name by a rename. On HDFS a rename is atomic, and it fails if the name exists, when it is requested
as here and by Iceberg's own JVM classes. So of all commits of one version only one succeeds, also beside a JVM, and no reader sees a part
of a version.

If the answer of a rename was lost, the client sends it again and then gets an error because of its own first effect. The temporary file,
whose name no other process knows, decides: if this process can delete it, the rename did not happen and never will. If it is gone, the
content of the version tells who wrote it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table.metadata import TableMetadata

from tiering.files.hdfs import Hdfs
from tiering.lake.iceberg.catalogs.hadoop_layout import ENDING, VERSION_HINT, hint_in, no_table, versions

ReadMetadata = Callable[[str], TableMetadata]
"""Reads the metadata file at a location. Raises OSError."""


class HdfsWarehouse:
    """A `Warehouse` in a folder of HDFS. Its location is `prefix`, the scheme with the host, followed by `root`, the path."""

    def __init__(self, hdfs: Hdfs, prefix: str, root: str, read: ReadMetadata) -> None:
        self._hdfs, self._prefix, self._root, self._read = hdfs, prefix, root.rstrip("/"), read

    def is_folder(self, *names: str) -> bool:
        status = self._hdfs.status(self._path(*names))
        return status is not None and status.isdir

    def folders(self, *names: str) -> list[str]:
        try:
            entries = self._hdfs.list(self._path(*names))
        except FileNotFoundError:
            return []
        return sorted(name for status in entries if status.isdir and not (name := _base_name(status.path)).startswith("."))

    def is_table(self, database: str, name: str) -> bool:
        try:
            return bool(versions(_base_name(status.path) for status in self._hdfs.list(self._path(database, name, "metadata"))))
        except FileNotFoundError:
            return False

    def make_folder(self, *names: str) -> None:
        self._hdfs.make_folder(self._path(*names))

    def remove_empty_folder(self, name: str) -> None:
        self._hdfs.delete(self._path(name))

    def remove_table(self, database: str, name: str) -> None:
        self._hdfs.delete(self._path(database, name), recursive=True)

    @contextmanager
    def opened(self, database: str, name: str) -> Iterator[HdfsTableFolder]:
        path = self._path(database, name, "metadata")
        if not self.is_folder(database, name, "metadata"):
            raise no_table(database, name)
        yield HdfsTableFolder(self._hdfs, self._prefix, path, self._read)

    def _path(self, *names: str) -> str:
        return "/".join((self._root, *names)) or "/"


class HdfsTableFolder:
    """A `TableFolder` by its path. HDFS keeps no folder open: if it is deleted, its files are gone too, and no rename succeeds."""

    def __init__(self, hdfs: Hdfs, prefix: str, path: str, read: ReadMetadata) -> None:
        self._hdfs, self._prefix, self._path, self._read = hdfs, prefix, path, read

    def names(self) -> list[str]:
        try:
            return [_base_name(status.path) for status in self._hdfs.list(self._path)]
        except FileNotFoundError:
            return []

    def location(self, name: str) -> str:
        return f"{self._prefix}{self._path}/{name}"

    def check_in_place(self, base: TableMetadata) -> None:
        """Does nothing: `publish` checks it at the right moment."""

    def publish(self, temporary: str, version: int, metadata: TableMetadata, base: TableMetadata | None) -> None:
        existing = versions(self.names())
        if version in existing:
            raise FileExistsError(f"{self._path}/v{version}{ENDING}")
        if base is not None:
            # The temporary file is in the folder already. If the folder has the base now, and the file can be renamed in it afterwards, the
            # folder was the base's at all times.
            self._check_base(existing.get(version - 1), base)
        final = f"v{version}{ENDING}"
        try:
            self._hdfs.rename(f"{self._path}/{temporary}", f"{self._path}/{final}")
        except OSError as error:
            self._settle(temporary, final, metadata, error)
        if base is not None and version - 1 not in versions(self.names()):
            raise CommitFailedException(f"Version {version - 1} in {self._path} was cleaned up while the next one was written")

    def remove(self, name: str) -> None:
        self._hdfs.delete(f"{self._path}/{name}")

    def write_hint(self, version: int) -> None:
        """Writes the hint in two steps, as Iceberg's own classes do. In between there is no hint, and readers search the newest version."""
        temporary = f"{self._path}/{uuid.uuid4()}-version-hint.temp"
        with suppress(OSError):
            hint = self._hint()
            if hint is not None and hint >= version:
                return
            with self._hdfs.create(temporary, overwrite=False) as file:
                file.write(str(version).encode())
            self._hdfs.delete(f"{self._path}/{VERSION_HINT}")
            self._hdfs.rename(temporary, f"{self._path}/{VERSION_HINT}")
            return
        with suppress(OSError):
            self._hdfs.delete(temporary)

    def _check_base(self, name: str | None, base: TableMetadata) -> None:
        if name is None or self._read(self.location(name)).table_uuid != base.table_uuid:
            raise CommitFailedException(f"The table in {self._path} was dropped")

    def _settle(self, temporary: str, final: str, metadata: TableMetadata, error: OSError) -> None:
        """Returns if the rename had its effect. Raises `error` if it had none, or CommitStateUnknownException."""
        try:
            if self._hdfs.delete(f"{self._path}/{temporary}"):
                raise error
            if final in self.names() and self._read(self.location(final)) == metadata:
                return
        except OSError as later:
            if later is error:
                raise
            raise CommitStateUnknownException(f"It is unknown whether {self._path}/{final} was committed: {later}") from error
        raise CommitStateUnknownException(f"It is unknown whether {self._path}/{final} was committed: {error}") from error

    def _hint(self) -> int | None:
        try:
            return hint_in(self._hdfs.open(f"{self._path}/{VERSION_HINT}").read().decode("ascii", "replace"))
        except OSError:
            return None


def _base_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
