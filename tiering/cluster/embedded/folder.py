"""The cluster's folder: one process owns it, and what a crash left behind is swept when it is opened."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import IO

from tiering.cluster.embedded.segments import LOG_FOLDER, sync_folder
from tiering.errors import SetupError

LOCK_FILE = "LOCK"


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


def sweep(root: Path, published: Collection[str], table_ids: Collection[int]) -> int:
    """Removes files that no segment names, and folders of tables that are gone; returns how many. Raises OSError.

    Only for a folder that nobody else writes: a file that is about to be published looks the same.
    """
    removed = 0
    for folder in (root / LOG_FOLDER).iterdir():
        if folder.name not in map(str, table_ids):
            shutil.rmtree(folder)
            removed += 1
            continue
        for file in folder.iterdir():
            if str(file.relative_to(root)) not in published:
                file.unlink()
                removed += 1
    return removed
