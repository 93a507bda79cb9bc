"""The coordinator is killed in its store's transactions and between store and cluster; afterwards all agree again."""

from __future__ import annotations

import signal

import pytest

from support.depth import soaked
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, PAIMON, PAIMON_CLEAN, LakeKind
from support.running.cluster_of_processes import Deployment, rows
from tiering import crash_points
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.log_writer import LogWriter
from tiering.lake.registry import open_lake
from tiering.lake.rules.base_check import tiered_offsets
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
COUNT = 90
TRANSACTIONS = 8
"""From a start to the end of a round: restored, pending, assigned, planned, granted, acked, cluster told, finished."""


def append_at_rest(deployment: Deployment, start: int) -> None:
    """While no coordinator has the folder open, so that the next one finds work from its first moment on."""
    with EmbeddedStorage(deployment.data.cluster) as cluster:
        writer = LogWriter(cluster, ORDERS, f"at-rest-{start}")
        for piece in range(3):
            writer.append(rows(start + piece * COUNT // 3, COUNT // 3))


def each_transaction(point: str) -> list[str]:
    return [f"{point}@{number}" for number in range(1, TRANSACTIONS + 1)]


BEFORE_EACH_COMMIT = each_transaction(crash_points.STORE_BEFORE_COMMIT)
AFTER_EACH_COMMIT_AND_AFTER_AN_ACK = [*each_transaction(crash_points.STORE_AFTER_COMMIT), crash_points.ACK_STORED]


CASES = (
    (BEFORE_EACH_COMMIT, ICEBERG),
    soaked((BEFORE_EACH_COMMIT, PAIMON_CLEAN), of_ci=False),
    soaked((AFTER_EACH_COMMIT_AND_AFTER_AN_ACK, ICEBERG_CLEAN), of_ci=False),
    (AFTER_EACH_COMMIT_AND_AFTER_AN_ACK, PAIMON),
)
"""The coordinator reads only the marker of the lake: each format has one in both layouts. A death costs seconds."""


@pytest.mark.in_turn("places", "kind")
@pytest.mark.parametrize(("places", "kind"), CASES, ids=["before-iceberg", "before-paimon-clean", "after-iceberg-clean", "after-paimon"])
def test_a_coordinator_killed_around_any_commit_of_its_store_loses_and_doubles_nothing(
    deployment: Deployment, places: list[str], kind: LakeKind
) -> None:
    deployment.create(ORDERS, kind=kind)
    deployment.start_inline_tierer("only")
    die_and_start_again(deployment, places)
    view = open_lake(kind.format, deployment.data.lake_properties).view(ORDERS)
    with deployment.cluster() as cluster:
        recorded = cluster.lake_snapshot(cluster.table(ORDERS))
    assert view is not None
    assert view.marker is not None
    assert recorded is not None
    assert dict(recorded.offsets) == tiered_offsets(view.marker)


def die_and_start_again(deployment: Deployment, places: list[str]) -> None:
    """One death after the other, each with new rows; after the last one a coordinator that lives."""
    port = deployment.port
    deployment.processes[0].send(signal.SIGKILL)
    deployment.processes[0].wait_ended()
    for number, place in enumerate(places):
        append_at_rest(deployment, number * COUNT)
        dying = deployment.start_coordinator(port=port, crash_point=place)
        assert dying.wait_ended() == -signal.SIGKILL, dying.output()
    deployment.start_coordinator(port=port)
    deployment.append(ORDERS, len(places) * COUNT, COUNT)
    deployment.wait_tiered(ORDERS)
    deployment.assert_exact(ORDERS, (len(places) + 1) * COUNT)
