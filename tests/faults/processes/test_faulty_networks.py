"""The network between tierer and coordinator goes away, hangs, or ends in the middle of an answer; then each row is in the lake once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.faulty.deployment import FaultyDeployment
from support.faulty.network import FaultyNetwork
from support.running.cluster_of_processes import wait_stopped, wake
from support.running.processes import wait_for
from sys_tables.catalog_client import SystemCatalog
from tiering import crash_points

CUTS = range(14)
"""How many answers pass before the one that is cut: more than the answers of a round."""
TRANSACTIONS = (3, 5, 6, 8)
"""Transactions after a coordinator's start: assigned, planned, granted, acked, of either table."""


@pytest.fixture
def network(scene: FaultyDeployment) -> Iterator[FaultyNetwork]:
    with FaultyNetwork(scene.port) as network:
        yield network


def wait_lost(scene: FaultyDeployment, tierer_id: str) -> None:
    with SystemCatalog(scene.uri) as catalog:
        wait_for(
            "the coordinator misses the tierer", lambda: [r for r in catalog.read("tierers", tierer_id=tierer_id) if r["state"] == "LOST"]
        )


@pytest.mark.soak
@pytest.mark.parametrize("fault", [FaultyNetwork.drop, FaultyNetwork.hang], ids=["drops", "hangs"])
def test_a_network_that_goes_away_and_comes_back_loses_and_doubles_nothing(
    scene: FaultyDeployment, network: FaultyNetwork, fault: object
) -> None:
    assert callable(fault)
    scene.write()
    tierer = scene.start_inline_tierer("far", network.uri, crash_point=f"{crash_points.AFTER_FENCE}:stop")
    wait_stopped(tierer)
    fault(network)
    wake(tierer)
    wait_lost(scene, "far")
    scene.write()
    network.heal()
    scene.settle()


def test_connections_that_end_in_the_middle_of_any_answer_lose_and_double_nothing(scene: FaultyDeployment, network: FaultyNetwork) -> None:
    scene.start_inline_tierer("far", network.uri)
    for passed in CUTS:
        network.cut_answer(passed)
        scene.write()
        wait_for("an answer is cut", lambda count=passed + 1: network.cuts >= count)
    scene.settle()


@pytest.mark.soak
@pytest.mark.parametrize("transactions", [TRANSACTIONS], ids=["some"])
def test_answers_that_are_lost_after_their_effect_lose_and_double_nothing(
    scene: FaultyDeployment, network: FaultyNetwork, transactions: tuple[int, ...]
) -> None:
    """The coordinator sleeps behind a transaction until the network is gone, so that its tierer never hears what it came to."""
    scene.start_inline_tierer("far", network.uri)
    for number in transactions:
        scene.write()
        scene.kill_coordinator()
        coordinator = scene.start_coordinator(port=scene.port, crash_point=f"{crash_points.STORE_AFTER_COMMIT}@{number}:stop")
        wait_stopped(coordinator)
        network.drop()
        wake(coordinator)
        coordinator.wait_ready()
        network.heal()
        scene.settle()
