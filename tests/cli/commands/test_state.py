"""`lakeward state`: a copy of the store while it is used, and back again."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tiering.cli.commands.state import backup, restore
from tiering.cli.processes.data_folder import DataFolder, open_data_folder
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
    with pytest.raises(SetupError, match=r"missing|is no state store"):
        restore(tmp_path / "copy.db", folder.root)
    assert folder.store_file.read_bytes() == before


def test_a_backup_replaces_no_file(folder: DataFolder, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("something")
    with pytest.raises(SetupError, match="exists already"):
        backup(tmp_path / "copy.db", folder.root)
    assert (tmp_path / "copy.db").read_text() == "something"


def test_a_damaged_store_is_not_backed_up(folder: DataFolder, tmp_path: Path) -> None:
    with sqlite3.connect(folder.store_file) as connection:
        connection.execute("DROP TABLE lakeward_owner")
    with pytest.raises(SetupError, match="is no state store"):
        backup(tmp_path / "copy.db", folder.root)
    assert not (tmp_path / "copy.db").exists()
