"""Deletes metadata files that a table's newest metadata no longer names. Each commit makes one.

A round deletes those that its own commit pushed out of the log, once the commit is confirmed. The sweep deletes the others: files of
refused commits, of other engines' commits, and of rounds that died.

A file is deleted only if all of this holds:
- the newest metadata file does not name it (spec, "Table Metadata Fields", `metadata-log`), and it is not the newest one itself;
- its version is below the newest one's, so that no pending commit can publish it;
- it is older than the guard;
- if the sweep found it, its uuid is that of this table: a table may have been created in the folder of a renamed one;
- no user forbids it (`write.metadata.delete-after-commit.enabled` or `gc.enabled` = false).
"""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import cast

import structlog
from pyiceberg.table import Table

from tiering import crash_points
from tiering.clock import Clock
from tiering.instants import to_milliseconds
from tiering.lake.base import LakeView
from tiering.lake.iceberg.catalogs.file_io import LakeFileIO, io_of
from tiering.lake.iceberg.schema.layout import DELETE_AFTER_COMMIT, GC_ENABLED
from tiering.lake.maintenance import StoredFile
from tiering.lake.outside_errors import describe

_log = structlog.get_logger(__name__)

GUARD_MS = 180_000
"""Time in which a reader that loaded a table can still read the metadata file that the catalog named."""

DELETED_AT_ONCE = 20
"""Upper bound of the files that one round deletes, so that its end is not delayed. The sweep has more time."""

REMEMBERED_FILES = 200
"""Upper bound of the remembered files of a table that are too young to be deleted. The sweep finds further ones."""
REMEMBERED_TABLES = 1_000

EXAMINED_FILES = 2_000
"""Upper bound of the unnamed metadata files of a table that one sweep reads."""
EXAMINE_THREADS = 16
HEAD_BYTES = 64 << 10
"""Size of the read beginning of a file. Catalogs write the uuid among the first fields, before schemas and snapshots."""
GZIP_MAGIC, GZIP_WINDOW = b"\x1f\x8b", 31
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([0-9A-Za-z-]+)"')

_VERSION = re.compile(r"(?:v(?P<hadoop>[0-9]+)|(?P<other>[0-9]+)-[0-9A-Za-z-]+)(?:\.gz)?\.metadata\.json(?:\.gz)?")
"""Names of Iceberg's own catalogs: `00012-<uuid>.metadata.json`, and `v12.metadata.json` of a HadoopCatalog."""


def version_of(location: str) -> int | None:
    """Returns the version in a metadata file's name; None for other names."""
    match = _VERSION.fullmatch(location.rsplit("/", 1)[-1])
    return None if match is None else int(match["hadoop"] or match["other"])


def may_delete_metadata(properties: Mapping[str, str]) -> bool:
    """Whether the table's user allows the deletion of old metadata files."""
    return all(properties.get(name, "").lower() != "false" for name in (DELETE_AFTER_COMMIT, GC_ENABLED))


def pushed_out(before: Table, after: Table) -> list[tuple[str, int]]:
    """Returns metadata files that `before` names and `after`, a later state, does not, with their times in ms, oldest first."""
    earlier, later = version_of(before.metadata_location), version_of(after.metadata_location)
    if before.metadata.table_uuid != after.metadata.table_uuid or earlier is None or later is None or earlier >= later:
        return []
    if not may_delete_metadata(after.metadata.properties):
        return []
    named = {after.metadata_location, *(entry.metadata_file for entry in after.metadata.metadata_log)}
    entries = [(entry.metadata_file, entry.timestamp_ms) for entry in before.metadata.metadata_log]
    entries.append((before.metadata_location, before.metadata.last_updated_ms))
    return [(file, written_ms) for file, written_ms in entries if file not in named and _is_below(file, later)]


def unnamed_metadata(view: LakeView, files: Iterable[StoredFile]) -> Sequence[StoredFile]:
    """Returns the stored metadata files that the table does not name and that may be deleted once they are older than the guard, oldest
    first.

    Reads the beginnings of at most EXAMINED_FILES files.
    """
    table = cast(Table, view.handle)
    newest = version_of(table.metadata_location)
    if newest is None or not may_delete_metadata(table.metadata.properties):
        return []
    io = io_of(table)
    names = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    named = {_path(io, location) for location in names}
    folder = _path(io, table.metadata_location).rsplit("/", 1)[0]
    same_folder = (file for file in files if file.location.rsplit("/", 1)[0] == folder and file.location not in named)
    below = (file for file in same_folder if _is_below(file.name, newest))
    unnamed = sorted(below, key=lambda file: version_of(file.name) or 0)[:EXAMINED_FILES]
    with ThreadPoolExecutor(EXAMINE_THREADS) as pool:
        uuids = list(pool.map(partial(_table_uuid, table), unnamed))
    return [file for file, uuid in zip(unnamed, uuids, strict=True) if uuid == str(table.metadata.table_uuid)]


class OldMetadataFiles:
    """Deletes the metadata files that commits of this process pushed out of the log. Safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._waiting: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._refused: set[str] = set()
        """Tables for which the log already reported that their store refuses deletions."""

    def delete_after(self, before: LakeView, after: LakeView) -> list[str]:
        """Deletes the files that are older than the guard, and remembers the younger ones for a later round. Raises nothing.

        A file that cannot be deleted is left to the sweep. The log reports it once, until a deletion succeeds.
        """
        earlier, later = cast(Table, before.handle), cast(Table, after.handle)
        due = self._due(after.table_uuid, pushed_out(earlier, later))
        named = {later.metadata_location, *(entry.metadata_file for entry in later.metadata.metadata_log)}
        deleted = []
        for location in due:
            if location not in named:
                try:
                    later.io.delete(location)
                    deleted.append(location)
                    crash_points.reach(crash_points.OLD_METADATA_DELETING)
                except FileNotFoundError:
                    continue
                except Exception as error:
                    self._note_refusal(after, error)
                    break
        if deleted:
            self._refused.discard(after.table_uuid)
        return deleted

    def _note_refusal(self, view: LakeView, error: Exception) -> None:
        if view.table_uuid not in self._refused and len(self._refused) < REMEMBERED_TABLES:
            self._refused.add(view.table_uuid)
            _log.warning("old metadata files are not deleted; the sweep tries again", table=str(view.path), error=describe(error))

    def _due(self, table_uuid: str, pushed: Iterable[tuple[str, int]]) -> list[str]:
        """Returns the files that are due now, and removes them from the waiting ones."""
        before_ms = to_milliseconds(self._clock.now()) - GUARD_MS
        with self._lock:
            waiting = {**self._waiting.pop(table_uuid, {}), **dict(pushed)}
            due = [location for location, written_ms in waiting.items() if written_ms <= before_ms][:DELETED_AT_ONCE]
            remaining = [(location, written_ms) for location, written_ms in waiting.items() if location not in due]
            if remaining:
                self._waiting[table_uuid] = dict(remaining[-REMEMBERED_FILES:])
            while len(self._waiting) > REMEMBERED_TABLES:
                self._waiting.popitem(last=False)
        return due


def _table_uuid(table: Table, file: StoredFile) -> str | None:
    """Returns the uuid in a metadata file; None if it cannot be read, or if the file begins differently from those of catalogs."""
    io = io_of(table)
    scheme, netloc, _ = io.parse_location(table.metadata_location, io.properties)
    try:
        with io.fs_by_scheme(scheme, netloc).open_input_stream(file.location, compression=None) as stream:
            head = stream.read(HEAD_BYTES)
        if head[: len(GZIP_MAGIC)] == GZIP_MAGIC:
            head = zlib.decompressobj(GZIP_WINDOW).decompress(head, HEAD_BYTES)
    except (OSError, zlib.error):
        return None
    match = _UUID.search(head)
    return None if match is None else match[1].decode()


def _is_below(location: str, newest: int) -> bool:
    version = version_of(location)
    return version is not None and version < newest


def _path(io: LakeFileIO, location: str) -> str:
    return io.parse_location(location, io.properties)[2]
