"""OpenLineage's events: which rounds have which, and what they say."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from support.clusters.memory_cluster import log_table
from support.operators import cancel
from support.repository import ROOT
from support.worlds.coordinator_world import START, World
from tiering.coordinator.decisions.records import RoundRecord, Trigger
from tiering.model.rounds import RoundState, RoundStats
from tiering.telemetry.lineage_events import (
    EVENT_TYPES,
    MOST_BUCKETS,
    ROUND_FACET,
    ROUND_FACET_SCHEMA,
    LineageNames,
    RoundStep,
    dataset_name,
    event_of,
    steps_of,
)

NAMES = LineageNames("prod", "fluss://a:9123", "s3://lake")
LOCATION = "s3a://lake/sales/orders"


def watched(world: World) -> list[RoundStep]:
    """The steps of the world's rounds from now on."""
    steps: list[RoundStep] = []
    records = world.coordinator.table_records
    records.changes_stored = lambda changes: steps.extend(steps_of(changes, records.get))
    return steps


def types(steps: list[RoundStep]) -> list[tuple[str, str]]:
    return [(step.row.round_id, step.event_type.value) for step in steps]


def step(state: RoundState, trigger: Trigger = Trigger.SCHEDULE, location: str | None = LOCATION, **offsets: int) -> RoundStep:
    finished = START if state.is_final else None
    stats = RoundStats(records_written=7, bytes_written=70, files_written=2, records_read=9) if state.is_final else None
    row = RoundRecord("r", 1, "sales", "orders", 3, 1, trigger, state, START, started_time=START, finished_time=finished, stats=stats)
    return RoundStep(row, "iceberg", location, 41, offsets)


def event(state: RoundState, *arguments: Any, **fields: Any) -> dict[str, Any]:
    return event_of(step(state, *arguments, **fields), NAMES, log_table())


def test_a_round_has_a_start_and_one_end() -> None:
    world = World()
    steps = watched(world)
    tierer, first = world.assigned()
    world.append()
    tierer.run(first)
    failing, second = world.assigned()
    failing.fail(second)

    assert types(steps) == [
        (first.round_id, "START"),
        (first.round_id, "COMPLETE"),
        (second.round_id, "START"),
        (second.round_id, "FAIL"),
    ]
    assert [dict(step.offsets) for step in steps[:2]] == [{}, {"0": 10, "1": 0}], "the offsets before and after the round"
    assert steps[1].row.stats is not None
    assert steps[1].row.stats.records_written == 10


def test_a_round_of_a_dead_tierer_fails_and_a_restart_repeats_no_event() -> None:
    world = World()
    _, assignment = world.assigned()
    world.crash()
    steps = watched(world)
    world.later(world.options.service_timeout_ms / 1_000 + 1)

    assert [name for round_id, name in types(steps) if round_id == assignment.round_id] == ["FAIL"]


def test_a_cancelled_round_is_aborted() -> None:
    world = World()
    steps = watched(world)
    _, assignment = world.assigned()
    assert cancel(world.coordinator, assignment.round_id, "alice")
    world.later(world.options.cancel_ms / 1_000)

    assert types(steps)[:2] == [(assignment.round_id, "START"), (assignment.round_id, "ABORT")]


def test_a_round_that_no_tierer_ran_has_no_event() -> None:
    world = World()
    steps = watched(world)
    world.due()
    assert world.state() == "Pending"
    del world.cluster.by_path[world.table.path]
    world.later(1)
    assert world.coordinator.table_records.get(world.table.table_id) is None
    assert steps == []


def test_every_state_but_queued_has_an_event() -> None:
    assert set(RoundState) - set(EVENT_TYPES) == {RoundState.QUEUED}


def test_datasets_of_a_round() -> None:
    complete = event(RoundState.SUCCEEDED)
    [source], [lake] = complete["inputs"], complete["outputs"]

    assert (complete["job"]["namespace"], complete["job"]["name"]) == ("prod", "tiering.sales.orders")
    assert (source["namespace"], source["name"]) == ("fluss://a:9123", "sales.orders")
    assert (lake["namespace"], lake["name"]) == ("s3://lake", "sales/orders")
    assert lake["facets"]["symlinks"]["identifiers"] == [{"namespace": "s3://lake", "name": "sales.orders", "type": "TABLE"}]
    assert lake["facets"]["version"]["datasetVersion"] == "41"
    assert lake["facets"]["schema"]["fields"] == source["facets"]["schema"]["fields"]
    lineage = lake["facets"]["columnLineage"]["fields"]
    assert {name: entry["inputFields"][0]["field"] for name, entry in lineage.items()} == {name: name for name in log_table().schema.names}
    statistics = lake["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (7, 70, 2)


def test_a_failed_round_has_no_output_statistics() -> None:
    [lake] = event(RoundState.FAILED)["outputs"]
    assert "outputFacets" not in lake


def test_the_place_of_the_lake_table_is_unknown_before_its_first_commit() -> None:
    assert event(RoundState.RUNNING, Trigger.SCHEDULE, None)["outputs"] == []


def test_an_upkeep_round_reads_and_writes_the_lake_table() -> None:
    upkeep = event(RoundState.SUCCEEDED, Trigger.UPKEEP)
    assert upkeep["job"]["name"] == "upkeep.sales.orders"
    assert [(data["namespace"], data["name"]) for data in upkeep["inputs"]] == [("s3://lake", "sales/orders")]


def test_an_event_of_very_many_buckets_is_bounded() -> None:
    offsets = {str(bucket): bucket for bucket in range(MOST_BUCKETS + 5)}
    facet = event(RoundState.SUCCEEDED, **offsets)["run"]["facets"][ROUND_FACET]
    assert (len(facet["offsets"]), facet["bucketsLeftOut"]) == (MOST_BUCKETS, 5)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("file:///data/lake/sales/orders", ("file", "/data/lake/sales/orders")),
        ("/data/lake/sales/orders/", ("file", "/data/lake/sales/orders")),
        ("s3a://lake/sales/orders", ("s3://lake", "sales/orders")),
        ("gs://lake/sales/orders", ("gs://lake", "sales/orders")),
        ("hdfs://node:8020/lake/orders", ("hdfs://node:8020", "/lake/orders")),
        ("abfss://box@account.dfs.core.windows.net/lake/orders", ("abfss://box@account.dfs.core.windows.net", "/lake/orders")),
    ],
)
def test_names_of_datasets(location: str, expected: tuple[str, str]) -> None:
    assert dataset_name(location) == expected


def test_the_page_has_the_schema_of_lakewards_own_facet_and_the_event_of_each_state() -> None:
    page = (ROOT / "docs" / "openlineage.md").read_text()
    [schema] = [block for block in map(json.loads, re.findall(r"```json\n(.*?)```", page, re.DOTALL)) if "$id" in block]
    facets = [event(state)["run"]["facets"][ROUND_FACET] for state in EVENT_TYPES]

    assert schema["$id"] == ROUND_FACET_SCHEMA
    for facet in facets:
        assert facet.keys() <= schema["properties"].keys()
        assert set(schema["required"]) <= facet.keys()
    for state, event_type in EVENT_TYPES.items():
        assert re.search(rf"`{state}`.*\| {event_type} \|", page)
