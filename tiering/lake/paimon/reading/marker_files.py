"""Files of markers that are too long for a snapshot's properties: `<warehouse>/.lakeward/<lake table uuid>/<name>.marker`.

They lie outside of the table's folder, so that no orphan clean-up of an engine takes them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tiering.errors import MarkerCorrupt
from tiering.files.durable_files import sync_folder
from tiering.files.private_files import make_folders_like_their_parent, open_like_folder

FOLDER = ".lakeward"
_NAME = re.compile(r"[A-Za-z0-9_-]+\.marker")


def marker_folder(warehouse: Path, uuid: str) -> Path:
    """Where the marker files of a table are."""
    return warehouse / FOLDER / uuid


def write_marker_file(path: Path, content: bytes) -> None:
    """Writes the whole file, durably. Raises OSError."""
    make_folders_like_their_parent(path.parent)
    with os.fdopen(open_like_folder(path, overwrite=False), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def read_marker_file(folder: Path, text: str) -> bytes:
    """The content of the marker file that a snapshot names. Any writer may have set the name: no other file is read.

    Raises FileNotFoundError, MarkerCorrupt, OSError.
    """
    path = Path(text)
    if path.parent != folder or not _NAME.fullmatch(path.name):
        raise MarkerCorrupt(
            f"the marker's path {text!r} is not that of a marker file in {folder}",
            hint="Were the properties of its snapshot written by hand? Nothing is tiered until the marker can be read.",
        )
    return path.read_bytes()
