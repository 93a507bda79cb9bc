"""How tables lie in a HadoopCatalog's warehouse, and what the catalog asks of the file system that the warehouse is on."""

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
"""Metadata files of all writers: gzip is named before the ending, or behind it by old ones (Iceberg, HadoopTableOperations)."""


class TableFolder(Protocol):
    """The metadata folder of the table that it was opened for; never that of the next one of its name."""

    def names(self) -> Iterable[str]:
        """Of the files in it."""

    def location(self, name: str) -> str:
        """By which file access writes a file into it."""

    def check_in_place(self, base: TableMetadata) -> None:
        """Raises CommitFailedException if `base` is of a table that was dropped, and perhaps made anew."""

    def publish(self, temporary: str, version: int, metadata: TableMetadata, base: TableMetadata | None) -> None:
        """Gives a file the name of a version, whole and durable, and replaces nothing. Raises FileExistsError.

        Of versions that were cleaned up the oldest went first, so a base that is still there proves that the name was never taken.
        Without it the outcome is unknown: CommitFailedException.
        """

    def remove(self, name: str) -> None:
        """Removes a file. Raises OSError."""

    def write_hint(self, version: int) -> None:
        """Never back, and best effort: the version is committed, and readers go on from an older hint by themselves."""


class Warehouse(Protocol):
    """Folders below the warehouse, each named by its parts."""

    def is_folder(self, *names: str) -> bool:
        """Whether there is such a folder."""

    def folders(self, *names: str) -> list[str]:
        """Names of the folders in one; none if it is not there."""

    def is_table(self, database: str, name: str) -> bool:
        """Whether a folder has a version in it."""

    def make_folder(self, *names: str) -> None:
        """With those above it; one that is there is fine."""

    def remove_empty_folder(self, name: str) -> None:
        """Raises OSError if something is in it."""

    def remove_table(self, database: str, name: str) -> None:
        """The folder with all that is in it."""

    def opened(self, database: str, name: str) -> AbstractContextManager[TableFolder]:
        """A table's metadata folder. Raises NoSuchTableError if there is none."""


def version_of(name: str) -> int | None:
    """The version that a file has by its name; None for all other files."""
    match = _METADATA.fullmatch(name)
    return None if match is None else int(match["version"])


def versions(names: Iterable[str]) -> dict[int, str]:
    """File names by version. The hint is not asked: one that is behind versions that were cleaned up would lead back to them."""
    return {version: name for name in names if (version := version_of(name)) is not None}


def hint_in(content: str) -> int | None:
    """The version that a hint names; None if it is damaged."""
    text = content.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def no_table(database: str, name: str) -> NoSuchTableError:
    """What is raised for a table that is not there."""
    return NoSuchTableError(f"Table does not exist: {database}.{name}")
