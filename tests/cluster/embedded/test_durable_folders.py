"""After a power cut every folder and file of the cluster that the metadata relies on has its name; nothing is synced twice for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from support.clusters.embedded import DAYS, PATH, cities, days, make_table
from support.running.synced import watched_syncs
from tiering.cli.processes.data_folder import open_data_folder
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.files import durable_files
from tiering.files.durable_files import make_folder
from tiering.files.private_files import make_folders_like_their_parent
from tiering.model.tables import TablePath

REPLACEABLE = {"kv", "LOCK", "meta.db-wal", "meta.db-shm"}
"""A KV state is made anew from the log; SQLite cares for its own files."""


def test_every_folder_and_file_of_a_new_cluster_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "data" / "cluster"
    with watched_syncs(monkeypatch) as syncs, EmbeddedStorage(root) as storage:
        make_table(storage, schema=DAYS, partition_keys=("region", "day"), path=TablePath("sales", "events"))
        storage.append(TablePath("sales", "events"), days((1, "north", "2024-01-01"), (2, "south", "2024-01-02")), "writer", 0)
        make_table(storage, primary_key=("id",))
        storage.upsert(PATH, cities((1, "Oslo")), "writer", 0)
        storage.take_kv_snapshots(PATH)
        storage.drop_partition(TablePath("sales", "events"), "north$2024-01-01")
        kept = [path for path in [root.parent, root, *root.rglob("*")] if not REPLACEABLE & set(path.relative_to(tmp_path).parts)]
        assert {path.suffix for path in kept} == {"", ".db", ".arrow", ".parquet", ".dropped"}
        assert set(kept) <= syncs.durable


def test_a_folder_is_synced_once_for_being_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedStorage(tmp_path) as storage:
        make_table(storage)
        storage.append(PATH, cities((1, "Oslo")), "writer", 0)
        with watched_syncs(monkeypatch) as syncs:
            storage.append(PATH, cities((2, "Lima")), "writer", 1)
        assert [path.name for path in syncs.paths if path.is_dir()] == ["1"]


def test_missing_folders_are_made_from_the_top_each_durable_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched_syncs(monkeypatch) as syncs:
        make_folder(tmp_path / "a" / "b" / "c")
        make_folder(tmp_path / "a" / "b" / "c")
    assert syncs.paths == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]


@pytest.mark.parametrize("make", [make_folder, make_folders_like_their_parent])
def test_no_thread_uses_a_folder_before_its_name_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    syncing, go_on = threading.Event(), threading.Event()

    def slow_sync(folder: Path) -> None:
        syncing.set()
        assert go_on.wait(10)

    monkeypatch.setattr(durable_files, "sync_folder", slow_sync)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(make, tmp_path / "new")
        assert syncing.wait(10)
        assert (tmp_path / "new").is_dir()
        second = threads.submit(make, tmp_path / "new")
        assert not wait([second], timeout=0.2).done
        go_on.set()
        first.result()
        second.result()


def test_a_data_folder_and_its_parts_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched_syncs(monkeypatch) as syncs:
        folder = open_data_folder(tmp_path / "new" / "data")
    assert {folder.root.parent, folder.root, folder.cluster, folder.logs, folder.root / "lake"} <= syncs.durable


def test_a_folder_with_only_files_of_its_file_system_counts_as_empty(tmp_path: Path) -> None:
    for name in (".DS_Store", "lost+found"):
        (tmp_path / name).mkdir()
    assert open_data_folder(tmp_path).root == tmp_path
