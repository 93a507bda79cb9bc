"""Real processes are killed and stopped at the worst moments; afterwards every offset is in the lake once."""

from __future__ import annotations

import signal

import pytest

from support.lake_kinds.kinds import ICEBERG, LAKE_KINDS, PAIMON, LakeKind
from support.running.cluster_of_processes import Deployment, wait_stopped, wake
from support.running.processes import wait_for
from tiering import crash_points
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
COUNT = 900
OTHER_KINDS = [kind for kind in LAKE_KINDS if kind != ICEBERG]


def name_of(value: str | LakeKind) -> str:
    return value.name if isinstance(value, LakeKind) else value


@pytest.mark.in_turn("point", "kind")
@pytest.mark.parametrize(
    ("point", "kind"),
    [*((point, ICEBERG) for point in crash_points.IN_ROUND), *((crash_points.AFTER_LAKE_COMMIT, kind) for kind in OTHER_KINDS)],
    ids=name_of,
)
def test_a_tierer_killed_anywhere_in_its_round_leaves_every_offset_once(deployment: Deployment, point: str, kind: LakeKind) -> None:
    """Rounds in lakes of other kinds are killed at each point in test_killed_rounds."""
    deployment.create(ORDERS, kind=kind)
    deployment.append(ORDERS, 0, COUNT)
    first = deployment.start_tierer("first", crash_point=point)
    assert first.wait_ended() == -signal.SIGKILL
    deployment.append(ORDERS, COUNT, COUNT)
    deployment.start_inline_tierer("second")
    deployment.wait_tiered(ORDERS)
    deployment.assert_exact(ORDERS, 2 * COUNT)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("point", "kind"),
    [(crash_points.AFTER_FILES, ICEBERG), (crash_points.AFTER_FENCE, ICEBERG), (crash_points.AFTER_FENCE, PAIMON)],
    ids=name_of,
)
def test_a_tierer_that_slept_through_its_timeout_adds_nothing_when_it_wakes(deployment: Deployment, point: str, kind: LakeKind) -> None:
    deployment.create(ORDERS, kind=kind)
    deployment.append(ORDERS, 0, COUNT)
    sleeper = deployment.start_tierer("sleeper", crash_point=f"{point}:stop")
    wait_stopped(sleeper)
    other = deployment.start_inline_tierer("other")
    deployment.wait_tiered(ORDERS)
    deployment.assert_exact(ORDERS, COUNT)
    deployment.by_hand(kind).rewrite(ORDERS)
    wake(sleeper)
    wait_for("the sleeper's round ends", lambda: "FENCED" in sleeper.output())
    deployment.assert_exact(ORDERS, COUNT)
    other.close()
    deployment.append(ORDERS, COUNT, COUNT)
    deployment.wait_tiered(ORDERS)
    deployment.assert_exact(ORDERS, 2 * COUNT)


def test_a_stopped_tierer_gives_its_table_back_and_ends_within_ten_seconds(deployment: Deployment) -> None:
    deployment.create(ORDERS)
    deployment.append(ORDERS, 0, COUNT)
    tierer = deployment.start_tierer("first", crash_point=f"{crash_points.BEFORE_FENCE}:stop")
    wait_stopped(tierer)
    tierer.send(signal.SIGTERM)
    wake(tierer)
    assert tierer.wait_ended() == 0
    status = deployment.status(ORDERS)
    assert status.last_error is None or "tierer stopped" in status.last_error
    assert status.status in ("Failed", "Pending", "Scheduled")  # the last where the round was granted before the stop was noticed
    deployment.start_inline_tierer("second")
    deployment.wait_tiered(ORDERS)
    deployment.assert_exact(ORDERS, COUNT)


@pytest.mark.in_turn("point", "kind")
@pytest.mark.parametrize(
    ("point", "kind"), [(crash_points.AFTER_FILES, ICEBERG), *((crash_points.AFTER_LAKE_COMMIT, kind) for kind in LAKE_KINDS)], ids=name_of
)
def test_a_coordinator_killed_under_a_round_takes_it_up_again(deployment: Deployment, point: str, kind: LakeKind) -> None:
    deployment.create(ORDERS, kind=kind)
    deployment.append(ORDERS, 0, COUNT)
    tierer = deployment.start_tierer("first", crash_point=f"{point}:stop")
    wait_stopped(tierer)
    coordinator = deployment.processes[0]
    coordinator.send(signal.SIGKILL)
    coordinator.wait_ended()
    deployment.start_coordinator(port=deployment.port)
    wake(tierer)
    deployment.wait_tiered(ORDERS)
    deployment.append(ORDERS, COUNT, COUNT)
    deployment.wait_tiered(ORDERS)
    deployment.assert_exact(ORDERS, 2 * COUNT)
