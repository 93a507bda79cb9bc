"""Finds the expired snapshots from which a table's snapshots descend, as long as their manifest lists are stored.

The header of a manifest list names its snapshot and that snapshot's parent (Iceberg's writers, `parent-snapshot-id`). The name of the file
also has the snapshot id. So a chain of stored lists shows which of them belong to the table's history, and not to a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from tiering.lake.base import LakeView
from tiering.lake.iceberg.catalogs.file_io import io_of
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.maintenance import StoredFile

_LIST = re.compile(r"snap-([0-9]{1,19})-.+\.avro")
"""Names of manifest lists by Iceberg's own writers, and by Lakeward's."""


def expired_ancestors(view: LakeView, files: Sequence[StoredFile]) -> list[str]:
    """Returns the manifest lists of expired ancestors (`ExpiredAncestors.expired_ancestors`)."""
    table = cast(Table, view.handle)
    lists = {int(match[1]): file for file in files if (match := _LIST.fullmatch(file.name)) is not None}
    with lake_errors(f"read manifest lists of {view.path}", table_path=view.path):
        return [file.name for file in _chain(table, lists)]


def _chain(table: Table, lists: Mapping[int, StoredFile]) -> Iterator[StoredFile]:
    """Yields the stored lists of expired snapshots, from the table's snapshots backwards, each once."""
    visited = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    waiting = [snapshot.parent_snapshot_id for snapshot in table.metadata.snapshots]
    while waiting:
        snapshot_id = waiting.pop()
        if snapshot_id is None or snapshot_id in visited or (file := lists.get(snapshot_id)) is None:
            continue
        visited.add(snapshot_id)
        named_id, parent_id = _named_in(table, file)
        if named_id == snapshot_id:
            yield file
            waiting.append(parent_id)


def _named_in(table: Table, file: StoredFile) -> tuple[int | None, int | None]:
    """Returns the snapshot of a manifest list and its parent from the header; None if the header lacks them or is damaged."""
    io = io_of(table)
    scheme, netloc, _ = io.parse_location(table.location(), io.properties)
    io.places.check_path(scheme, netloc, file.location)
    try:
        with AvroFile[Record](PyArrowFile(file.location, file.location, io.fs_by_scheme(scheme, netloc))) as opened:
            meta = opened.header.meta
    except (FileNotFoundError, ValueError, EOFError):
        return None, None
    return _number(meta.get("snapshot-id")), _number(meta.get("parent-snapshot-id"))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
