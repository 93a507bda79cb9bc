"""`lakeward state backup|restore`: a copy of the state store in a data folder, made while it is used, and put back."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from tiering.cli.terminal.options import DataOption
from tiering.errors import SetupError

PUT_ASIDE = ".before-restore"

FileArgument = Annotated[Path, typer.Argument(help="The file of the backup.")]


def register(app: typer.Typer) -> None:
    """Adds the command and its two parts."""
    parts = typer.Typer(
        no_args_is_help=True, help="Back up and restore the state store in a data folder. Of one in PostgreSQL: pg_dump and pg_restore."
    )
    parts.command("backup")(backup)
    parts.command("restore")(restore)
    app.add_typer(parts, name="state")


def backup(file: FileArgument, data: DataOption = Path("lakeward-data")) -> None:
    """Copy the state store, as of one moment, while the service runs or not. The tables' rows and the lake are no part of it.

    Example: lakeward state backup state-2026-11-24.db --data ./lakeward-data
    """
    from tiering.cli.processes.data_folder import read_data_folder

    source = read_data_folder(data).store_file
    target = file.expanduser()
    if target.exists():
        raise SetupError(f"{target} exists already", hint="Name a new file: a backup replaces nothing.")
    _check(source, "the data folder's state store")
    unfinished = target.with_name(target.name + ".unfinished")
    _copied(source, unfinished)
    os.replace(unfinished, target)
    print(f"backed up {source} to {target}: {target.stat().st_size:,} bytes")


def restore(file: FileArgument, data: DataOption = Path("lakeward-data")) -> None:
    """Put a backup in the place of the state store; no service may run on the folder. The former store stays beside it.

    What was tiered since is found in the lake. History, pauses and options since then are gone.

    Example: lakeward state restore state-2026-11-24.db --data ./lakeward-data
    """
    from tiering.cli.processes.data_folder import open_data_folder
    from tiering.coordinator.memory.store import EPOCHS_LEFT_OUT
    from tiering.files.folder_lock import FolderLock

    source = file.expanduser()
    _check(source, "the backup")
    folder = open_data_folder(data)
    lock = FolderLock(folder.root)
    if not lock.acquire(wait=False):
        raise SetupError(f"a service runs on {folder.root}", hint="Stop it first: it would go on with the state that it has in memory.")
    try:
        unfinished = folder.store_file.with_name("coordinator.db.restoring")
        unfinished.unlink(missing_ok=True)
        _copied(source, unfinished)
        with closing(sqlite3.connect(unfinished)) as database, database:
            database.execute("UPDATE lakeward_owner SET epoch = epoch + ?", (EPOCHS_LEFT_OUT,))
        for former in sorted(folder.root.glob("coordinator.db*")):
            if former.name in ("coordinator.db", "coordinator.db-wal", "coordinator.db-shm"):
                os.replace(former, former.with_name(former.name.replace("coordinator.db", f"coordinator.db{PUT_ASIDE}")))
        os.replace(unfinished, folder.store_file)
    finally:
        lock.release()
    print(f"restored {folder.store_file} from {source}; the former store, if there was one, is coordinator.db{PUT_ASIDE}")


def _check(file: Path, name: str) -> None:
    """Raises SetupError for a file that is no state store."""
    hint = "Name a data folder of a coordinator that ran with --data, or a file of `lakeward state backup`."
    if not file.is_file():
        raise SetupError(f"{name} is missing: there is no {file}", hint=hint)
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            [[sound]] = database.execute("PRAGMA quick_check(1)").fetchall()
            database.execute("SELECT epoch FROM lakeward_owner").fetchone()
    except sqlite3.Error as error:
        raise SetupError(f"{file} is no state store: {error}", hint=hint) from error
    if sound != "ok":
        raise SetupError(f"the state store {file} is damaged: {sound}", hint="Use another backup.")


def _copied(source: Path, target: Path) -> None:
    """A copy as of one moment (SQLite's online backup), synced, its owner's alone. Raises SetupError."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as reading,
            closing(sqlite3.connect(target)) as writing,
        ):
            reading.backup(writing)
            writing.execute("PRAGMA journal_mode=DELETE")
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except (OSError, sqlite3.Error) as error:
        target.unlink(missing_ok=True)
        raise SetupError(f"cannot copy {source} to {target}: {error}", hint="Is there room, and may this user write there?") from error
