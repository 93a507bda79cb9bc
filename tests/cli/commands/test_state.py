"""`lakeward state`: a copy of the store while it is used, and back again."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tiering.cli.commands import state
from tiering.cli.commands.state import PUT_ASIDE, backup, restore
from tiering.cli.processes.coordinator import running_coordinator
from tiering.cli.processes.data_folder import DataFolder, check_restore_ended, open_data_folder
from tiering.cli.terminal.service_options import ServiceOptions
from tiering.coordinator.memory.leader import Leader
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.coordinator.memory.store import EPOCHS_LEFT_OUT
from tiering.errors import SetupError
from tiering.files.folder_lock import FolderLock


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    folder = open_data_folder(tmp_path / "data")
    store = SqlStore(folder.store_url)
    assert store.take_over() == 1
    store.close()
    return folder


def test_a_backup_is_one_moment_of_a_store_in_use_and_comes_back_with_later_epochs(folder: DataFolder, tmp_path: Path) -> None:
    with_lock = FolderLock(folder.root)
    with_lock.acquire()
    store = SqlStore(folder.store_url)
    backup(tmp_path / "copy.db", folder.root)
    store.take_over()
    store.close()
    with_lock.release()
    restore(tmp_path / "copy.db", folder.root)
    store = SqlStore(folder.store_url)
    assert store.take_over() == 1 + EPOCHS_LEFT_OUT + 1
    store.close()
    assert (folder.root / "coordinator.db.before-restore").is_file()
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


def test_nothing_is_restored_under_a_service_that_runs(folder: DataFolder, tmp_path: Path) -> None:
    backup(tmp_path / "copy.db", folder.root)
    lock = FolderLock(folder.root)
    lock.acquire()
    with pytest.raises(SetupError, match="a service runs on"):
        restore(tmp_path / "copy.db", folder.root)
    lock.release()


@pytest.mark.parametrize("content", [None, b"no database at all" * 100, b""])
def test_what_is_no_backup_is_refused_and_the_store_stays(folder: DataFolder, tmp_path: Path, content: bytes | None) -> None:
    before = folder.store_file.read_bytes()
    if content is not None:
        (tmp_path / "copy.db").write_bytes(content)
    with pytest.raises(SetupError, match=r"missing|is not a state store"):
        restore(tmp_path / "copy.db", folder.root)
    assert folder.store_file.read_bytes() == before


def test_a_backup_replaces_no_file(folder: DataFolder, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("something")
    with pytest.raises(SetupError, match="already exists"):
        backup(tmp_path / "copy.db", folder.root)
    assert (tmp_path / "copy.db").read_text() == "something"


def test_a_damaged_store_is_not_backed_up(folder: DataFolder, tmp_path: Path) -> None:
    with sqlite3.connect(folder.store_file) as connection:
        connection.execute("DROP TABLE lakeward_owner")
    with pytest.raises(SetupError, match="is not a state store"):
        backup(tmp_path / "copy.db", folder.root)
    assert not (tmp_path / "copy.db").exists()


class Died(BaseException):
    """In the place of a kill."""


def dies_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The process dies before that change of a name; returns how many there were."""
    changes: list[str] = []

    def replaced(source: Path, target: Path) -> None:
        changes.append(f"{source} {target}")
        if len(changes) == step:
            raise Died
        os.rename(source, target)

    monkeypatch.setattr(state.os, "replace", replaced)
    return lambda: len(changes)


def epoch_in(store_file: Path) -> int:
    with closing(sqlite3.connect(store_file)) as database:
        [[epoch]] = database.execute("SELECT epoch FROM lakeward_owner").fetchall()
    return int(epoch)


def killed_copy(folder: DataFolder, target: Path) -> DataFolder:
    """A data folder whose coordinator was killed when its second epoch stood in the write-ahead log alone."""
    copy = open_data_folder(target)
    store = SqlStore(folder.store_url)
    assert store.take_over() == 2
    for name in ("coordinator.db", "coordinator.db-wal"):
        shutil.copy(folder.root / name, copy.root / name)
    store.close()
    return copy


@pytest.mark.parametrize("step", range(1, 5))
def test_a_restore_that_dies_leaves_the_former_store_or_is_asked_for_again(
    folder: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    backup(tmp_path / "copy.db", folder.root)
    killed = killed_copy(folder, tmp_path / "killed")
    with monkeypatch.context() as patched:
        changes = dies_at(step, patched)
        with pytest.raises(Died):
            restore(tmp_path / "copy.db", killed.root)
        assert changes() == step
    if killed.store_file.exists():
        check_restore_ended(killed)
    else:
        with pytest.raises(SetupError, match="was interrupted") as raised:
            asyncio.run(start(killed))
        assert "lakeward state restore" in raised.value.hint
    restore(tmp_path / "copy.db", killed.root)
    assert epoch_in(killed.store_file) == 1 + EPOCHS_LEFT_OUT
    assert epoch_in(killed.store_file.with_name(f"coordinator.db{PUT_ASIDE}")) == 2
    assert not killed.restoring_file.exists()


def test_a_store_put_aside_does_not_take_over_an_earlier_write_ahead_log(folder: DataFolder, tmp_path: Path) -> None:
    backup(tmp_path / "copy.db", folder.root)
    killed = killed_copy(folder, tmp_path / "killed")
    restore(tmp_path / "copy.db", killed.root)
    assert (killed.root / f"coordinator.db{PUT_ASIDE}-wal").is_file()
    restore(tmp_path / "copy.db", killed.root)
    assert epoch_in(killed.root / f"coordinator.db{PUT_ASIDE}") == 1 + EPOCHS_LEFT_OUT


async def start(folder: DataFolder) -> None:
    """Starts a coordinator on the folder and ends it."""
    settings = ServiceOptions(folder.root, port=0)
    async with running_coordinator(settings, asyncio.Event()) as running:
        assert running is not None


def test_a_backup_of_another_cluster_is_refused_and_so_is_a_start_on_it(tmp_path: Path) -> None:
    ours, other = open_data_folder(tmp_path / "ours"), open_data_folder(tmp_path / "other")
    for folder in (ours, other):
        asyncio.run(start(folder))
    backup(tmp_path / "other.db", other.root)
    before = epoch_in(ours.store_file)
    with pytest.raises(SetupError, match="has the state of the cluster"):
        restore(tmp_path / "other.db", ours.root)
    assert epoch_in(ours.store_file) == before
    for file in ours.root.glob("coordinator.db*"):
        file.unlink()
    with pytest.raises(SetupError, match="has the state of the cluster"):
        restore(tmp_path / "other.db", ours.root)
    shutil.copy(tmp_path / "other.db", ours.store_file)
    with pytest.raises(SetupError, match="the state store has the state of the cluster"):
        asyncio.run(start(ours))


def test_a_store_says_whose_it_is_although_its_folder_has_no_cluster_of_its_own(folder: DataFolder, tmp_path: Path) -> None:
    backup(tmp_path / "before.db", folder.root)
    store = SqlStore(folder.store_url)
    epoch = store.take_over()
    store.lead(Leader(epoch, "", "sales"))
    backup(tmp_path / "sales.db", folder.root)
    store.lead(Leader(epoch, "", "stocks"))
    store.close()
    with pytest.raises(SetupError, match=r"'sales'.*'stocks'"):
        restore(tmp_path / "sales.db", folder.root)
    restore(tmp_path / "before.db", folder.root)  # of an older version: it names no cluster


def test_a_backup_is_not_written_through_a_link_at_its_path(folder: DataFolder, tmp_path: Path) -> None:
    """In a folder that others may write to, such as /tmp."""
    victim, target = tmp_path / "victim", tmp_path / "backup.db"
    victim.write_text("as it was")
    links = {f"{target.name}.unfinished", f".{target.name}.unfinished"}
    for name in links:
        (tmp_path / name).symlink_to(victim)
    backup(target, folder.root)
    assert victim.read_text() == "as it was"
    assert target.stat().st_mode & 0o777 == 0o600
    assert not target.is_symlink()
    assert {path.name for path in tmp_path.iterdir() if "unfinished" in path.name} == links
