"""Files of markers that are too long for a snapshot's properties: `<warehouse>/.lakeward/<lake table uuid>/<name>.marker`.

They are outside of the table's folder, so that no orphan clean-up of an engine deletes them.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from tiering.errors import MarkerCorrupt
from tiering.lake.paimon.storage.base import Storage

FOLDER = ".lakeward"
_NAME = re.compile(r"[A-Za-z0-9_-]+\.marker")


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
