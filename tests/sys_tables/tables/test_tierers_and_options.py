"""`sys.tierers` and `sys.options`: what heartbeats say of processes, and what is in force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from support.worlds.coordinator_world import World
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.status.effective_options import effective_options
from tiering.rpc.v1 import coordinator_pb2 as pb

REGISTRY = default_registry()


@pytest.fixture
def world() -> Iterator[World]:
    opened = World()
    yield opened
    opened.coordinator.close()


def rows(world: World, name: str) -> list[dict[str, Any]]:
    return [vars(row) for row in REGISTRY.table(name).rows(world.coordinator.view(), ScanRequest())]  # type: ignore[union-attr]


def test_a_tierer_is_shown_with_what_it_runs_and_has_ended(world: World) -> None:
    assert rows(world, "tierers") == []
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    world.clock.advance(4)
    report = pb.ReportProgressRequest(round=tierer.ref(assignment), splits_done=1, splits_total=2, records_done=20, records_total=40)
    world.coordinator.progress.report(report)
    (row,) = rows(world, "tierers")
    assert (row["tierer_id"], row["state"], row["tables_running"], row["rounds"]) == ("tierer-1", "ACTIVE", 1, 0)
    assert row["records_per_second"] == 5.0
    tierer.fail(assignment)
    (row,) = rows(world, "tierers")
    assert (row["tables_running"], row["rounds"], row["records_per_second"]) == (0, 1, None)


def test_a_silent_one_is_lost_and_one_that_says_goodbye_has_stopped(world: World) -> None:
    world.tierer("one").beat()
    world.tierer("two").beat(stopping=True)
    assert [row["state"] for row in rows(world, "tierers")] == ["ACTIVE", "STOPPED"]
    world.clock.advance(120)
    assert [row["state"] for row in rows(world, "tierers")] == ["LOST", "STOPPED"]
    world.later(0)
    assert world.coordinator.heartbeats.tierers.all() == [], "nothing counts on them any more"
    assert [(row["tierer_id"], row["state"]) for row in rows(world, "tierers")] == [("one", "LOST"), ("two", "STOPPED")]
    world.process("again", "one").beat()
    assert [row["state"] for row in rows(world, "tierers")] == ["ACTIVE", "LOST", "STOPPED"]
    world.later(86_350)
    assert [(row["tierer_id"], row["state"]) for row in rows(world, "tierers")] == [("one", "LOST")], "a day after its last heartbeat"


def test_a_process_that_another_replaced_is_fenced(world: World) -> None:
    world.process("a").beat()
    world.process("b").beat()
    assert [row["state"] for row in rows(world, "tierers")] == ["FENCED", "ACTIVE"]


def test_options_say_what_is_set_and_what_they_mean() -> None:
    secret = {"uri": "thrift://host", "s3.secret-access-key": "hunter2", "rest.client.socket-timeout-ms": "5000"}
    options = replace(CoordinatorOptions(), keep_table_rounds=7, lake_properties=secret)
    by_name = {option.name: option for option in effective_options(options)}
    kept = by_name["keep_table_rounds"]
    assert (kept.scope, kept.value, kept.default, kept.source) == ("coordinator", "7", "5000", "set")
    assert "the newest rounds of one table" in kept.description
    assert by_name["backoff_min_ms"].source == "default"
    assert by_name["table.datalake.freshness"].default == "3 min"
    assert (by_name["lake.rest.client.socket-timeout-ms"].value, by_name["lake.rest.client.socket-timeout-ms"].source) == ("5000", "set")
    assert by_name["lake.lakeward.catalog-read-deadline-ms"].value == "30000"
    assert "hunter2" not in str(by_name)
    assert not [option for option in by_name.values() if not option.description or "DESIGN" in option.description]


def test_without_a_coordinator_options_are_unknown() -> None:
    coordinator = [option for option in effective_options(None) if option.scope == "coordinator"]
    assert coordinator
    assert {(option.value, option.source) for option in coordinator} == {(None, None)}
    assert all(option.default is not None for option in coordinator)
