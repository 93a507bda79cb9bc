"""The commands over a lake in S3 with a REST catalog: rounds, SQL, validation; with the catalog's keys, and with a process's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.object_store.deployment import DeploymentOnS3, on_s3
from support.object_store.rest_server import rest_catalog_server
from support.object_store.s3_server import S3Server
from tiering.model.tables import TablePath

COUNT = 900


@pytest.fixture(params=[True, False], ids=["vended keys", "own keys"])
def deployment(request: pytest.FixtureRequest, s3_store: S3Server, tmp_path: Path) -> Iterator[DeploymentOnS3]:
    folder = tmp_path / "catalog"
    folder.mkdir()
    (tmp_path / "ours").mkdir()
    with rest_catalog_server(folder, s3_store, vends=request.param) as catalog:
        deployment = on_s3(tmp_path / "ours", catalog)
        try:
            deployment.start_coordinator()
            yield deployment
        finally:
            deployment.close()


def test_rounds_of_a_log_table_are_exact_and_leave_no_key_behind(deployment: DeploymentOnS3) -> None:
    orders = TablePath("sales", "orders_vended" if deployment.catalog.vends else "orders_own")
    deployment.create(orders)
    deployment.append(orders, 0, COUNT)
    deployment.start_tierer("first")
    deployment.wait_tiered(orders)
    deployment.append(orders, COUNT, COUNT)
    deployment.wait_tiered(orders)
    deployment.assert_exact(orders, 2 * COUNT)
    assert any(name.endswith(".parquet") for name in deployment.catalog.store.files("warehouse/sales"))
    deployment.assert_no_secret_left()
