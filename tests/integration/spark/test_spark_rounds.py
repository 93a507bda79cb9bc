"""Rounds as Spark jobs on executors that share nothing with the driver but files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_kinds.kinds import PAIMON
from support.lakes.paimon_kit import PaimonKit
from support.running.cluster_of_processes import Deployment
from support.running.processes import wait_for
from support.spark.class_archive import executor_conf
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
PARTS = TablePath("sales", "parts")
BROKEN = TablePath("sales", "broken")
COUNT = 30_000


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A coordinator that sends every round to Spark, and a tierer with two executor processes."""
    processes = Deployment(tmp_path)
    try:
        processes.start_coordinator("--inline-round-bytes", "0", "--service-timeout-ms", "30000")
        settings = ("--conf", "spark.executorEnv.LAKEWARD_TEST=1", *executor_conf())
        processes.start_tierer("cluster", "--master", "local-cluster[2,1,1024]", *settings)
        yield processes
    finally:
        processes.close()


def test_rounds_on_executors_are_exact_and_a_corrupted_segment_is_named(deployment: Deployment) -> None:
    deployment.create(ORDERS)
    deployment.append(ORDERS, 0, COUNT, pieces=9)
    deployment.wait_tiered(ORDERS, 120)
    deployment.append(ORDERS, COUNT, COUNT, pieces=9)
    deployment.wait_tiered(ORDERS, 120)
    deployment.assert_exact(ORDERS, 2 * COUNT)

    deployment.create(PARTS, kind=PAIMON)
    deployment.append(PARTS, 0, COUNT, pieces=9)
    deployment.wait_tiered(PARTS, 120)
    rows = PaimonKit(deployment.data.root).read(PARTS)
    assert sorted(rows["id"].to_pylist()) == list(range(COUNT))
    assert len(set(zip(rows["__bucket"].to_pylist(), rows["__offset"].to_pylist(), strict=True))) == COUNT

    deployment.create(BROKEN, freshness="1 h")
    deployment.append(BROKEN, 0, 90)
    segment = flip_a_bit_in_the_newest_segment(deployment.data.cluster)
    deployment.lakeward("tier", str(BROKEN), "--no-wait")
    status = wait_for("the round fails", lambda: s if (s := deployment.status(BROKEN)).error_class else None)
    assert (status.error_class, status.error_phase) == ("DataCorrupt", "READ")
    assert status.last_error is not None
    assert segment.name in status.last_error
    assert status.lake_records is None


def flip_a_bit_in_the_newest_segment(cluster: Path) -> Path:
    newest = max((cluster / "log").rglob("*.arrow"), key=lambda path: path.stat().st_mtime_ns)
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    return newest
