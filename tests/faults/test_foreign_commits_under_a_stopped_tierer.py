"""Another program rewrites the lake table while a tierer's process is stopped in the middle of its round. After it continues, the table is
exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.running.cluster_of_processes import Deployment, wait_stopped, wake
from tiering import crash_points
from tiering.lake.registry import open_lake
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
COUNT = 900


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """The service timeout is longer than the test: the round that wakes up is still the one that owns the table."""
    deployment = Deployment(tmp_path)
    try:
        deployment.start_coordinator("--service-timeout-ms", "120000")
        yield deployment
    finally:
        deployment.close()


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", [kind for kind in LAKE_KINDS if kind.layout.has_row_offsets], ids=lambda kind: kind.name)
def test_a_rewrite_under_a_stopped_tierer_is_built_upon_by_its_very_round(deployment: Deployment, kind: LakeKind) -> None:
    deployment.create(ORDERS, kind=kind)
    deployment.append(ORDERS, 0, COUNT)
    tierer = deployment.start_tierer("sleeper", crash_point=f"{crash_points.AFTER_FENCE}@2:stop")
    deployment.wait_tiered(ORDERS, 120)
    deployment.append(ORDERS, COUNT, COUNT)
    wait_stopped(tierer)
    stopped = deployment.status(ORDERS)
    assert stopped.status == "Tiering"
    by_hand = deployment.by_hand(kind)
    by_hand.rewrite(ORDERS)
    foreign = by_hand.head(ORDERS)
    wake(tierer)
    deployment.wait_tiered(ORDERS, 120)
    deployment.assert_exact(ORDERS, 2 * COUNT)
    view = open_lake(kind.format, deployment.data.lake_properties).view(ORDERS)
    assert view is not None
    assert [snapshot.round_id for snapshot in view.snapshots.values() if snapshot.parent_id == foreign] == [stopped.round_id]
    assert deployment.status(ORDERS).error_count == 0
