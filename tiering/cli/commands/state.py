"""`lakeward state backup|restore`: copies the state store of a data folder, also while a service uses it, and restores a copy."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiering.cli.terminal.options import DataOption
from tiering.errors import SetupError
from tiering.files.durable_files import sync_folder

if TYPE_CHECKING:
    from tiering.cli.processes.data_folder import DataFolder

PUT_ASIDE = ".before-restore"
UNFINISHED = ".unfinished"

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="File of the backup.")]


def register(app: typer.Typer) -> None:
    """Adds the group of commands and its two commands."""
    parts = typer.Typer(
        no_args_is_help=True,
        help="Back up and restore the state store in a data folder. For a store in PostgreSQL, use pg_dump and pg_restore.",
    )
    parts.command("backup")(backup)
    parts.command("restore")(restore)
    app.add_typer(parts, name="state")


def backup(file: FileArgument, data: DataOption = Path("lakeward-data")) -> None:
    """Copy the state store as of one moment, with or without a running service. The backup has no rows of tables and no lake tables.

    Example: lakeward state backup state-2026-11-24.db --data ./lakeward-data
    """
    from tiering.cli.processes.data_folder import read_data_folder

    source = read_data_folder(data).store_file
    target = file.expanduser()
    if target.exists():
        raise SetupError(f"the file {target} already exists", hint="Name a new file: a backup does not overwrite files.")
    _check(source, "the data folder's state store")
    unfinished = _new_file_beside(target)
    _copied(source, unfinished)
    os.replace(unfinished, target)
    sync_folder(target.absolute().parent)
    print(f"backed up {source} to {target}: {target.stat().st_size:,} bytes")


def restore(file: FileArgument, data: DataOption = Path("lakeward-data")) -> None:
    """Replace the state store by a backup. No service may run on the folder. The former store stays beside the new one.

    The next start finds in the lake what was tiered since the backup. History, pauses and options since the backup are lost.

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
        raise SetupError(
            f"a service runs on {folder.root}", hint="Stop the service first: it would continue with the state that it has in memory."
        )
    try:
        _check_cluster(source, folder)
        unfinished = folder.restoring_file.with_name(folder.restoring_file.name + UNFINISHED)
        _copied(source, unfinished, later=EPOCHS_LEFT_OUT)
        _exchange(folder, unfinished)
    except OSError as error:
        raise SetupError(
            f"cannot restore {folder.store_file}: {error}", hint="Remove the cause, and run the same command again."
        ) from error
    finally:
        lock.release()
    print(f"restored {folder.store_file} from {source}; the former store, if there was one, is coordinator.db{PUT_ASIDE}")


def _exchange(folder: DataFolder, unfinished: Path) -> None:
    """Moves the former store aside and the new store into its place.

    If the process dies at any step, the former store is complete, or the new store is in its place, or the next start refuses the folder
    until the restore is repeated (`check_restore_ended`).
    """
    os.replace(unfinished, folder.restoring_file)
    sync_folder(folder.root)
    if folder.store_file.exists():
        for part in ("-wal", "-shm"):  # parts of a store that an earlier restore moved aside, which this restore replaces
            _aside(folder, part).unlink(missing_ok=True)
    # Move the store itself first: a start would take a store without its write-ahead log as complete.
    for part in ("", "-wal", "-shm"):
        former = folder.store_file.with_name(folder.store_file.name + part)
        if former.exists():
            os.replace(former, _aside(folder, part))
            sync_folder(folder.root)
    os.replace(folder.restoring_file, folder.store_file)
    sync_folder(folder.root)


def _aside(folder: DataFolder, part: str) -> Path:
    return folder.store_file.with_name(folder.store_file.name + PUT_ASIDE + part)


def _check_cluster(backup_file: Path, folder: DataFolder) -> None:
    """Raises SetupError for a backup of the state of another cluster."""
    backed_up, present = _cluster_of(backup_file), _cluster_of(folder.store_file) or _embedded_cluster(folder)
    if backed_up is not None and present is not None and backed_up != present:
        raise SetupError(
            f"{backup_file} has the state of the cluster {backed_up!r}, and {folder.root} belongs to the cluster {present!r}",
            hint="Name a backup of this folder's store, or name with --data the folder of the backup.",
        )


def _cluster_of(store_file: Path) -> str | None:
    """Returns the cluster of a state store, or None for a store of an older version, a store never used, or an unreadable one."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{store_file.absolute().as_uri()}?mode=ro", uri=True)) as database:
        row = database.execute("SELECT cluster FROM lakeward_leader").fetchone()
        return None if row is None else str(row[0])
    return None


def _embedded_cluster(folder: DataFolder) -> str | None:
    """Returns the id of the embedded cluster in the folder, or None if there is none or this version cannot read it."""
    from tiering.cluster.registry import EMBEDDED, cluster_kind

    if not cluster_kind(EMBEDDED).is_in(folder.cluster):
        return None
    try:
        cluster = cluster_kind(EMBEDDED).open_read_only(folder.cluster)
    except SetupError:
        return None
    try:
        return cluster.cluster_id
    finally:
        cluster.close()


def _check(file: Path, name: str) -> None:
    """Raises SetupError for a file that is not a state store, or that is damaged."""
    hint = "Name the data folder of a coordinator that ran with --data, or a file that `lakeward state backup` wrote."
    if not file.is_file():
        raise SetupError(f"{name} is missing: there is no file {file}", hint=hint)
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            [[sound]] = database.execute("PRAGMA quick_check(1)").fetchall()
            database.execute("SELECT epoch FROM lakeward_owner").fetchone()
    except sqlite3.Error as error:
        raise SetupError(f"{file} is not a state store: {error}", hint=hint) from error
    if sound != "ok":
        raise SetupError(f"the state store {file} is damaged: {sound}", hint="Use another backup.")


def _new_file_beside(target: Path) -> Path:
    """Creates an empty file with an unpredictable name, which only its owner can read. Raises SetupError.

    With a predictable name, another user of a shared folder could place a link there and redirect the copy.
    """
    try:
        descriptor, name = tempfile.mkstemp(UNFINISHED, f".{target.name}.", target.absolute().parent)
    except OSError as error:
        raise SetupError(f"cannot write beside {target}: {error}", hint="Check the free space and the permissions of this user.") from error
    os.close(descriptor)
    return Path(name)


def _copied(source: Path, target: Path, later: int = 0) -> None:
    """Copies a store as of one moment (SQLite's online backup) with its epoch increased by `later`, and syncs the copy. Only its owner can
    read the copy. Raises SetupError."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as reading,
            closing(sqlite3.connect(target)) as writing,
        ):
            reading.backup(writing)
            writing.execute("PRAGMA journal_mode=DELETE")
            writing.execute("UPDATE lakeward_owner SET epoch = epoch + ?", (later,))
            writing.commit()
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except (OSError, sqlite3.Error) as error:
        target.unlink(missing_ok=True)
        raise SetupError(
            f"cannot copy {source} to {target}: {error}", hint="Check the free space and the permissions of this user."
        ) from error
