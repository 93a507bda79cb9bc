"""The layout of tables in a HadoopCatalog's warehouse, and the file operations that the catalog needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.metadata import TableMetadata

VERSION_HINT = "version-hint.text"
ENDING = ".metadata.json"
_METADATA = re.compile(r"v(?P<version>[0-9]+)(?:\.gz\.metadata\.json|\.metadata\.json(?:\.gz)?)")
"""Names of metadata files by all writers. Gzip is named before the ending, or after it by old writers (HadoopTableOperations)."""


class TableFolder(Protocol):
    """The metadata folder of one table. It never becomes the folder of a later table of the same name."""

    def names(self) -> Iterable[str]:
        """Returns the names of the files in the folder."""

    def location(self, name: str) -> str:
        """Returns the location under which file access writes a file into the folder."""

    def check_in_place(self, base: TableMetadata) -> None:
        """Raises CommitFailedException if the table of `base` was dropped, or dropped and recreated."""

    def publish(self, temporary: str, version: int, metadata: TableMetadata, base: TableMetadata | None) -> None:
        """Gives a file the name of a version, complete and durable, and replaces nothing. Raises FileExistsError.

        Clean-ups remove the oldest versions first. So a base that still exists proves that no commit had the name before. Without the base
        the outcome is unknown: raises CommitFailedException.
        """

    def remove(self, name: str) -> None:
        """Removes a file. Raises OSError."""

    def write_hint(self, version: int) -> None:
        """Writes the hint, but never an older version. Best effort: the version is committed, and readers search on from an older hint."""


class Warehouse(Protocol):
    """The folders below the warehouse. Each is named by its parts."""

    def is_folder(self, *names: str) -> bool:
        """Whether the folder exists."""

    def folders(self, *names: str) -> list[str]:
        """Returns the names of the folders in a folder; an empty list if it does not exist."""

    def is_table(self, database: str, name: str) -> bool:
        """Whether the folder has a table version."""

    def make_folder(self, *names: str) -> None:
        """Creates a folder and its parents. An existing folder is no error."""

    def remove_empty_folder(self, name: str) -> None:
        """Removes an empty folder. Raises OSError if it is not empty."""

    def remove_table(self, database: str, name: str) -> None:
        """Removes the table's folder with its contents."""

    def opened(self, database: str, name: str) -> AbstractContextManager[TableFolder]:
        """Opens a table's metadata folder. Raises NoSuchTableError if there is none."""


def version_of(name: str) -> int | None:
    """Returns the version in a file's name; None for all other files."""
    match = _METADATA.fullmatch(name)
    return None if match is None else int(match["version"])


def versions(names: Iterable[str]) -> dict[int, str]:
    """Returns file names by version. The hint is not used: a hint that is behind could lead back to versions that were cleaned up."""
    return {version: name for name in names if (version := version_of(name)) is not None}


def hint_in(content: str) -> int | None:
    """Returns the version that a hint names; None if it is damaged."""
    text = content.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def no_table(database: str, name: str) -> NoSuchTableError:
    """Returns the error for a table that does not exist."""
    return NoSuchTableError(f"Table does not exist: {database}.{name}")
