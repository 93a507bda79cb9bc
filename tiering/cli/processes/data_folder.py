"""The data folder of a coordinator (DESIGN 12): `VERSION, coordinator.db, cluster/, lake/, lake-catalog.db, logs/`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tiering.cli.processes.sent_folders import check_links, read_version
from tiering.errors import SetupError
from tiering.files.durable_files import make_folder
from tiering.files.private_files import make_private
from tiering.files.sqlite_files import read_only_url
from tiering.lake.registry import LAKE_CATALOG_FILE, local_lake_properties

FORMAT_VERSION = "1"
NOBODYS_NAMES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", "lost+found"})
"""What file managers and file systems leave in folders: a folder with nothing else is empty."""
PARTS = ("cluster", "lake", "logs")


@dataclass(frozen=True)
class DataFolder:
    """Where everything lives. Made by `open_data_folder`; paths are absolute."""

    root: Path

    @property
    def store_file(self) -> Path:
        return self.root / "coordinator.db"

    @property
    def restoring_file(self) -> Path:
        """A whole store that `lakeward state restore` is about to put in the place of `store_file`."""
        return self.root / "coordinator.db.restoring"

    @property
    def store_url(self) -> str:
        from tiering.coordinator.memory.sql_store import sqlite_url  # not for commands that leave the store alone

        return sqlite_url(self.store_file)

    @property
    def cluster(self) -> Path:
        return self.root / "cluster"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def lake_properties(self) -> dict[str, str]:
        """The default lake: a SQL catalog on SQLite and a folder, as pyiceberg's `load_catalog` takes them."""
        return local_lake_properties(self.root)

    @property
    def read_only_lake_properties(self) -> dict[str, str]:
        """The same, for whoever only reads: a catalog that is not there is not made."""
        return {**self.lake_properties, "uri": read_only_url(self.root / LAKE_CATALOG_FILE)}


def read_data_folder(path: Path) -> DataFolder:
    """A folder that is there already; nothing of it is touched. Raises SetupError if it is none, or another version's."""
    root = path.expanduser().resolve()
    try:
        version = read_version(root / "VERSION")
    except OSError as error:
        raise SetupError(f"{root} is not a Lakeward data folder: {error.strerror or error}", hint="Name one with --data.") from error
    _check_version(root, version)
    check_links(root, of_others=True)
    return DataFolder(root)


def open_data_folder(path: Path) -> DataFolder:
    """The folder, made if need be, and its owner's alone from then on.

    Raises SetupError if it cannot be written, is another owner's, another program's or another version's.
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
            make_private([root / name])  # it may be a link to another disk
            probe = root / name / ".writable"
            probe.touch()
            probe.unlink()
        check_links(root, of_others=False)
    except OSError as error:
        raise SetupError(
            f"the data folder {root} cannot be written: {error.strerror or error}",
            hint="Name a folder that this user may write, with --data.",
        ) from error
    return DataFolder(root)


def check_restore_ended(folder: DataFolder) -> None:
    """Raises SetupError where a restore died after it had put the former store aside: a start would take the state for lost."""
    if folder.restoring_file.exists() and not folder.store_file.exists():
        raise SetupError(
            f"a restore of the state store in {folder.root} was interrupted: {folder.store_file.name} is put aside, and the other one is "
            "not in its place",
            hint=f"Run the same `lakeward state restore FILE --data {folder.root}` again.",
        )


def check_version(root: Path) -> None:
    """Raises SetupError if the folder is another program's or another version's; an empty one is nobody's yet."""
    version = root / "VERSION"
    if not version.exists():
        if any(entry.name not in NOBODYS_NAMES for entry in root.iterdir()):
            raise SetupError(f"{root} holds other files and no VERSION: it is not a Lakeward data folder", hint="Name an empty folder.")
        return
    _check_version(root, read_version(version))


def _check_version(root: Path, version: str) -> None:
    if version != FORMAT_VERSION:
        raise SetupError(
            f"the data folder {root} has format version {version}; this version of Lakeward reads version {FORMAT_VERSION}",
            hint="Use the version of Lakeward that wrote it, or name another folder.",
        )
