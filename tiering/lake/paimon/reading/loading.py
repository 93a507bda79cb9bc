"""A Paimon table at one moment: its folder, its identity, its columns and its snapshots."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath

from tiering.errors import MarkerCorrupt
from tiering.lake.paimon.reading.snapshots import SnapshotReader, StoredSnapshot, tagged_snapshots
from tiering.lake.paimon.schema.stored_schema import StoredSchema, read_schema
from tiering.lake.paimon.storage.base import Storage, TableFolder, table_uuid
from tiering.lake.paimon.storage.local import LOCAL
from tiering.model.tables import TablePath

DATABASE_SUFFIX = ".db"


@dataclass(frozen=True)
class LoadedTable:
    """The content of a view's `handle`. `chain`: the table's snapshots, oldest first."""

    path: TablePath
    warehouse: PurePath
    root: PurePath
    uuid: str
    schema: StoredSchema
    chain: tuple[StoredSnapshot, ...]
    tagged: tuple[StoredSnapshot, ...] = ()
    """The snapshots that the table's tags name; a tag keeps files after its snapshot expired."""
    storage: Storage = LOCAL
    """The storage to which the paths belong."""

    @property
    def head(self) -> StoredSnapshot | None:
        return self.chain[-1] if self.chain else None

    def snapshot(self, snapshot_id: int) -> StoredSnapshot | None:
        """Returns the snapshot with that id; None if it does not exist. Ids are consecutive."""
        position = snapshot_id - self.chain[0].snapshot_id if self.chain else -1
        return self.chain[position] if 0 <= position < len(self.chain) else None

    def newest_with(self, key: str, limit: int | None = None) -> StoredSnapshot | None:
        """Returns the newest snapshot, at most `limit`, with that property; None without one."""
        snapshots = (snapshot for snapshot in reversed(self.chain) if limit is None or snapshot.snapshot_id <= limit)
        return next((snapshot for snapshot in snapshots if key in snapshot.properties), None)

    @property
    def location(self) -> str:
        """Returns the table's folder in the form that users know."""
        return self.storage.location(self.root)

    @property
    def marker_folder(self) -> PurePath:
        """Returns the folder of the table's marker files."""
        return marker_folder(self.warehouse, self.uuid)

    def read_marker(self, path: str) -> bytes:
        """Returns the content of a marker file (`read_marker_file`)."""
        return read_marker_file(self.storage, self.marker_folder, path)


def table_root(warehouse: PurePath, path: TablePath) -> PurePath:
    """Returns the folder of a table (Paimon's `Catalog`)."""
    return warehouse / f"{path.database_name}{DATABASE_SUFFIX}" / path.table_name


def load_table(storage: Storage, warehouse: PurePath, path: TablePath, reader: SnapshotReader) -> LoadedTable | None:
    """Loads a table; returns None if it does not exist. Raises the errors of pypaimon and the storage."""
    root = table_root(warehouse, path)
    with storage.opened_table(root) as folder:
        if folder is None:
            return None
        uuid, schema = table_uuid(folder), read_schema(folder)
        if uuid is None or schema is None:
            return None
        return LoadedTable(path, warehouse, root, uuid, schema, reader.chain(folder), tagged_snapshots(folder), storage)


@contextmanager
def opened_table(loaded: LoadedTable) -> Iterator[TableFolder]:
    """Opens the folder that `loaded` was read from. Raises FileNotFoundError if another table has replaced it."""
    with loaded.storage.opened_table(loaded.root) as folder:
        if folder is None or table_uuid(folder) != loaded.uuid:
            raise FileNotFoundError(f"the table in {loaded.location} was dropped or replaced")
        yield folder


FOLDER = ".lakeward"
_NAME = re.compile(r"[A-Za-z0-9_-]+\.marker")


# Files of markers that are too long for a snapshot's properties: `<warehouse>/.lakeward/<lake table uuid>/<name>.marker`. They are
# outside of the table's folder, so that no orphan clean-up of an engine deletes them.
def marker_folder(warehouse: PurePath, uuid: str) -> PurePath:
    """Returns the folder of a table's marker files."""
    return warehouse / FOLDER / uuid


def write_marker_file(storage: Storage, path: PurePath, content: bytes) -> None:
    """Writes the whole file, durably. Raises OSError."""
    storage.make_folder(path.parent)
    with storage.create_file(path) as file:
        file.write(content)
        storage.sync_file(file)
    storage.sync_folder(path.parent)


def read_marker_file(storage: Storage, folder: PurePath, text: str) -> bytes:
    """Returns the content of the marker file that a snapshot names. Any writer may have set that name, so no other file is read.

    Raises FileNotFoundError, MarkerCorrupt, OSError.
    """
    head, _, name = text.rpartition("/")
    if head != storage.location(folder) or not _NAME.fullmatch(name):
        raise MarkerCorrupt(
            f"the marker's path {text!r} is not that of a marker file in {storage.location(folder)}",
            hint="Check whether the properties of its snapshot were edited by hand. Nothing is tiered until the marker can be read.",
        )
    return storage.read(folder / name)
