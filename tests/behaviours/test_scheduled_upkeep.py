"""Upkeep without a request: the coordinator sees small files, and starts an upkeep round between two tiering rounds of the table."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import pytest

from support.background import tick
from support.behaviours.backends import EMBEDDED
from support.behaviours.deployment import Deployment, StoryTable
from support.lake_kinds.kinds import PAIMON
from support.lakes.lake_proof import assert_chain
from support.worlds.lake_world import SteppedRound
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering.coordinator.decisions.upkeep import requests
from tiering.model.rounds import RoundState
from tiering.procedures.set_table_option import SetTableOption
from tiering.round.steps import actions as act

BOTH_FORMATS = pytest.mark.parametrize("backend", [EMBEDDED, f"{EMBEDDED}, {PAIMON.name}"], indirect=True, scope="session")
KINDS = pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "primary-key"])
FRESHNESS_S = 100
"""Shorter than the time after which a tierer without heartbeats is lost."""
ROUNDS = 12
"""More than the small files that a bucket may have."""


def degraded(deployment: Deployment, key: tuple[str, ...] = ()) -> StoryTable:
    """A table that was tiered without merges, whose user turns them on now."""
    options = {"table.datalake.auto-compaction": "false", "table.datalake.freshness": f"{FRESHNESS_S} s"}
    table = deployment.make("orders", key=key, buckets=1, properties=options)
    for number in range(ROUNDS):
        table.write(dict.fromkeys(range(10 * number, 10 * number + 4), f"round {number}"))
        assert table.tier().error is None
    request = SetTableOption(table.path, "table.datalake.auto-compaction", "true")
    asyncio.run(deployment.coordinator.control.perform(request))
    return table


def look(table: StoryTable) -> None:
    """The coordinator's background: health, and what follows from it."""
    table.deployment.clock.advance(11)
    coordinator = table.deployment.coordinator
    tick(coordinator)
    coordinator.lake_health.observe()
    coordinator.upkeep.refresh()


def begin(table: StoryTable) -> SteppedRound:
    look(table)
    return table.deployment.begin(table.info)


def shown(table: StoryTable, name: str) -> list[dict[str, Any]]:
    view = table.deployment.coordinator.view()
    return [asdict(row) for row in default_registry().table(name).rows(view, ScanRequest())]  # type: ignore[union-attr,call-overload]


@BOTH_FORMATS
@KINDS
def test_a_degraded_table_is_healed_between_two_tiering_rounds(deployment: Deployment, key: tuple[str, ...]) -> None:
    table = degraded(deployment, key)
    before = deployment.coordinator.table_records.get(table.info.table_id)
    upkeep = begin(table)
    assert upkeep.assignment.upkeep is not None
    outcome = upkeep.end()
    assert outcome.state is RoundState.SUCCEEDED, outcome.error
    (row, *_) = shown(table, "lake_upkeep")
    assert (row["trigger"], row["outcome"], row["actions"], row["bytes_left"]) == ("upkeep", "SUCCEEDED", "rewrite_files", 0)
    assert row["files_before"] > row["files_after"] > 0
    after = deployment.coordinator.table_records.get(table.info.table_id)
    assert before is not None
    assert after is not None
    assert (after.round, after.last_tiered_time, after.due_deadline) == (before.round, before.last_tiered_time, before.due_deadline)
    look(table)
    (health,) = shown(table, "lake_table_health")
    assert (health["rewrite_bytes"], health["last_upkeep_outcome"], health["upkeep_waits_for"]) == (0, "SUCCEEDED", None)
    assert health["data_files"] <= len(deployment.by_hand.data_files(table.path))
    table.check()
    assert_chain(deployment.lake_properties, table.path, deployment.lake_format)
    table.write({1_000: "later"})
    table.tiered()


@BOTH_FORMATS
def test_rows_that_become_due_end_an_upkeep_round_and_are_tiered(deployment: Deployment) -> None:
    table = degraded(deployment)
    upkeep = begin(table).advance_to(act.BeginCommit)
    table.write({1_000: "due"})
    deployment.clock.advance(FRESHNESS_S - 11)
    tick(deployment.coordinator)
    tiering = deployment.begin(table.info).end()
    assert tiering.state is RoundState.SUCCEEDED, tiering.error
    lost = upkeep.end()
    assert lost.state in (RoundState.FENCED, RoundState.CANCELLED), lost.error
    assert [row["outcome"] for row in shown(table, "lake_upkeep") if row["trigger"] == "upkeep"] == ["CANCELLED"]
    table.check()
    assert_chain(deployment.lake_properties, table.path, deployment.lake_format)


@BOTH_FORMATS
def test_while_upkeep_is_paused_rounds_merge_no_files_and_remove_no_snapshots(deployment: Deployment) -> None:
    options = {"table.datalake.snapshot.max-age": "1 min", "table.datalake.snapshot.min-count": "1"}
    table = deployment.make("orders", buckets=1, properties={"table.datalake.freshness": f"{FRESHNESS_S} s", **options})
    pause(table, pauses=True)
    for number in range(ROUNDS):
        table.write({number: "paused"})
        assert table.tier().error is None
    assert len(deployment.by_hand.data_files(table.path)) == ROUNDS
    view = deployment.lake.view(table.path)
    assert view is not None
    assert len(view.snapshots) == ROUNDS
    pause(table, pauses=False)
    table.write({1_000: "resumed"})
    table.tiered()
    view = deployment.lake.view(table.path)
    assert view is not None
    assert len(deployment.by_hand.data_files(table.path)) < ROUNDS
    if deployment.lake_format == "iceberg":  # the snapshots of Paimon have the time of the machine here, and are younger than max-age
        assert len(view.snapshots) < ROUNDS


def pause(table: StoryTable, *, pauses: bool) -> None:
    records = table.deployment.coordinator.table_records
    with records.changing():
        record = records.get(table.info.table_id)
        assert record is not None
        ctx = records.context("alice")
        records.put(requests.pause_upkeep(ctx, record, None) if pauses else requests.resume_upkeep(ctx, record))
