"""The data folder of a coordinator (DESIGN 12): `VERSION, coordinator.db, proof-key.pem, cluster/, lake/,
lake-catalog.db, logs/`.

Another user may have prepared it: it must not have links that lead out of it, or a special file as VERSION.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tiering.errors import SetupError
from tiering.files.durable_files import make_folder
from tiering.files.private_files import make_private
from tiering.files.sqlite_files import read_only_url
from tiering.lake.registry import LAKE_CATALOG_FILE, local_lake_properties

FORMAT_VERSION = "1"
IGNORED_NAMES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", "lost+found"})
"""Files that file managers and file systems create. A folder with only such files counts as empty."""
PARTS = ("cluster", "lake", "logs")
VERSION_BYTES = 100
_INSIDE = ("cluster/log", "cluster/kv", "cluster/kv-snapshots")
_LINKED_PARTS = (".", "cluster", *_INSIDE)


@dataclass(frozen=True)
class DataFolder:
    """The paths in a data folder, which are absolute. `open_data_folder` creates it."""

    root: Path

    @property
    def store_file(self) -> Path:
        return self.root / "coordinator.db"

    @property
    def restoring_file(self) -> Path:
        """A complete store that `lakeward state restore` is moving to `store_file`."""
        return self.root / "coordinator.db.restoring"

    @property
    def store_url(self) -> str:
        from tiering.coordinator.memory.sql_store import sqlite_url  # commands that do not use the store do not need it

        return sqlite_url(self.store_file)

    @property
    def cluster(self) -> Path:
        return self.root / "cluster"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def key_file(self) -> Path:
        """The private key with which the service signs proofs."""
        return self.root / "proof-key.pem"

    @property
    def lake_properties(self) -> dict[str, str]:
        """Properties of the default lake for pyiceberg's `load_catalog`: a SQL catalog in SQLite, and a folder."""
        return local_lake_properties(self.root)

    @property
    def lake_catalog_file(self) -> Path:
        """The SQLite file with the catalog of the default lake."""
        return self.root / LAKE_CATALOG_FILE

    @property
    def has_lake_catalog(self) -> bool:
        """Whether the catalog of the default lake exists. A service creates it at the latest with the first lake table."""
        return self.lake_catalog_file.exists()

    @property
    def read_only_lake_properties(self) -> dict[str, str]:
        """Properties of the default lake for readers, which do not create a missing catalog."""
        return {**self.lake_properties, "uri": read_only_url(self.lake_catalog_file)}


def read_data_folder(path: Path) -> DataFolder:
    """Returns an existing data folder, without a change to it. Raises SetupError for another folder or another version."""
    root = path.expanduser().resolve()
    try:
        version = _read_version(root / "VERSION")
    except OSError as error:
        raise SetupError(
            f"{root} is not a Lakeward data folder: {error.strerror or error}", hint="Name a data folder with --data."
        ) from error
    _check_version(root, version)
    _check_links(root, of_others=True)
    return DataFolder(root)


def open_data_folder(path: Path) -> DataFolder:
    """Returns the data folder. Creates it if it is missing, and makes it accessible only to its owner.

    Raises SetupError for a folder that cannot be written, or that belongs to another user, program or version.
    """
    root = path.expanduser().resolve()
    try:
        make_folder(root, mode=0o700)
        check_version(root)
        make_private([root])
        version = root / "VERSION"
        if not version.exists():
            version.write_text(FORMAT_VERSION + "\n")
        for name in PARTS:
            make_folder(root / name, mode=0o700)
            make_private([root / name])  # the part may be a link to another disk
            probe = root / name / ".writable"
            probe.touch()
            probe.unlink()
        _check_links(root, of_others=False)
    except OSError as error:
        raise SetupError(
            f"cannot write to the data folder {root}: {error.strerror or error}",
            hint="Name with --data a folder that this user can write to.",
        ) from error
    return DataFolder(root)


def create_default_catalog(file: Path, properties: Mapping[str, str]) -> None:
    """Creates the tables of the default lake's catalog, so that other programs can open the catalog before the first round.

    Without this, the first write to the lake would create them. An existing `file` is left as it is. Raises the errors of pyiceberg.
    """
    if not file.exists() or file.stat().st_size == 0:
        from tiering.lake.iceberg.catalogs.opening import (
            open_catalog,  # imports pyiceberg, which only the first start of a folder needs here
        )

        open_catalog(properties)


def check_restore_ended(folder: DataFolder) -> None:
    """Raises SetupError if a restore died after it moved the former store aside: a start would then create an empty store."""
    if folder.restoring_file.exists() and not folder.store_file.exists():
        raise SetupError(
            f"a restore of the state store in {folder.root} was interrupted: it moved {folder.store_file.name} aside, and did not put the "
            "backup into its place",
            hint=f"Run the same `lakeward state restore FILE --data {folder.root}` again.",
        )


def check_version(root: Path) -> None:
    """Raises SetupError if the folder belongs to another program or another version. An empty folder is accepted."""
    version = root / "VERSION"
    if not version.exists():
        if any(entry.name not in IGNORED_NAMES for entry in root.iterdir()):
            raise SetupError(f"{root} contains other files and no VERSION: it is not a Lakeward data folder", hint="Name an empty folder.")
        return
    _check_version(root, _read_version(version))


def _check_version(root: Path, version: str) -> None:
    if version != FORMAT_VERSION:
        raise SetupError(
            f"the data folder {root} has format version {version}; this version of Lakeward reads version {FORMAT_VERSION}",
            hint="Use the version of Lakeward that wrote it, or name another folder.",
        )


def _read_version(file: Path) -> str:
    """Returns the beginning of a VERSION file. Raises OSError, and SetupError for a pipe or device, which might never end."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SetupError(f"{file} is not a regular file", hint="Name a data folder that Lakeward created.")
        content = os.read(descriptor, VERSION_BYTES).decode("ascii", errors="replace").strip()
    finally:
        os.close(descriptor)
    return content if content.isprintable() else repr(content)


def _check_links(root: Path, *, of_others: bool) -> None:
    """Raises SetupError for a link in the folder that leads out of it.

    With `of_others`, this includes links in the place of parts such as `lake`, with which operators put a part on another disk.
    """
    real = os.path.realpath(root)
    for link in _links(root, _LINKED_PARTS if of_others else _INSIDE):
        target = os.path.realpath(link)
        if target != real and not target.startswith(f"{real}/"):
            raise SetupError(
                f"{link} is a link to {target}, outside of the data folder",
                hint="Nothing was read. If you trust the link, move the files into the folder, or mount their disk there.",
            )


def _links(root: Path, parts: tuple[str, ...]) -> Iterator[Path]:
    for part in parts:
        folder = root / part
        if folder.is_dir():
            with os.scandir(folder) as entries:
                yield from (Path(entry.path) for entry in entries if entry.is_symlink())
