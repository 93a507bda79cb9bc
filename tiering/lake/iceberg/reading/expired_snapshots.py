"""Snapshots that expired, as a table's former metadata files still name them.

A table's metadata lists its former metadata files (Iceberg spec, "Table Metadata Fields", `metadata-log`): 100 by default. Expiry deletes
snapshots, manifests and data files, but no metadata file, and `remove_orphan_files` keeps those that the log names. The file that was
current before an expiry lists the snapshots that the expiry removed, with their parents. So it tells from which snapshot the head
descends (`tiering.lake.rules.history`).

Former files are read only if parents between the head and the newest tiering commit are unknown, the newest file first, until they are
known. A snapshot never changes, so a process reads each file once.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from gzip import BadGzipFile
from threading import Lock

from pydantic import ValidationError as MetadataInvalid
from pyiceberg import exceptions
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table

from tiering.errors import ForbiddenLocation, LakeUnavailable
from tiering.lake.base import LakeSnapshot, LakeView
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.reading.view import lake_snapshot
from tiering.lake.outside_errors import describe
from tiering.lake.rules.history import is_undecided

REMEMBERED_TABLES = 1_000
"""Tables whose expired snapshots a process remembers; some 300 bytes a snapshot."""

_GONE = (FileNotFoundError, ForbiddenLocation)
"""A clean-up deletes the oldest files first, so nothing is read beyond a file that does not exist, or that lies where none may be read.

A refused permission says nothing of the file: without the right to list, S3 answers 403 for a missing object, too.
"""
_REFUSED_HINT = (
    "Let this user read the metadata folder of the lake table, and list it (S3: s3:GetObject and s3:ListBucket; without the second one, S3 "
    "refuses to say that a file is gone). The next round reads it again by itself."
)
_DAMAGED = (MetadataInvalid, exceptions.ValidationError, ValueError, EOFError, BadGzipFile, zlib.error)


@dataclass
class _Former:
    """What the former metadata files of one table told. `files`: those that were read."""

    files: frozenset[str] = frozenset()
    snapshots: dict[int, LakeSnapshot] = field(default_factory=dict)


class ExpiredSnapshots:
    """Adds expired snapshots to views. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: OrderedDict[str, _Former] = OrderedDict()

    def added_to(self, view: LakeView, table: Table) -> LakeView:
        """`view` with the expired snapshots between its head and its newest tiering commit, as far as they are known.

        Raises LakeUnavailable if a former metadata file cannot be read now.
        """
        if not is_undecided(view):
            return view
        with self._lock:
            former = self._tables.get(view.table_uuid, _Former())
        completed = _completed(view, former)
        if not is_undecided(completed):
            return completed
        files, snapshots = set(former.files), dict(former.snapshots)
        for location, older in self._former_files(view, table, former.files):
            files.add(location)
            for snapshot_id, snapshot in older.items():
                known = snapshots.get(snapshot_id)
                if known is None or known.parent_id is None:  # some engines clear the parent when it expires
                    snapshots[snapshot_id] = snapshot
            completed = _completed(view, _Former(frozenset(files), snapshots))
            if not is_undecided(completed):
                break
        self._remember(view.table_uuid, _Former(frozenset(files), snapshots))
        return completed

    @staticmethod
    def _former_files(view: LakeView, table: Table, known: frozenset[str]) -> Iterator[tuple[str, dict[int, LakeSnapshot]]]:
        """The former metadata files that were not read before, newest first, and the snapshots that each of them lists."""
        for entry in reversed(table.metadata.metadata_log):
            if entry.metadata_file in known:
                continue
            try:
                with lake_errors(f"read a former metadata file of {view.path}", table_path=view.path):
                    snapshots = _snapshots_in(table, entry.metadata_file)
            except _Gone:
                return
            yield entry.metadata_file, snapshots

    def _remember(self, table_uuid: str, former: _Former) -> None:
        with self._lock:
            self._tables[table_uuid] = former
            self._tables.move_to_end(table_uuid)
            while len(self._tables) > REMEMBERED_TABLES:
                self._tables.popitem(last=False)


class _Gone(Exception):
    """A file does not exist any more, or lies outside of the places where files of the lake may lie."""


def _snapshots_in(table: Table, location: str) -> dict[int, LakeSnapshot]:
    """The snapshots that a metadata file of this table lists; empty for a damaged file and for another table's.

    Raises _Gone, LakeUnavailable where the storage refuses the permission.
    """
    try:
        metadata = FromInputFile.table_metadata(table.io.new_input(location))
    except _GONE as error:
        raise _Gone from error
    except PermissionError as error:
        raise LakeUnavailable(f"{location} cannot be read: {describe(error)}", hint=_REFUSED_HINT) from error
    except _DAMAGED:
        return {}
    if metadata.table_uuid != table.metadata.table_uuid:
        return {}
    return {snapshot.snapshot_id: lake_snapshot(snapshot) for snapshot in metadata.snapshots}


def _completed(view: LakeView, former: _Former) -> LakeView:
    """`view` with what is known of expired snapshots, and with parents that were cleared."""
    snapshots = {
        snapshot_id: replace(snapshot, parent_id=former.snapshots[snapshot_id].parent_id)
        if snapshot.parent_id is None and snapshot_id in former.snapshots
        else snapshot
        for snapshot_id, snapshot in view.snapshots.items()
    }
    expired = {snapshot_id: snapshot for snapshot_id, snapshot in former.snapshots.items() if snapshot_id not in snapshots}
    return replace(view, snapshots=snapshots, expired=expired)
