"""The cluster's folder: one process owns it, and what a crash left behind is swept when it is opened."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from tiering.cluster.embedded.kv_state import KV_FOLDER
from tiering.cluster.embedded.segments import DROPPED_SUFFIX, LOG_FOLDER, LOG_STARTS_FILE, sync_folder
from tiering.cluster.embedded.snapshot_files import SNAPSHOT_FOLDER
from tiering.errors import SetupError

LOCK_FILE = "LOCK"
TOMBSTONE_AGE_S = 24 * 60 * 60
"""Far longer than a round reads."""


def lock_folder(root: Path) -> IO[str]:
    """Makes `root` if need be and takes its lock, held until the file is closed or the process ends.

    Raises SetupError if another process has it, or the folder cannot be written.
    """
    try:
        (root / LOG_FOLDER).mkdir(parents=True, exist_ok=True)
        sync_folder(root)
        file = (root / LOCK_FILE).open("a+")
    except OSError as error:
        raise SetupError(
            f"cannot write the cluster's folder {root}: {error.strerror}", hint="Choose a folder that you can write."
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        owner = file.read().strip()
        file.close()
        raise SetupError(
            f"the cluster's folder {root} is in use{f' by process {owner}' if owner else ''}",
            hint="Stop the other coordinator, or choose another data folder.",
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


@dataclass(frozen=True)
class Published:
    """What the metadata names: paths of segments and KV snapshots (relative to the root), ids of tables and partitions."""

    paths: Collection[str]
    table_ids: Collection[int]
    partition_ids: Collection[int]


def sweep(root: Path, published: Published, now: datetime) -> int:
    """Removes files that no segment or KV snapshot names, KV states and folders of tables that are gone; returns how many. Raises OSError.

    Only for a folder that nobody else writes: a file that is about to be published looks the same. What says that a table or
    partition was dropped stays until no reader that began before can still run; of one that lives it goes, for then a crash came
    before the drop.
    """
    removed = 0
    for entry in (root / LOG_FOLDER).iterdir():
        if not entry.is_dir():
            removed += _sweep_tombstone(entry, published.table_ids, now)
        elif entry.name not in map(str, published.table_ids):
            shutil.rmtree(entry)
            removed += 1
        else:
            removed += _sweep_table(root, entry, published, now)
    return removed + _sweep_snapshots(root, published) + _sweep_states(root, published.table_ids)


def _sweep_snapshots(root: Path, published: Published) -> int:
    files = list((root / SNAPSHOT_FOLDER).glob("*/*"))
    surplus = [file for file in files if str(file.relative_to(root)) not in published.paths]
    for file in surplus:
        file.unlink()
    for folder in (root / SNAPSHOT_FOLDER).glob("*"):
        if folder.name not in map(str, published.table_ids):
            folder.rmdir()
    return len(surplus)


def _sweep_states(root: Path, table_ids: Collection[int]) -> int:
    """A state's files begin with the table's id; what spilled (`.tmp`) is of no use to anybody after a restart."""
    surplus = [
        entry
        for entry in (root / KV_FOLDER).glob("*")
        if entry.name.partition(".")[0] not in map(str, table_ids) or entry.name.endswith(".tmp")
    ]
    for entry in surplus:
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return len(surplus)


def _sweep_table(root: Path, folder: Path, published: Published, now: datetime) -> int:
    removed = 0
    for file in folder.iterdir():
        if file.suffix == DROPPED_SUFFIX:
            removed += _sweep_tombstone(file, published.partition_ids, now)
        elif file.name != LOG_STARTS_FILE and str(file.relative_to(root)) not in published.paths:
            file.unlink()
            removed += 1
    return removed


def _sweep_tombstone(file: Path, living: Collection[int], now: datetime) -> int:
    if file.suffix == DROPPED_SUFFIX and file.stem not in map(str, living) and now.timestamp() - file.stat().st_mtime < TOMBSTONE_AGE_S:
        return 0
    file.unlink()
    return 1
