"""The cluster's folder. One process owns it; leftovers of a crash are deleted when it is opened."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from tiering.cluster.embedded.kv.snapshot_files import SNAPSHOT_FOLDER
from tiering.cluster.embedded.kv.snapshot_files import SUFFIX as SNAPSHOT_SUFFIX
from tiering.cluster.embedded.kv.state import KV_FOLDER
from tiering.cluster.embedded.kv.state import SUFFIX as STATE_SUFFIX
from tiering.cluster.embedded.log.segments import DROPPED_SUFFIX, LOG_FOLDER
from tiering.cluster.embedded.log.segments import SUFFIX as SEGMENT_SUFFIX
from tiering.errors import SetupError
from tiering.files.durable_files import TEMPORARY_SUFFIX, make_folder
from tiering.files.folder_lock import take_lock

LOCK_FILE = "LOCK"
TOMBSTONE_AGE_S = 24 * 60 * 60
"""Minimum age at which a tombstone is removed: far longer than a round reads."""


def lock_folder(root: Path) -> IO[str]:
    """Creates `root` if needed and takes its lock, which is held until the file is closed or the process ends.

    Raises SetupError if another process holds the lock, or the folder cannot be written.
    """
    try:
        make_folder(root / LOG_FOLDER)
        file = (root / LOCK_FILE).open("a+")
    except OSError as error:
        raise SetupError(
            f"cannot write the cluster's folder {root}: {error.strerror}", hint="Choose a folder that you may write to."
        ) from error
    if not take_lock(file.fileno(), wait=False):
        file.seek(0)
        owner = file.read().strip()
        file.close()
        raise SetupError(
            f"the cluster's folder {root} is in use{f' by process {owner}' if owner else ''}",
            hint="Stop the other coordinator, or choose another data folder.",
        )
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def check_metadata_is_there(root: Path, metadata: Path) -> None:
    """Raises SetupError for a folder that has rows of tables but lacks the metadata file: `sweep` would remove all of them.

    Older versions opened the file by a URL, in which `?` ends a path and `%41` is the letter A. For such folders the file may be
    elsewhere.
    """
    tables = [entry for name in (LOG_FOLDER, SNAPSHOT_FOLDER) for entry in _entries(root / name) if _TABLE_ID.fullmatch(entry.name)]
    if metadata.exists() or not any(next(iter(_entries(table)), None) for table in tables):
        return
    former = Path(unquote(str(metadata).split("?", 1)[0]))
    hint = "Restore the file, or choose a new data folder."
    if former.is_file():
        hint = f"An older version wrote the file to {former}: move it, and its -wal and -shm files, to {metadata}."
    raise SetupError(f"{root} has rows of tables, but the file {metadata.name}, which lists the tables, is missing", hint=hint)


def sweep(root: Path, paths: Collection[str], table_ids: Collection[int], partition_ids: Collection[int], now: datetime) -> None:
    """Removes files that no segment or KV snapshot names, and KV states and folders of dropped tables. Raises OSError.

    The metadata names `paths` of segments and KV snapshots (relative to the root), and these tables and partitions.

    The folder must have no other writer, because a file that is about to be published is not distinguishable. The tombstone of a dropped
    table or partition stays until no reader that began before the drop can still run. The tombstone of a living one is removed: a crash
    prevented that drop. Files without a name in Lakeward's form (such as a file manager's `.DS_Store`) and links are left alone.
    """
    for entry in _entries(root / LOG_FOLDER):
        if entry.is_dir() and _TABLE_ID.fullmatch(entry.name):
            for tombstone in _sweep_files(root, entry, _SEGMENT_FILE, paths, table_ids):
                _sweep_tombstone(tombstone, partition_ids, now)
        elif _TOMBSTONE.fullmatch(entry.name):
            _sweep_tombstone(entry, table_ids, now)
    for entry in _entries(root / SNAPSHOT_FOLDER):
        if entry.is_dir() and _TABLE_ID.fullmatch(entry.name):
            _sweep_files(root, entry, _SNAPSHOT_FILE, paths, table_ids)
    _sweep_states(root, table_ids)


def _entries(folder: Path) -> list[Path]:
    """Returns the entries of a folder, without links; nothing if the folder does not exist."""
    return [entry for entry in folder.iterdir() if not entry.is_symlink()] if folder.is_dir() else []


def _sweep_files(root: Path, folder: Path, name: re.Pattern[str], paths: Collection[str], table_ids: Collection[int]) -> list[Path]:
    """Removes the folder of a dropped table, or else the files in it with such a name that are not in `paths`. Returns its tombstones."""
    if int(folder.name) not in table_ids:
        shutil.rmtree(folder)
        return []
    files = _entries(folder)
    for file in files:
        if name.fullmatch(file.name) and str(file.relative_to(root)) not in paths:
            file.unlink()
    return [file for file in files if _TOMBSTONE.fullmatch(file.name)]


def _sweep_states(root: Path, table_ids: Collection[int]) -> None:
    """Removes KV states of dropped tables, whose file names begin with the table's id, and spilled files (`.tmp`), which are useless after
    a restart.
    """
    for entry in _entries(root / KV_FOLDER):
        match = _STATE_FILE.fullmatch(entry.name)
        if match is not None and (int(match["table_id"]) not in table_ids or entry.name.endswith(".tmp")):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _sweep_tombstone(file: Path, living: Collection[int], now: datetime) -> None:
    if int(file.stem) in living or now.timestamp() - file.stat().st_mtime >= TOMBSTONE_AGE_S:
        file.unlink()


_TABLE_ID = re.compile(r"[0-9]{1,18}")
_TOMBSTONE = re.compile(rf"[0-9]{{1,18}}{re.escape(DROPPED_SUFFIX)}")
_TEMPORARY = f"(?:{re.escape(TEMPORARY_SUFFIX)})?"
_SEGMENT_FILE = re.compile(rf"[0-9A-Za-z_-]+{re.escape(SEGMENT_SUFFIX)}{_TEMPORARY}")
_SNAPSHOT_FILE = re.compile(rf"[0-9A-Za-z_-]+-[0-9]+{re.escape(SNAPSHOT_SUFFIX)}{_TEMPORARY}")
_STATE_FILE = re.compile(rf"(?P<table_id>[0-9]{{1,18}}){re.escape(STATE_SUFFIX)}(?:\.wal|\.tmp)?")
"""Patterns of Lakeward's file names. The file of log starts is replaced whenever a log is cut, and belongs to no single segment."""
