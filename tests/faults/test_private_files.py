"""Nothing that a running deployment writes can be read by others, however loose its umask: rows, state, lake, logs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment
from support.spark.class_archive import executor_conf
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A deployment of a user whose umask lets every user write everything; every round is a Spark job of two executors."""
    before = os.umask(0)
    deployment = Deployment(tmp_path)
    try:
        (tmp_path / "data").mkdir(mode=0o777)
        deployment.start_coordinator("--inline-round-bytes", "0")
        deployment.start_tierer("cluster", "--master", "local-cluster[1,1,1024]", *executor_conf())
        yield deployment
    finally:
        os.umask(before)
        deployment.close()


def test_everything_in_the_data_folder_is_its_owners_alone(deployment: Deployment) -> None:
    deployment.create(ORDERS)
    deployment.append(ORDERS, 0, 3_000)
    deployment.wait_tiered(ORDERS, 120)

    root = deployment.data.root
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in [root, *root.rglob("*")]}
    assert {path for path, mode in modes.items() if mode & 0o077} == set()
    assert {"coordinator.db-wal", "lake-catalog.db", "VERSION", "LOCK"} <= {path.name for path in modes}
    assert any(path.suffix == ".parquet" and path.is_relative_to(root / "lake") for path in modes)
    assert any(path.is_relative_to(root / "cluster") and path.is_file() for path in modes)
