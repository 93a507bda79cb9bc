"""The interface between Paimon tables and the storage of their warehouse.

A path belongs to its storage: it is a path on this machine, or `<bucket>/<key>` in S3. A location is the form in which metadata, markers
and users name a file. Below a table's folder Paimon keeps `schema/schema-N`, `snapshot/snapshot-N` with the hints LATEST and EARLIEST,
`manifest/`, `consumer/`, `tag/`, and data files in `[key=value/...]bucket-N/`. None of these files is ever changed, except for hints and
consumers.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import PurePath
from typing import Any, Protocol

from tiering.lake.maintenance import StoredFile

SCHEMA, SNAPSHOT, MANIFEST, CONSUMER, TAG = "schema", "snapshot", "manifest", "consumer", "tag"
_NUMBERED = re.compile(r"(?:schema|snapshot)-([0-9]{1,18})")
_NAMESPACE = uuid.UUID("5d2f1d0e-6ad6-5cf5-9f5f-5a2b3c1f7a10")


class TableFolder(Protocol):
    """An opened table folder, for small metadata files by paths relative to it. Every method may raise OSError."""

    @property
    def root(self) -> PurePath:
        """Returns the folder's path."""

    def is_in_place(self) -> bool:
        """Returns whether the folder's name still leads to the table that it named when the folder was opened."""

    def numbers(self, folder: str) -> list[int]:
        """Returns the numbers of `schema-N` or `snapshot-N` in `folder`, sorted; none without such a folder."""

    def names(self, folder: str) -> list[str]:
        """Returns the names in `folder`; none without such a folder."""

    def stamp(self, path: str) -> Hashable | None:
        """Returns a value that distinguishes a file from another one with its name; None if the file does not exist."""

    def read(self, path: str) -> bytes | None:
        """Returns a file's content; None if it does not exist."""

    def read_ahead(self, paths: Iterable[str]) -> None:
        """Announces the files that are read next, each once. A remote folder reads them concurrently."""

    def create(self, folder: str, name: str, content: bytes) -> None:
        """Creates a file completely and durably, or not at all, with one request. Raises FileExistsError: a file is never replaced.

        After another error the file may exist, or may appear later.
        """

    def replace(self, folder: str, name: str, content: bytes) -> None:
        """Writes a hint atomically: a reader sees the former content or the new one."""

    def remove(self, folder: str, name: str) -> None:
        """Deletes a file; does nothing if it does not exist."""

    def make(self, folder: str) -> None:
        """Creates a folder of the table if it is missing, because Paimon creates them only when needed. Raises OSError in a dropped
        table.
        """


class Storage(Hashable, Protocol):
    """A storage of warehouses. It can be pickled, with the keys that executors need, and is safe to use from several threads. Methods may
    raise OSError.
    """

    @property
    def is_local(self) -> bool:
        """Returns whether its paths are paths of this machine, for engines that read only local files."""

    def location(self, path: PurePath) -> str:
        """Returns the form in which metadata and users name `path`."""

    def path_of(self, location: str) -> PurePath:
        """Returns the path of a location. Raises ValueError for a location of another storage."""

    def check_commits(self, warehouse: PurePath) -> None:
        """Raises InvalidArgument, naming the storage, if it cannot create a file without replacing one that another process creates."""

    def opened_table(self, root: PurePath) -> AbstractContextManager[TableFolder | None]:
        """Opens the folder of a table; yields None if it does not exist."""

    def folders_in(self, folder: PurePath) -> list[str]:
        """Returns the names of the folders in `folder`; none if it is missing."""

    def make_folder(self, folder: PurePath) -> None:
        """Creates the folder and its missing parents."""

    def create_file(self, path: PurePath) -> Any:
        """Opens a binary stream to a new file. `sync_file`, then closing it and `sync_folder` make it durable."""

    def sync_file(self, stream: Any) -> None:
        """Writes the data of `stream` to the disk."""

    def sync_written(self, path: PurePath) -> None:
        """Writes the data of a closed file to the disk."""

    def sync_folder(self, folder: PurePath) -> None:
        """Makes the names in `folder` durable."""

    def opened_file(self, path: PurePath) -> AbstractContextManager[Any]:
        """Opens a file for PyArrow's readers. Raises FileNotFoundError."""

    def read(self, path: PurePath) -> bytes:
        """Returns a small file's content. Raises FileNotFoundError."""

    def sizes(self, paths: Sequence[PurePath]) -> list[int | None]:
        """Returns the size of each file in bytes; None for a file that does not exist."""

    def delete(self, path: PurePath) -> None:
        """Deletes a file; does nothing if it does not exist."""

    def files_below(self, folder: PurePath) -> Iterator[StoredFile]:
        """Yields all files in `folder` and its subfolders, by location."""

    def manifest_access(self) -> Any:
        """Returns the `FileIO` with which pypaimon accesses manifests; None = pypaimon's own."""


def discard(storage: Storage, paths: Iterable[PurePath]) -> None:
    """Deletes files that no snapshot names. Never raises: files that cannot be deleted are left to the sweep."""
    for path in paths:
        with suppress(Exception):
            storage.delete(path)


def numbered(names: Iterable[str]) -> list[int]:
    """Returns the numbers of names like `schema-N` or `snapshot-N`, sorted."""
    return sorted(int(match[1]) for name in names if (match := _NUMBERED.fullmatch(name)))


def table_uuid(folder: TableFolder) -> str | None:
    """Returns the table's identity, derived from its first schema file, which never changes or expires; None if the table does not exist.

    A catalog that is only a folder gives tables no uuid. The schema file contains the table's creation time in milliseconds.
    """
    numbers = folder.numbers(SCHEMA)
    content = folder.read(f"{SCHEMA}/schema-{numbers[0]}") if numbers else None
    return None if content is None else str(uuid.uuid5(_NAMESPACE, content.decode("utf-8", "replace")))
