"""A REST catalog and S3 answer wrong, late or not at all: everything is in the lake once, and no request is repeated blindly."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from support.faulty.deployment import ACCOUNTS, ORDERS
from support.lake_kinds.kinds import ICEBERG, PAIMON, PAIMON_CLEAN
from support.object_store.faulty_http import Fault
from support.object_store.scene import CatalogScene, Scene
from support.running.processes import wait_for

COMMIT_OF_ORDERS = r"/tables/orders$"
ROUND_ID = re.compile(rb'"lakeward\.round-id"\s*:\s*"([^"]+)"')
SNAPSHOT = r"/snapshot/snapshot-[0-9]+$"
"""Objects that the commit of a Paimon table puts."""
SNAPSHOT_OF_ORDERS = rf"/orders{SNAPSHOT}"


@pytest.mark.soak
def test_every_outcome_of_a_commit_is_found_in_the_lake(rest_scene: CatalogScene) -> None:
    ours, catalog = rest_scene.deployment, rest_scene.catalog
    ours.start_inline_tierer("only")
    ours.write()
    ours.settle()
    faults = [
        (Fault.LOSE_ANSWER, 0),
        *((Fault.ERROR_AFTER, status) for status in (409, 500, 502, 504)),
        *((Fault.ERROR_INSTEAD, status) for status in (409, 500, 503)),
    ]
    for fault, status in faults:
        rule = catalog.add(fault, "POST", COMMIT_OF_ORDERS, status=status, times=1)
        ours.write()
        ours.settle()
        assert rule.hits == 1, (fault, status)
        if fault is not Fault.ERROR_INSTEAD:
            # Whatever was answered, what had landed was found, and its round was not sent once more.
            assert rounds_sent(catalog.posted).count(*rounds_sent(rule.bodies)) == 1, (fault, status)


@pytest.mark.soak
@pytest.mark.parametrize("kind", [PAIMON_CLEAN], ids=lambda kind: kind.name, indirect=True)
def test_every_outcome_of_a_put_is_found_in_the_lake(scene: Scene) -> None:
    ours, store = scene.deployment, scene.store
    ours.start_inline_tierer("only")
    ours.write()
    ours.settle()
    faults = [
        (Fault.LOSE_ANSWER, 0),
        # 412 also answers a PUT that was sent again on its way, and landed the first time.
        *((Fault.ERROR_AFTER, status) for status in (412, 500)),
        *((Fault.ERROR_INSTEAD, status) for status in (409, 412, 503)),
    ]
    for fault, status in faults:
        rule = store.add(fault, "PUT", SNAPSHOT_OF_ORDERS, status=status, times=1)
        ours.write()
        ours.settle()
        assert rule.hits == 1, (fault, status)
        requests = [path for path in store.put if re.search(SNAPSHOT_OF_ORDERS, path)]
        if fault is not Fault.ERROR_INSTEAD:
            # Whatever was answered, what had landed was found, and nothing was sent in its place.
            assert len(requests) == len(set(requests)), (fault, status)
        store.put.clear()
    for path in (ORDERS, ACCOUNTS):
        ours.validate(path)
    ours.assert_no_secret_left()


def rounds_sent(bodies: Sequence[bytes]) -> list[str]:
    """Ids of the rounds whose commit is requested."""
    return [match[1].decode() for body in bodies if (match := ROUND_ID.search(body))]


@pytest.mark.soak
@pytest.mark.parametrize("kind", [ICEBERG, PAIMON], ids=lambda kind: kind.name, indirect=True)
def test_s3_that_answers_503_stops_rounds_and_nothing_else(scene: Scene) -> None:
    ours = scene.deployment
    ours.start_inline_tierer("only")
    ours.write()
    ours.settle()
    rule = scene.store.add(Fault.ERROR_INSTEAD, status=503)
    ours.write()
    for path in (ORDERS, ACCOUNTS):
        wait_for(f"{path} has an error", lambda path=path: ours.status(path).error_class == "LakeUnavailable", 120)  # type: ignore[misc]
    assert rule.hits
    scene.store.heal()
    ours.settle()


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", [ICEBERG, PAIMON_CLEAN], ids=lambda kind: kind.name, indirect=True)
def test_s3_that_takes_no_data_files_stops_rounds_before_their_commit(scene: Scene) -> None:
    ours = scene.deployment
    ours.start_inline_tierer("only")
    # For a small file PyArrow's client begins with a POST.
    rules = [scene.store.add(Fault.ERROR_INSTEAD, method, r"\.parquet", status=503) for method in ("PUT", "POST")]
    ours.write()
    wait_for("a data file of orders is refused", lambda: sum(rule.hits for rule in rules) and ours.status(ORDERS).error_class, 120)
    assert not [path for path in scene.store.put if re.search(SNAPSHOT, path)]
    if isinstance(scene, CatalogScene):
        assert not rounds_sent(scene.catalog.posted)
    scene.store.heal()
    ours.settle()


def test_a_catalog_that_forgets_a_table_for_a_while_loses_nothing(rest_scene: CatalogScene) -> None:
    ours = rest_scene.deployment
    ours.start_inline_tierer("only")
    ours.write()
    ours.settle()
    before = ours.marker(ORDERS)
    rest_scene.catalog.add(Fault.ERROR_INSTEAD, path=r"/tables/orders(\?|$)", status=404)
    ours.write()
    wait_for("the table that is not there is an error", lambda: ours.status(ORDERS).error_class == "LakeTableReplaced")
    rest_scene.catalog.heal()
    assert ours.marker(ORDERS) == before
    with ours.client() as client:
        client.retry_tiering(ORDERS)
    ours.settle()
