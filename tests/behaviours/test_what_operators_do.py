"""System tables and CALLs, through the service that the catalog plugin asks: what operators see and do."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from support.background import tick
from support.behaviours.deployment import MAX_BACKOFF_S, SCHEMA, Deployment, StoryTable
from support.behaviours.lacks import Lack
from support.clusters.older_version import TWICE, older_write
from support.running.processes import wait_for
from support.services.sys_catalog import serving
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import BucketStopped, InvalidArgument, UnknownTable
from tiering.model.rounds import RoundState
from tiering.round.steps import actions as act
from tiering.validate.results import Level


def is_assigned(table: StoryTable) -> bool:
    """Whether a tierer that asks when everything is due is given anything."""
    deployment = table.deployment
    deployment.clock.advance(MAX_BACKOFF_S)
    tick(deployment.coordinator)
    return deployment.beat(request_table=True).HasField("tiering_table")


@pytest.fixture
def orders(deployment: Deployment) -> StoryTable:
    table = deployment.make("orders")
    table.write(dict.fromkeys(range(6), "first"))
    return table


def test_sys_says_how_a_table_stands(orders: StoryTable) -> None:
    deployment = orders.deployment
    before = orders.status()
    assert (before["status"], before["last_tiered_time"]) == ("Scheduled", None)
    orders.tiered()
    after = orders.status()
    assert after["last_tiered_time"] is not None
    assert after["tiering_epoch"] > before["tiering_epoch"]
    [listed] = [row for row in deployment.sys("tables") if row["table_name"] == "orders"]
    assert listed["database_name"] == deployment.database
    deployment.restart()
    assert orders.status()["last_tiered_time"] == after["last_tiered_time"]
    with pytest.raises(UnknownTable):
        deployment.call("pause_tiering", table=f"{deployment.database}.nowhere")


def test_a_paused_table_is_not_tiered_until_it_is_resumed(orders: StoryTable) -> None:
    orders.call("pause_tiering", reason="moving house")
    assert not is_assigned(orders)
    status = orders.status()
    assert (status["paused"], status["paused_by"], status["paused_reason"]) == (True, "ann", "moving house")
    orders.call("resume_tiering")
    orders.tiered()
    assert not orders.status()["paused"]


def test_a_running_round_is_cancelled_and_after_the_grant_it_is_too_late(orders: StoryTable) -> None:
    deployment = orders.deployment
    deployment.due()
    begun = deployment.begin(orders.info).advance_to(act.BeginCommit)
    [cancelled] = deployment.call("cancel_tiering", round_id=begun.assignment.round_id)
    assert cancelled["outcome"] == "cancelled"
    assert begun.end().state is not RoundState.SUCCEEDED
    view = deployment.lake.view(orders.path)
    assert view is None or view.marker is None
    orders.call("retry_tiering")
    tick(deployment.coordinator)
    deployment.clock.advance(MAX_BACKOFF_S)
    tick(deployment.coordinator)
    begun = deployment.begin(orders.info).advance_to(act.CommitLake)
    [late] = deployment.call("cancel_tiering", round_id=begun.assignment.round_id)
    assert late["outcome"] == "too_late"
    assert begun.end().state is RoundState.SUCCEEDED
    orders.check()


def test_explaining_shows_the_next_round_and_changes_nothing(orders: StoryTable) -> None:
    deployment = orders.deployment
    before, held = deployment.store.load(), deployment.lake.view(orders.path)
    lines = deployment.call("explain_tiering", table=str(orders.path))
    assert (deployment.store.load(), deployment.lake.view(orders.path)) == (before, held)
    assert "wait" in {line["decision"] for line in lines if line["bucket_id"] is None}
    deployment.due()
    begun = deployment.begin(orders.info).advance_to(act.RunSplits)
    action = begun.runner.next_action
    assert isinstance(action, act.RunSplits)
    reads = [line for line in lines if line["decision"] == "read" and line["split_type"] == "LOG"]
    planned = [(split.bucket.bucket_id, split.starting_offset, split.stopping_offset) for split in action.plan.splits]
    assert [(line["bucket_id"], line["starting_offset"], line["stopping_offset"]) for line in reads] == planned
    assert len([line for line in lines if line["split_type"] == "SNAPSHOT"]) == len(action.plan.snapshots)
    assert "running" in {line["decision"] for line in deployment.call("explain_tiering", table=str(orders.path))}
    assert begun.end().state is RoundState.SUCCEEDED
    assert {line["decision"] for line in deployment.call("explain_tiering", table=str(orders.path)) if line["bucket_id"] is not None} == {
        "skip"
    }


def test_tier_table_waits_until_the_lake_has_what_was_written(orders: StoryTable) -> None:
    deployment = orders.deployment
    deployment.beat()

    async def call_while_a_round_runs() -> dict[str, object]:
        async with serving(deployment.coordinator) as client:
            call = asyncio.create_task(client.call("tier_table", table=str(orders.path), timeout_ms=30_000))
            while deployment.record(orders.info).state != "Pending":
                await asyncio.sleep(0.01)
            await asyncio.to_thread(lambda: deployment.begin(orders.info).end())
            rows: list[dict[str, object]] = (await call)[1].to_pylist()
            return rows[0]

    result = asyncio.run(call_while_a_round_runs())
    assert (result["state"], result["records"]) == ("SUCCEEDED", 6)
    orders.check()
    assert orders.call("tier_table")["state"] == "EMPTY"


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "primary key"])
def test_validate_table_proves_each_level_and_keeps_the_results(deployment: Deployment, key: tuple[str, ...]) -> None:
    table = deployment.make("proved", key=key)
    table.write(dict.fromkeys(range(6), "first"))
    table.tiered()
    table.write({3: "second"})
    table.tiered()
    for level in Level:
        checks = deployment.call("validate_table", table=str(table.path), level=level.value)
        assert checks
        assert {check["ok"] for check in checks} == {True}
    kept = [row for row in deployment.sys("validation_results") if row["table_name"] == "proved"]
    assert {row["level"] for row in kept} == {level.value for level in Level}


def test_leases_are_acquired_renewed_released_and_listed(deployment: Deployment) -> None:
    table = deployment.make("planes", key=("id",))
    table.write(dict.fromkeys(range(20), "first"))
    table.kv_snapshots()
    path = str(table.path)
    for lease_id in ("mine", "other"):
        [acquired] = deployment.call("acquire_kv_snapshot_lease", lease_id=lease_id, table=path, ttl_ms=600_000)
        assert (acquired["buckets"], acquired["unavailable"]) == (2, 0)
    leases = {row["lease_id"]: row for row in deployment.sys("kv_snapshot_leases")}
    assert leases.keys() == {"mine", "other"}
    assert (leases["mine"]["owner"], leases["mine"]["buckets"], leases["mine"]["state"]) == ("ann", 2, "ACTIVE")
    buckets = deployment.sys("kv_snapshot_lease_buckets")
    assert {(row["lease_id"], row["bucket_id"]) for row in buckets} == {(lease, bucket) for lease in leases for bucket in (0, 1)}
    assert not [row for row in buckets if row["available"] is False]
    [renewed] = deployment.call("renew_kv_snapshot_lease", lease_id="mine", ttl_ms=900_000)
    assert renewed["expires_at"] > leases["mine"]["expires_at"]
    [released] = deployment.call("release_kv_snapshot_lease", lease_id="mine", table=path)
    assert (released["state"], released["buckets"]) == ("RELEASED", 2)
    deployment.call("drop_kv_snapshot_lease", lease_id="other")
    assert not deployment.sys("kv_snapshot_leases")
    assert not deployment.sys("kv_snapshot_lease_buckets")


def test_rows_in_the_lake_need_no_waiting_and_others_do(orders: StoryTable) -> None:
    orders.tiered()
    assert_in_lake(orders)
    orders.write({10: "later"})
    assert orders.call("wait_for_tiering", timeout_ms=0)["reached"] is False
    orders.tiered()
    assert_in_lake(orders)


def assert_in_lake(table: StoryTable) -> None:
    """By a call that waits for no row: a look at the lake has a second, which a busy machine may not give it at once."""
    wait_for("its rows are in the lake", lambda: table.call("wait_for_tiering", timeout_ms=0)["reached"])


def test_options_are_set_and_take_effect(orders: StoryTable) -> None:
    orders.call("set_table_option", name="table.datalake.freshness", value="10 min")
    assert orders.info.freshness_ms == 600_000
    with pytest.raises(InvalidArgument):
        orders.call("set_table_option", name="table.datalake.freshness", value="soon")
    assert orders.call("set_freshness", freshness="PT12M")["previous_ms"] == 600_000
    assert orders.info.freshness_ms == 720_000
    orders.call("set_table_option", name="table.datalake.enabled", value="false")
    tick(orders.deployment.coordinator)
    assert not is_assigned(orders)


@pytest.mark.needs(Lack.LAKE_ENABLED_AGAIN)
def test_a_lake_that_is_enabled_again_goes_on_where_it_was(orders: StoryTable) -> None:
    orders.tiered()
    orders.call("set_table_option", name="table.datalake.enabled", value="false")
    tick(orders.deployment.coordinator)
    orders.write({10: "while it was disabled"})
    orders.call("set_table_option", name="table.datalake.enabled", value="true")
    tick(orders.deployment.coordinator)
    orders.tiered()


@pytest.mark.needs(Lack.OTHER_TABLE_OPTIONS)
def test_retention_of_a_table_that_is_there_is_set(orders: StoryTable) -> None:
    orders.call("set_table_option", name="table.log.ttl", value="3 d")
    assert orders.info.properties["table.log.ttl"] == "3 d"


@pytest.mark.needs(Lack.SKIPPED_RECORDS)
def test_a_record_that_no_rows_can_take_is_skipped_and_the_table_goes_on(deployment: Deployment) -> None:
    schema = SCHEMA.append(pa.field("tags", pa.map_(pa.string(), pa.int32())))
    table = deployment.make("stuck", schema, key=("id",), buckets=1)
    table.upsert([{"id": 1, "text": "old", "tags": [("k", 1)]}])
    table.tiered()
    assert isinstance(deployment.cluster, EmbeddedStorage)
    older_write(deployment.cluster, table.path, pa.Table.from_pylist([{"id": 2, "text": "x", "tags": TWICE}], schema), 0, applied=False)
    with pytest.raises(BucketStopped) as stopped:
        table.upsert([{"id": 3, "text": "new", "tags": []}])
    [skipped] = deployment.call("skip_record", table=str(table.path), bucket_id=0, offset=int(stopped.value.ids["offset"]))
    assert skipped["outcome"] == "skipped"
    table.upsert([{"id": 3, "text": "new", "tags": []}])
    table.tiered()
