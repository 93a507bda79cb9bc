"""What Paimon tables need of the storage that their warehouse is in.

A path is one of the storage's own: of a folder of this machine its path, of S3 `<bucket>/<key>`. A location is how metadata, markers and
users name it. Below a table's folder Paimon keeps `schema/schema-N`, `snapshot/snapshot-N` with the hints LATEST and EARLIEST, `manifest/`,
`consumer/`, `tag/`, and data files in `[key=value/...]bucket-N/`. No file of these is ever changed, but for hints and consumers.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import PurePath
from typing import Any, Protocol

from tiering.lake.maintenance import StoredFile

SCHEMA, SNAPSHOT, MANIFEST, CONSUMER, TAG = "schema", "snapshot", "manifest", "consumer", "tag"
_NUMBERED = re.compile(r"(?:schema|snapshot)-([0-9]{1,18})")
_NAMESPACE = uuid.UUID("5d2f1d0e-6ad6-5cf5-9f5f-5a2b3c1f7a10")


class TableFolder(Protocol):
    """A table's folder, opened: small files of its metadata, by paths relative to it. Every method may raise OSError."""

    @property
    def root(self) -> PurePath:
        """Its path."""
        ...

    def is_in_place(self) -> bool:
        """Whether its name still leads to the table that was there when it was opened."""
        ...

    def numbers(self, folder: str) -> list[int]:
        """The numbers of `schema-N` or `snapshot-N` in `folder`, sorted; none without such a folder."""
        ...

    def names(self, folder: str) -> list[str]:
        """Names in `folder`; none without such a folder."""
        ...

    def stamp(self, path: str) -> Hashable | None:
        """What tells a file from another one of that name; None if there is none."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's content; None if there is none."""
        ...

    def read_ahead(self, paths: Iterable[str]) -> None:
        """Says which files are read next, each once. A folder that is far away reads them at once."""
        ...

    def create(self, folder: str, name: str, content: bytes) -> None:
        """Makes a file that is there whole, durably, or not at all, by one request. Raises FileExistsError: nothing is ever replaced.

        After another error the file may be there, or come yet.
        """
        ...

    def replace(self, folder: str, name: str, content: bytes) -> None:
        """Writes a hint: whoever reads it sees the former one or this one."""
        ...

    def remove(self, folder: str, name: str) -> None:
        """Deletes a file. One that is gone already is fine."""
        ...

    def make(self, folder: str) -> None:
        """Makes a folder of the table's if it is missing: Paimon makes them when it needs them. Raises OSError in a dropped table."""
        ...


class Storage(Hashable, Protocol):
    """Where warehouses are. Pickles, with the keys that executors need; safe to use from several threads. Methods may raise OSError."""

    @property
    def is_local(self) -> bool:
        """Whether its paths are paths of this machine, for engines that read files alone."""
        ...

    def location(self, path: PurePath) -> str:
        """How metadata and users name `path`."""
        ...

    def path_of(self, location: str) -> PurePath:
        """The inverse. Raises ValueError for a location of another storage."""
        ...

    def check_commits(self, warehouse: PurePath) -> None:
        """Whether a file can be made here that replaces nothing, whoever else makes it. Raises InvalidArgument, naming the storage."""
        ...

    def opened_table(self, root: PurePath) -> AbstractContextManager[TableFolder | None]:
        """The folder of a table; None if there is none."""
        ...

    def folders_in(self, folder: PurePath) -> list[str]:
        """Names of the folders in `folder`; none if it is missing."""
        ...

    def make_folder(self, folder: PurePath) -> None:
        """Makes it and those above it that are missing."""
        ...

    def create_file(self, path: PurePath) -> Any:
        """A binary stream into a new file. `sync_file`, then closing it and `sync_folder` make it durable."""
        ...

    def sync_file(self, stream: Any) -> None:
        """Puts on the disk what was written to `stream`."""
        ...

    def sync_written(self, path: PurePath) -> None:
        """The same for a closed file."""
        ...

    def sync_folder(self, folder: PurePath) -> None:
        """Makes the names in `folder` durable."""
        ...

    def opened_file(self, path: PurePath) -> AbstractContextManager[Any]:
        """A file as PyArrow's readers take it. Raises FileNotFoundError."""
        ...

    def read(self, path: PurePath) -> bytes:
        """A small file's content. Raises FileNotFoundError."""
        ...

    def sizes(self, paths: Sequence[PurePath]) -> list[int | None]:
        """Of each file; None if there is none."""
        ...

    def delete(self, path: PurePath) -> None:
        """One that is gone already is fine."""
        ...

    def files_below(self, folder: PurePath) -> Iterator[StoredFile]:
        """All files in `folder` and its folders, by location."""
        ...

    def manifest_access(self) -> Any:
        """pypaimon's `FileIO` for manifests; None = pypaimon's own."""
        ...


def numbered(names: Iterable[str]) -> list[int]:
    """The numbers of names like `schema-N` or `snapshot-N`, sorted."""
    return sorted(int(match[1]) for name in names if (match := _NUMBERED.fullmatch(name)))


def table_uuid(folder: TableFolder) -> str | None:
    """The table's identity, made from its first schema file, which nobody changes or expires; None if there is no table.

    A catalog that is a mere folder gives tables no uuid. The file says when the table was made, in milliseconds.
    """
    numbers = folder.numbers(SCHEMA)
    content = folder.read(f"{SCHEMA}/schema-{numbers[0]}") if numbers else None
    return None if content is None else str(uuid.uuid5(_NAMESPACE, content.decode("utf-8", "replace")))
