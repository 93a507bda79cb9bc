"""What a REST catalog and S3 answer wrong, late or not at all: everything is in the lake once, and nothing is sent twice blindly."""

from __future__ import annotations

import re
from collections.abc import Sequence

from support.faulty.deployment import ACCOUNTS, ORDERS
from support.lakes.lake_proof import marker_of
from support.object_store.faulty_http import Fault
from support.object_store.scene import Scene
from support.running.processes import wait_for

COMMIT_OF_ORDERS = r"/tables/orders$"
ROUND_ID = re.compile(rb'"lakeward\.round-id"\s*:\s*"([^"]+)"')


def test_every_outcome_of_a_commit_is_found_in_the_lake(scene: Scene) -> None:
    ours, catalog = scene.deployment, scene.catalog
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


def rounds_sent(bodies: Sequence[bytes]) -> list[str]:
    """Ids of the rounds whose commit is requested."""
    return [match[1].decode() for body in bodies if (match := ROUND_ID.search(body))]


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


def test_s3_that_takes_no_data_files_stops_rounds_before_their_commit(scene: Scene) -> None:
    ours = scene.deployment
    ours.start_inline_tierer("only")
    rule = scene.store.add(Fault.ERROR_INSTEAD, "PUT", r"\.parquet", status=503)
    ours.write()
    wait_for("orders has an error", lambda: ours.status(ORDERS).error_class is not None, 120)
    assert rule.hits
    assert not rounds_sent(scene.catalog.posted)
    scene.store.heal()
    ours.settle()


def test_a_catalog_that_forgets_a_table_for_a_while_loses_nothing(scene: Scene) -> None:
    ours = scene.deployment
    ours.start_inline_tierer("only")
    ours.write()
    ours.settle()
    before = marker_of(ours.lake_properties, ORDERS)
    scene.catalog.add(Fault.ERROR_INSTEAD, path=r"/tables/orders(\?|$)", status=404)
    ours.write()
    wait_for("the table that is not there is an error", lambda: ours.status(ORDERS).error_class == "LakeTableReplaced")
    scene.catalog.heal()
    assert marker_of(ours.lake_properties, ORDERS) == before
    with ours.client() as client:
        client.retry_tiering(ORDERS)
    ours.settle()
