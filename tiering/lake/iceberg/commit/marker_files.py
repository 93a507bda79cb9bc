"""Files of markers that are too long for a snapshot summary: `<warehouse>/.lakeward/<lake table uuid>/<name>.marker`.

They are outside of the table's folder, so that no orphan clean-up of an engine deletes them.
"""

from __future__ import annotations

import re

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tiering.errors import MarkerCorrupt
from tiering.lake.iceberg.catalogs.locations import is_location
from tiering.lake.iceberg.errors import lake_errors

FOLDER = ".lakeward"
_PATH = re.compile(rf".*/{re.escape(FOLDER)}/(?P<uuid>[0-9a-f-]{{36}})/[A-Za-z0-9_-]+\.marker")


def marker_path(table: Table, warehouse: str | None, name: str) -> str:
    """Returns the path of a marker file of `table`. If the warehouse is only a name (REST catalogs), the table's parent folder is used."""
    root = warehouse if warehouse is not None and is_location(warehouse) else table.location().rstrip("/").rsplit("/", 1)[0]
    return f"{root.rstrip('/')}/{FOLDER}/{table.metadata.table_uuid}/{name}.marker"


def write_marker_file(io: FileIO, path: str, content: bytes) -> None:
    """Writes the whole file. It is on the storage when this function returns. Raises LakeUnavailable."""
    with lake_errors(f"write the marker file {path}"), io.new_output(path).create() as stream:
        stream.write(content)


def read_marker_file(io: FileIO, path: str, lake_table_uuid: str) -> bytes:
    """Returns the content of a marker file of that table. Raises FileNotFoundError, MarkerCorrupt, LakeUnavailable.

    The path comes from a snapshot's summary, which any writer of the table may set. So only marker files are read.
    """
    match = _PATH.fullmatch(path)
    if match is None or "/../" in path or match["uuid"] != lake_table_uuid:
        raise MarkerCorrupt(
            f"the marker's path {path!r} is not that of a marker file of the lake table {lake_table_uuid}",
            hint="Were the properties of its snapshot written by hand? Nothing is tiered until the marker can be read.",
            lake_table_uuid=lake_table_uuid,
        )
    with lake_errors(f"read the marker file {path}"):
        file = io.new_input(path)
        if file.exists():
            with file.open() as stream:
                return stream.read()
    raise FileNotFoundError(path)
