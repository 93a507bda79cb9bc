"""A segment that lost its tail: an error that says where, nothing past it in the lake, nothing lost once it is restored."""

from __future__ import annotations

from pathlib import Path

from support.lakes.lake_proof import lake_rows
from support.running.cluster_of_processes import Deployment
from support.running.processes import wait_for
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
COUNT = 90


def newest_segment(deployment: Deployment) -> Path:
    return max((deployment.data.cluster / "log").rglob("*.arrow"), key=lambda path: path.stat().st_mtime_ns)


def test_a_torn_segment_fails_its_table_by_name_and_tiers_once_it_is_restored(deployment: Deployment) -> None:
    deployment.create(ORDERS, buckets=1)
    deployment.start_inline_tierer("only")
    deployment.append(ORDERS, 0, COUNT, pieces=1)
    deployment.wait_tiered(ORDERS)
    deployment.append(ORDERS, COUNT, COUNT, pieces=1)
    segment = newest_segment(deployment)
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    status = wait_for("the round fails", lambda: latest if (latest := deployment.status(ORDERS)).error_class else None)
    assert (status.error_class, status.error_phase, status.error_retryable) == ("DataCorrupt", "READ", False)
    assert status.last_error is not None
    for named in (segment.name, "bucket 0", f"[{COUNT}, {2 * COUNT})"):
        assert named in status.last_error
    assert sorted(lake_rows(deployment.data.lake_properties, ORDERS)["id"].to_pylist()) == list(range(COUNT))
    segment.write_bytes(whole)
    deployment.lakeward("tier", str(ORDERS))
    deployment.assert_exact(ORDERS, 2 * COUNT)
