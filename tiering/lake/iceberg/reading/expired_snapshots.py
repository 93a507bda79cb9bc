"""Finds expired snapshots in a table's former metadata files.

A table's metadata lists its former metadata files (Iceberg spec, "Table Metadata Fields", `metadata-log`): 100 by default. Expiry deletes
snapshots, manifests and data files, but no metadata file, and `remove_orphan_files` keeps those that the log names. The file that was
current before an expiry lists the snapshots that the expiry removed, with their parents. So it tells from which snapshot the head
descends (`tiering.lake.rules.history`).

Former files are read only if parents between the head and the newest tiering commit are unknown, the newest file first, until they are
known. A snapshot never changes, so a process reads each file once.
"""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from gzip import BadGzipFile
from threading import Lock
from typing import cast

from pydantic import ValidationError as MetadataInvalid
from pyiceberg import exceptions
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from tiering.errors import ForbiddenLocation, LakeUnavailable
from tiering.lake.base import LakeSnapshot, LakeView
from tiering.lake.iceberg.catalogs.file_io import io_of
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.reading.view import lake_snapshot
from tiering.lake.maintenance import StoredFile
from tiering.lake.outside_errors import describe
from tiering.lake.rules.history import is_undecided

REMEMBERED_TABLES = 1_000
"""Upper bound of the tables whose expired snapshots a process remembers; about 300 bytes a snapshot."""

_MISSING_FILE = (FileNotFoundError, ForbiddenLocation)
"""Errors that end the reading: a clean-up deletes the oldest files first, so older files than a missing or forbidden one are not read.

A refused permission does not show that the file is missing. But without the right to list, S3 also answers 403 for a missing object.
"""
_REFUSED_HINT = (
    "Let this user read the metadata folder of the lake table, and list it (S3: s3:GetObject and s3:ListBucket; without the second one, S3 "
    "does not tell that a file is missing). The next round reads the file again."
)
_DAMAGED = (MetadataInvalid, exceptions.ValidationError, ValueError, EOFError, BadGzipFile, zlib.error)


@dataclass
class _FormerSnapshots:
    """The snapshots in the former metadata files of one table. `files`: the files that were read."""

    files: frozenset[str] = frozenset()
    snapshots: dict[int, LakeSnapshot] = field(default_factory=dict)


class ExpiredSnapshots:
    """Adds expired snapshots to views. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: OrderedDict[str, _FormerSnapshots] = OrderedDict()

    def added_to(self, view: LakeView, table: Table) -> LakeView:
        """Returns `view` with the expired snapshots between its head and its newest tiering commit, as far as they are known.

        Raises LakeUnavailable if a former metadata file cannot be read now.
        """
        if not is_undecided(view):
            return view
        with self._lock:
            former = self._tables.get(view.table_uuid, _FormerSnapshots())
        completed = _completed(view, former)
        if not is_undecided(completed):
            return completed
        files, snapshots = set(former.files), dict(former.snapshots)
        for location, older in self._former_files(view, table, former.files):
            files.add(location)
            for snapshot_id, snapshot in older.items():
                recorded = snapshots.get(snapshot_id)
                if recorded is None or recorded.parent_id is None:  # some engines clear the parent when it expires
                    snapshots[snapshot_id] = snapshot
            completed = _completed(view, _FormerSnapshots(frozenset(files), snapshots))
            if not is_undecided(completed):
                break
        self._remember(view.table_uuid, _FormerSnapshots(frozenset(files), snapshots))
        return completed

    @staticmethod
    def _former_files(view: LakeView, table: Table, read_files: frozenset[str]) -> Iterator[tuple[str, dict[int, LakeSnapshot]]]:
        """Yields the former metadata files that were not read before, newest first, and the snapshots of each."""
        for entry in reversed(table.metadata.metadata_log):
            if entry.metadata_file in read_files:
                continue
            with lake_errors(f"read a former metadata file of {view.path}", table_path=view.path):
                snapshots = _snapshots_in(table, entry.metadata_file)
            if snapshots is None:
                return
            yield entry.metadata_file, snapshots

    def _remember(self, table_uuid: str, former: _FormerSnapshots) -> None:
        with self._lock:
            self._tables[table_uuid] = former
            self._tables.move_to_end(table_uuid)
            while len(self._tables) > REMEMBERED_TABLES:
                self._tables.popitem(last=False)


def _snapshots_in(table: Table, location: str) -> dict[int, LakeSnapshot] | None:
    """Returns the snapshots in a metadata file of this table; none for a damaged file and for one of another table.

    None = the file no longer exists, or is outside of the locations where files of the lake may be. Raises LakeUnavailable if the storage
    refuses the permission.
    """
    try:
        metadata = FromInputFile.table_metadata(table.io.new_input(location))
    except _MISSING_FILE:
        return None
    except PermissionError as error:
        raise LakeUnavailable(f"{location} cannot be read: {describe(error)}", hint=_REFUSED_HINT) from error
    except _DAMAGED:
        return {}
    if metadata.table_uuid != table.metadata.table_uuid:
        return {}
    return {snapshot.snapshot_id: lake_snapshot(snapshot) for snapshot in metadata.snapshots}


def _completed(view: LakeView, former: _FormerSnapshots) -> LakeView:
    """Returns `view` with the known expired snapshots, and with parents that an engine cleared."""
    snapshots = {
        snapshot_id: replace(snapshot, parent_id=former.snapshots[snapshot_id].parent_id)
        if snapshot.parent_id is None and snapshot_id in former.snapshots
        else snapshot
        for snapshot_id, snapshot in view.snapshots.items()
    }
    expired = {snapshot_id: snapshot for snapshot_id, snapshot in former.snapshots.items() if snapshot_id not in snapshots}
    return replace(view, snapshots=snapshots, expired=expired)


_LIST = re.compile(r"snap-([0-9]{1,19})-.+\.avro")
"""Names of manifest lists by Iceberg's own writers, and by Lakeward's."""


# The header of a manifest list names its snapshot and that snapshot's parent (Iceberg's writers, `parent-snapshot-id`). The name of the
# file also has the snapshot id. So a chain of stored lists shows which of them belong to the table's history, and not to a copy.
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
