"""The commands over Paimon tables in S3: a real tierer with Spark, validation, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.faulty.deployment import ACCOUNTS, ORDERS
from support.lake_kinds.kinds import PAIMON, PAIMON_CLEAN, LakeKind
from support.object_store.deployment import DeploymentOnS3, on_s3
from support.object_store.faulty_http import Fault, faulty_http
from support.object_store.paimon_warehouse import PaimonWarehouse
from support.object_store.s3_server import S3Server
from support.running.processes import wait_for
from tiering.lake.paimon.storage.s3 import PROBE

SPARK_STARTED_SECONDS = 280
"""Until everything is in the lake, with the start of a Spark session before it, on a machine on which much else runs."""


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> LakeKind:
    """Kind of lake, from the test's parameters."""
    kind: LakeKind = request.param
    return kind


@pytest.fixture
def deployment(kind: LakeKind, s3_store: S3Server, tmp_path: Path) -> Iterator[DeploymentOnS3]:
    deployment = on_s3(tmp_path, PaimonWarehouse(s3_store), kind)
    try:
        deployment.start_coordinator()
        deployment.make_tables()
        yield deployment
    finally:
        deployment.close()


@pytest.mark.soak
@pytest.mark.parametrize("kind", [PAIMON, PAIMON_CLEAN], ids=lambda kind: kind.name, indirect=True)
def test_rounds_are_exact_and_proved_and_leave_no_key_behind(deployment: DeploymentOnS3) -> None:
    deployment.write()
    deployment.start_tierer("first")
    deployment.settle(SPARK_STARTED_SECONDS)
    deployment.write()
    deployment.settle()
    for path in (ORDERS, ACCOUNTS):
        deployment.validate(path)
    printed = deployment.lakeward("sql", "--engine", "duckdb", f"SELECT count(*) FROM fluss.{ORDERS}", status=1)
    assert "is not a local file" in printed
    assert "pypaimon" in printed
    deployment.assert_no_secret_left()


@pytest.mark.soak
@pytest.mark.parametrize("kind", [PAIMON_CLEAN], ids=lambda kind: kind.name, indirect=True)
def test_validation_names_a_file_that_was_removed_from_s3(deployment: DeploymentOnS3) -> None:
    deployment.write()
    deployment.start_inline_tierer("first")
    deployment.settle()
    removed = str(deployment.by_hand(PAIMON_CLEAN).data_files(ORDERS)[0])
    deployment.catalog.store.file_system().delete_file(removed)
    assert f"s3://{removed}" in deployment.lakeward("validate", str(ORDERS), status=1)


def test_a_store_that_ignores_conditions_is_a_permanent_error_that_names_it(s3_store: S3Server, tmp_path: Path) -> None:
    with faulty_http(s3_store.endpoint) as proxy:
        proxy.add(Fault.ERROR_INSTEAD, "PUT", PROBE, status=200)
        deployment = on_s3(tmp_path, PaimonWarehouse(s3_store), PAIMON, **{"s3.endpoint": proxy.uri})
        try:
            deployment.start_coordinator()
            deployment.make_tables()
            deployment.write()
            deployment.start_inline_tierer("first")
            wait_for("the store is refused", lambda: deployment.status(ORDERS).error_class == "InvalidArgument", 120)
            assert "ignores If-None-Match" in str(deployment.status(ORDERS).last_error)
        finally:
            deployment.close()
