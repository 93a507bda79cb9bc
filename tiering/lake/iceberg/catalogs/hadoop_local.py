"""The warehouse of a HadoopCatalog on a local path.

A version is a hard link to a synced file. Creating a link fails if the name exists. The link is made in the folder from which the base was
read, which is kept open. So a link never gets into the folder of a recreated table: no link can be made in the folder of a dropped one.

Iceberg's own JVM classes check whether the name is free and then rename, which on a local path replaces a name that was created in between
(Hadoop's RawLocalFileSystem). So a JVM that writes to the same table at the same moment is not fenced.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata

from tiering.files.durable_files import sync_folder
from tiering.files.private_files import make_folders_like_their_parent, open_like_folder
from tiering.lake.iceberg.catalogs.hadoop_layout import ENDING, VERSION_HINT, hint_in, no_table, versions


class LocalWarehouse:
    """A `Warehouse` in a local folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def is_folder(self, *names: str) -> bool:
        return self._root.joinpath(*names).is_dir()

    def folders(self, *names: str) -> list[str]:
        folder = self._root.joinpath(*names)
        if not folder.is_dir():
            return []
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))

    def is_table(self, database: str, name: str) -> bool:
        metadata = self._root / database / name / "metadata"
        return metadata.is_dir() and bool(versions(os.listdir(metadata)))

    def make_folder(self, *names: str) -> None:
        make_folders_like_their_parent(self._root.joinpath(*names))

    def remove_empty_folder(self, name: str) -> None:
        (self._root / name).rmdir()

    def remove_table(self, database: str, name: str) -> None:
        shutil.rmtree(self._root / database / name)
        sync_folder(self._root / database)

    @contextmanager
    def opened(self, database: str, name: str) -> Iterator[LocalTableFolder]:
        path = self._root / database / name / "metadata"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise no_table(database, name) from error
        try:
            yield LocalTableFolder(path, descriptor)
        finally:
            os.close(descriptor)


class LocalTableFolder:
    """A `TableFolder` that is kept open. Links are made in this very folder, even if its name leads elsewhere by now."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def names(self) -> list[str]:
        return os.listdir(self._descriptor)

    def location(self, name: str) -> str:
        return str(self._path / name)

    def check_in_place(self, base: TableMetadata) -> None:
        try:
            same = os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except FileNotFoundError:
            same = False
        if not same:
            raise CommitFailedException(f"The table in {self._path} was dropped")

    def publish(self, temporary: str, version: int, metadata: TableMetadata, base: TableMetadata | None) -> None:
        """Links the file, which LakeFileIO has synced, to the version's name, and syncs the folder."""
        if version in versions(self.names()):
            raise FileExistsError(self._path / f"v{version}{ENDING}")
        os.link(temporary, f"v{version}{ENDING}", src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        os.fsync(self._descriptor)
        if base is not None and version - 1 not in versions(self.names()):
            raise CommitFailedException(f"Version {version - 1} in {self._path} was cleaned up while the next one was written")

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)

    def write_hint(self, version: int) -> None:
        hint = self._hint()
        if hint is not None and hint >= version:
            return
        temporary = f"{uuid.uuid4()}-version-hint.temp"
        with suppress(OSError):
            with os.fdopen(open_like_folder(self._path / temporary, overwrite=False), "w") as file:
                file.write(str(version))
            with suppress(FileNotFoundError):  # Hadoop's checksum of a JVM's hint would not fit ours
                self.remove(f".{VERSION_HINT}.crc")
            os.rename(temporary, VERSION_HINT, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def _hint(self) -> int | None:
        try:
            return hint_in((self._path / VERSION_HINT).read_text(encoding="ascii", errors="replace"))
        except OSError:
            return None
