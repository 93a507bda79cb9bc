"""The procedures of upkeep over real lake tables of both formats: what a CALL asks for is done by a round, and no row is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from behaviours.test_scheduled_upkeep import BOTH_FORMATS, ROUNDS, look

from support.behaviours.deployment import Deployment, StoryTable
from support.lakes.lake_proof import assert_chain
from tiering.model.rounds import RoundState
from tiering.procedures.base import UpkeepCall, UpkeepCallOutcome, UpkeepResult
from tiering.procedures.expire_snapshots import ExpireSnapshots
from tiering.procedures.explain_upkeep import ExplainUpkeep, UpkeepDecision
from tiering.procedures.rewrite_data_files import RewriteDataFiles
from tiering.procedures.rewrite_manifests import RewriteManifests


@pytest.fixture
def table(deployment: Deployment) -> StoryTable:
    """A table after many rounds without merges and without upkeep."""
    options = {
        "table.datalake.auto-compaction": "false",
        "table.datalake.auto-expire-snapshot": "false",
        "table.datalake.freshness": "100 s",
    }
    table = deployment.make("orders", buckets=1, properties=options)
    for number in range(ROUNDS):
        table.write(dict.fromkeys(range(10 * number, 10 * number + 4), f"round {number}"))
        assert table.tier().error is None
    return table


def perform(table: StoryTable, request: Any) -> Any:
    return asyncio.run(table.deployment.coordinator.control.perform(request))


def done(table: StoryTable, request: UpkeepCall) -> UpkeepResult:
    """The answer of a call, once a round has done what it asks for."""
    ordered = perform(table, request)
    assert ordered.outcome is UpkeepCallOutcome.WAITING
    look(table)
    upkeep = table.deployment.begin(table.info)
    assert upkeep.assignment.upkeep is not None
    assert upkeep.assignment.round_id == ordered.round_id
    assert upkeep.end().state is RoundState.SUCCEEDED
    answer: UpkeepResult = perform(table, request)
    return answer


@BOTH_FORMATS
def test_files_are_merged_then_snapshots_expire_and_every_row_is_there(deployment: Deployment, table: StoryTable) -> None:
    path = table.path
    planned = perform(table, RewriteDataFiles(path, wait=False, dry_run=True))
    assert (planned.outcome, planned.stats.files_before) == (UpkeepCallOutcome.PLANNED, ROUNDS)
    lines = perform(table, ExplainUpkeep(path))
    assert [line.files for line in lines if line.decision is UpkeepDecision.REWRITE] == [ROUNDS]

    merged = done(table, RewriteDataFiles(path, wait=False, idempotency_key="merge", caller="ann"))
    assert (merged.outcome, merged.stats.files_before, merged.stats.files_after) == (UpkeepCallOutcome.SUCCEEDED, ROUNDS, 1)
    assert merged.stats.bytes_left == 0
    table.check()

    before = len(deployment.by_hand.snapshots(path))
    outlook = perform(table, ExpireSnapshots(path, wait=False, retain_last=1, older_than=deployment.clock.now(), dry_run=True))
    assert outlook.stats.snapshots_expired > 0
    expired = done(
        table, ExpireSnapshots(path, wait=False, retain_last=1, older_than=deployment.clock.now(), idempotency_key="old", caller="ann")
    )
    assert expired.stats.snapshots_expired > 0
    after = len(deployment.by_hand.snapshots(path))
    assert after <= before + 2 - expired.stats.snapshots_expired
    assert sum(expired.kept.values()) == after

    manifests = done(table, RewriteManifests(path, wait=False, idempotency_key="manifests", caller="ann"))
    assert manifests.outcome is UpkeepCallOutcome.SUCCEEDED
    table.check()
    assert_chain(deployment.lake_properties, path, deployment.lake_format)
    table.write({1_000: "later"})
    table.tiered()
