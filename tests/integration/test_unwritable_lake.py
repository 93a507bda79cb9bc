"""A lake folder that cannot be written: the table fails with its name in the error, and nothing is lost once it is mended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.processes import wait_for
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
COUNT = 30


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A deployment whose warehouse is below a file."""
    deployment = Deployment(tmp_path)
    (tmp_path / "blocked").write_text("a file where a folder has to be")
    try:
        deployment.start_coordinator("--lake-property", "type=sql", *warehouse(deployment, tmp_path))
        deployment.start_tierer("first")
        yield deployment
    finally:
        deployment.close()


def lake_properties(deployment: Deployment, folder: Path) -> dict[str, str]:
    return {**deployment.data.lake_properties, "warehouse": f"file://{folder / 'blocked' / 'lake'}"}


def warehouse(deployment: Deployment, folder: Path) -> list[str]:
    return [word for name, value in lake_properties(deployment, folder).items() for word in ("--lake-property", f"{name}={value}")]


def test_the_error_names_the_folder_and_the_mend_brings_every_row(deployment: Deployment, tmp_path: Path) -> None:
    deployment.create(ORDERS)
    deployment.append(ORDERS, 0, COUNT)
    status = wait_for("the table fails", lambda: s if (s := deployment.status(ORDERS)).error_class else None)
    assert status.error_class == "LakeUnavailable"
    assert status.last_error is not None
    assert str(tmp_path / "blocked") in status.last_error
    assert (status.error_retryable, status.pending_records, status.lake_records) == (True, COUNT, None)
    (tmp_path / "blocked").unlink()
    deployment.wait_tiered(ORDERS)
    deployment.assert_exact(ORDERS, COUNT, lake_properties(deployment, tmp_path))
