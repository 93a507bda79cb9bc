"""`CALL sys.rewrite_data_files`, `expire_snapshots`, `rewrite_manifests`: over the gRPC service, with a tierer that runs their rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from support.operators import cancel, pause
from support.services.sys_catalog import serving
from support.upkeep.upkeep_world import MB, MeasuredMemoryLake, UpkeepWorld, end_upkeep, run_upkeep, upkeep_stats, upkept_table
from support.worlds.coordinator_world import FRESHNESS, START, HandTierer
from tiering import errors
from tiering.coordinator.call_support.upkeep_call import MAX_OVERTAKEN, OVERTAKEN
from tiering.coordinator.calls.explain_upkeep import LEFT_ALONE
from tiering.lake.base import LakeView
from tiering.lake.maintenance import ExpiryOutlook, RewriteTask, UpkeepPlan
from tiering.lake.rules.upkeep.snapshot_expiry import REMOVED_AT_ONCE
from tiering.model.tables import BucketKey, Partition, SnapshotRetention, TableInfo
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder
from tiering.wire.channel import calling


class UpkeptLake(MeasuredMemoryLake):
    """Plans one task a table, and has as many old snapshots as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.expirable = 0
        self.orders: list[UpkeepOrder | ExpiryOrder] = []

    def plan_upkeep(self, table: TableInfo, view: LakeView, order: UpkeepOrder, partitions: Any) -> UpkeepPlan:
        self.orders.append(order)
        return UpkeepPlan((RewriteTask(BucketKey(None, 1), None, b"", 12, 34 * MB),), bytes_left=5 * MB, left_alone=3)

    def expiry_outlook(self, table: TableInfo, view: LakeView, order: ExpiryOrder) -> ExpiryOutlook:
        self.orders.append(order)
        return ExpiryOutlook(self.expirable, {"the newest snapshots": 10, "the tag 'audit'": 1})


class CallWorld(UpkeepWorld):
    lake: UpkeptLake

    def new_lake(self) -> UpkeptLake:
        return UpkeptLake()


@pytest.fixture
def world() -> Iterator[CallWorld]:
    world = CallWorld(tables=(upkept_table(freshness_ms=FRESHNESS * 10_000),), rows=10)
    world.later(world.table.freshness_ms / 1_000)
    yield world
    world.coordinator.close()


@pytest.fixture
def tierer(world: CallWorld) -> HandTierer:
    """A tierer that has tiered the table and is free."""
    tierer = world.tierer()
    tierer.run(tierer.get())
    return tierer


Act = Callable[[], None]


def called(world: CallWorld, name: str, *acts: Act, **arguments: Any) -> dict[str, Any]:
    """The row of a CALL; `acts` happen once the CALL waits."""

    async def whole() -> dict[str, Any]:
        async with asyncio.timeout(60), serving(world.coordinator) as client:
            call = asyncio.create_task(client.call(name, table="sales.t1", **arguments))
            while acts and not (world.record().upkeep.requests or call.done()):
                await asyncio.sleep(0.001)
            for act in acts:
                await asyncio.to_thread(act)
            with calling("the service"):
                _, rows = await call
        [row] = rows.to_pylist()
        return row  # type: ignore[no-any-return]

    return asyncio.run(whole())


def error_of(world: CallWorld, name: str, *acts: Act, **arguments: Any) -> errors.LakewardError:
    """The error that a CALL ends with."""
    with pytest.raises(errors.LakewardError) as raised:
        called(world, name, *acts, **arguments)
    return raised.value


def test_a_rewrite_waits_until_nothing_is_left_and_sums_up_its_rounds(world: CallWorld, tierer: HandTierer) -> None:
    def rounds() -> None:
        run_upkeep(tierer, tierer.get(), upkeep_stats(bytes_left=7 * MB))
        run_upkeep(tierer, tierer.get(), upkeep_stats(bytes_left=0, dropped=1))

    row = called(world, "rewrite_data_files", rounds)
    assert row["round_id"] == world.record().upkeep.last_round_id
    assert {name: value for name, value in row.items() if name != "round_id"} == {
        "table": "sales.t1",
        "outcome": "SUCCEEDED",
        "reason": None,
        "rounds": 2,
        "rewritten_files_count": 40,
        "added_files_count": 2,
        "rewritten_bytes_count": 200 * MB,
        "written_bytes_count": 180 * MB,
        "dropped_buckets_count": 1,
        "bytes_left": 0,
    }


def test_its_round_does_what_the_call_asks_for(world: CallWorld, tierer: HandTierer) -> None:
    called(world, "rewrite_data_files", full=True, wait=False)
    info = tierer.get()
    assert (info.upkeep.rewrite, info.upkeep.full, info.upkeep.manifests, info.upkeep.HasField("expiry")) == (True, True, False, False)
    run_upkeep(tierer, info)
    called(world, "rewrite_manifests", wait=False)
    info = tierer.get()
    assert (info.upkeep.rewrite, info.upkeep.manifests) == (False, True)
    run_upkeep(tierer, info)
    older_than = START - timedelta(hours=3)
    called(world, "expire_snapshots", older_than=older_than, retain_last=3, wait=False)
    expiry = tierer.get().upkeep.expiry
    assert (expiry.older_than.ToDatetime(older_than.tzinfo), expiry.retain_last) == (older_than, 3)


def test_without_waiting_it_names_the_round_that_follows(world: CallWorld, tierer: HandTierer) -> None:
    row = called(world, "rewrite_data_files", wait=False)
    assert (row["outcome"], row["reason"], row["bytes_left"]) == ("WAITING", "the call did not wait", None)
    assert tierer.get().round_id == row["round_id"]


def test_after_its_timeout_it_says_what_the_round_waits_for(world: CallWorld, tierer: HandTierer) -> None:
    row = called(world, "rewrite_data_files", lambda: world.later(5), timeout_ms=5_000)
    assert row["outcome"] == "WAITING"
    assert row["reason"] == "not done within 5000 ms: upkeep of sales.t1 waits: a slot that no other table needs"
    info = tierer.get()
    row = called(world, "rewrite_data_files", wait=False)
    assert (row["outcome"], row["round_id"]) == ("RUNNING", info.round_id)


def test_without_a_tierer_it_answers_soon(world: CallWorld, tierer: HandTierer) -> None:
    tierer.beat(stopping=True)
    world.later(300)
    row = called(world, "rewrite_data_files", lambda: world.later(60))
    assert row["reason"].startswith("no tierer is connected: upkeep of sales.t1 waits")


def test_manifests_before_and_after(world: CallWorld, tierer: HandTierer) -> None:
    stats = upkeep_stats(None, manifests_before=40, manifests_after=1)
    row = called(world, "rewrite_manifests", lambda: run_upkeep(tierer, tierer.get(), stats))
    assert (row["outcome"], row["manifests_before"], row["manifests_after"]) == ("SUCCEEDED", 40, 1)


def test_an_expiry_goes_on_until_no_old_snapshot_is_left_and_says_what_stays(world: CallWorld, tierer: HandTierer) -> None:
    def rounds() -> None:
        world.lake.expirable = 300
        run_upkeep(tierer, tierer.get(), upkeep_stats(None, snapshots_expired=REMOVED_AT_ONCE))
        while not world.record().upkeep.requests:
            pass
        world.lake.expirable = 0
        run_upkeep(tierer, tierer.get(), upkeep_stats(None, snapshots_expired=300))

    row = called(world, "expire_snapshots", rounds)
    assert (row["outcome"], row["deleted_snapshots_count"], row["kept_snapshots_count"]) == ("SUCCEEDED", 1_300, 11)
    assert row["kept_because"] == "10: the newest snapshots; 1: the tag 'audit'"


def test_an_expiry_that_removed_all_it_found_makes_no_further_round(world: CallWorld, tierer: HandTierer) -> None:
    """Each round adds a snapshot, which makes the one before it expire: with retain_last => 1 the call would never end."""
    world.lake.expirable = 1
    row = called(world, "expire_snapshots", lambda: run_upkeep(tierer, tierer.get(), upkeep_stats(None, snapshots_expired=13)))
    assert (row["outcome"], row["deleted_snapshots_count"]) == ("SUCCEEDED", 13)


def expiry_rounds(world: CallWorld, tierer: HandTierer, *removed: int) -> Act:
    """Rounds of one expiry that remove so many snapshots each; 300 may go until some do."""

    def rounds() -> None:
        for count in removed:
            while not world.record().upkeep.requests:
                pass
            world.lake.expirable = 0 if count else 300
            run_upkeep(tierer, tierer.get(), upkeep_stats(None, snapshots_expired=count))

    return rounds


def test_an_expiry_that_another_commit_overtook_is_asked_for_again(world: CallWorld, tierer: HandTierer) -> None:
    """A round repeats a commit that met a conflict without the removal of snapshots."""
    row = called(world, "expire_snapshots", expiry_rounds(world, tierer, 0, 0, 300))
    assert (row["outcome"], row["reason"], row["deleted_snapshots_count"]) == ("SUCCEEDED", None, 300)


def test_an_expiry_that_is_overtaken_again_and_again_says_so(world: CallWorld, tierer: HandTierer) -> None:
    row = called(world, "expire_snapshots", expiry_rounds(world, tierer, *[0] * (MAX_OVERTAKEN + 1)))
    assert (row["outcome"], row["reason"], row["deleted_snapshots_count"]) == ("DROPPED", OVERTAKEN, 0)
    assert not world.record().upkeep.requests


def test_an_overtaken_expiry_without_a_waiting_caller_starts_no_further_round(world: CallWorld, tierer: HandTierer) -> None:
    called(world, "expire_snapshots", key="k", wait=False)
    expiry_rounds(world, tierer, 0)()
    assert called(world, "expire_snapshots", key="k", wait=False)["reason"] == OVERTAKEN
    assert not world.record().upkeep.requests


def test_nothing_to_do_is_an_answer(world: CallWorld, tierer: HandTierer) -> None:
    row = called(world, "rewrite_data_files", lambda: end_upkeep(tierer, tierer.get(), empty=True))
    assert (row["outcome"], row["reason"]) == ("EMPTY", "there was nothing to do")


def test_a_dry_run_says_what_would_be_done_and_asks_for_nothing(world: CallWorld, tierer: HandTierer) -> None:
    world.lake.expirable, world.lake.manifests = 70, 5
    row = called(world, "rewrite_data_files", dry_run=True)
    assert (row["outcome"], row["rewritten_files_count"], row["rewritten_bytes_count"], row["bytes_left"]) == (
        "PLANNED",
        12,
        34 * MB,
        5 * MB,
    )
    row = called(world, "expire_snapshots", retain_last=2, dry_run=True)
    assert (row["outcome"], row["deleted_snapshots_count"], row["kept_snapshots_count"]) == ("PLANNED", 70, 11)
    assert world.lake.orders[-1] == ExpiryOrder(retain_last=2)
    assert called(world, "rewrite_manifests", dry_run=True)["manifests_before"] == 5
    assert not world.record().upkeep.requests


def test_a_repeat_with_the_key_attaches_and_then_gets_the_answer(world: CallWorld, tierer: HandTierer) -> None:
    first = called(world, "rewrite_data_files", key="k", wait=False)
    info = tierer.get()
    row = called(world, "rewrite_data_files", lambda: run_upkeep(tierer, info, upkeep_stats(0)), key="k")
    assert (row["outcome"], row["round_id"]) == ("SUCCEEDED", first["round_id"])
    world.restart()
    assert called(world, "rewrite_data_files", key="k") == row
    assert not world.record().upkeep.requests, "a repeat asks for nothing"


def test_a_key_names_the_condition_too(world: CallWorld, tierer: HandTierer) -> None:
    called(world, "rewrite_data_files", key="k", wait=False)
    error = error_of(world, "rewrite_data_files", key="k", full=True, wait=False)
    assert "already names rewrite_data_files" in error.message


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("rewrite_data_files", {"where": "id > 5"}, "sales.t1 has no partitions"),
        ("rewrite_data_files", {"timeout_ms": -1}, "timeout_ms must not be negative"),
        ("expire_snapshots", {"retain_last": 0}, "the argument 'retain_last' is 0: the newest snapshot always stays"),
        ("expire_snapshots", {"retain_last": -3}, "the argument 'retain_last' is -3"),
        ("expire_snapshots", {"older_than": START + timedelta(days=900)}, "which is in the future"),
    ],
)
def test_bad_input_gets_a_clear_error_and_asks_for_nothing(
    world: CallWorld, tierer: HandTierer, name: str, arguments: dict[str, Any], words: str
) -> None:
    error = error_of(world, name, **arguments)
    assert isinstance(error, errors.InvalidArgument)
    assert words in error.message
    assert error.hint or "timeout" in words
    assert not world.record().upkeep.requests


@pytest.mark.parametrize("name", ["rewrite_data_files", "expire_snapshots", "rewrite_manifests"])
def test_a_paused_table_and_a_parked_one_are_left_alone(world: CallWorld, tierer: HandTierer, name: str) -> None:
    called(world, "pause_upkeep", reason="the lake is moved")
    error = error_of(world, name)
    assert isinstance(error, errors.TablePaused)
    assert error.message == "upkeep of sales.t1 was paused by ann: the lake is moved"
    assert "sys.resume_upkeep" in error.hint
    assert called(world, "resume_upkeep") == {"table": "sales.t1", "previous_paused": True, "paused": False, "status": "Scheduled"}
    pause(world.coordinator, world.table.path, "bob")
    assert isinstance(error_of(world, name), errors.TablePaused)


def test_a_table_that_failed_for_good_says_so(world: CallWorld, tierer: HandTierer) -> None:
    world.append()
    world.later(world.table.freshness_ms / 1_000)
    tierer.fail(tierer.get(), error_class="SchemaDrift", error_retryable=False)
    error = error_of(world, "rewrite_data_files")
    assert "sales.t1 failed permanently (SchemaDrift): it gets no upkeep" in error.message


def test_a_round_that_fails_ends_the_call_with_its_error(world: CallWorld, tierer: HandTierer) -> None:
    error = error_of(world, "rewrite_data_files", lambda: tierer.fail(tierer.get(), error_class="DataCorrupt"), key="k")
    assert isinstance(error, errors.DataCorrupt)
    again = error_of(world, "rewrite_data_files", key="k")
    assert again.message == error.message


def test_a_cancelled_round_ends_the_call(world: CallWorld, tierer: HandTierer) -> None:
    def cancelled() -> None:
        info = tierer.get()
        cancel(world.coordinator, info.round_id, "bob")
        tierer.fail(info, error_class="Cancelled", error_message="cancelled")

    assert error_of(world, "rewrite_data_files", cancelled).error_class == "RoundCancelled"


def test_a_condition_chooses_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string(), nullable=False)])
    table = replace(upkept_table(freshness_ms=FRESHNESS * 10_000), schema=schema, partition_keys=("region",))
    world = CallWorld(tables=(table,))
    monkeypatch.setattr(world.cluster, "partitions", lambda table: [Partition(1, "north"), Partition(2, "south")])
    row = called(world, "rewrite_data_files", where="region = 'west'")
    assert (row["outcome"], row["reason"]) == (
        "EMPTY",
        "no partition of the source table matches 'where'; partitions that the source table dropped are not rewritten",
    )
    called(world, "rewrite_data_files", where="region = 'north'", wait=False)
    [request] = world.record().upkeep.requests
    assert request.order.partitions == {"north"}
    world.coordinator.close()


def explained(world: CallWorld) -> list[tuple[str, str]]:
    async def whole() -> list[tuple[str, str]]:
        async with asyncio.timeout(60), serving(world.coordinator) as client:
            _, rows = await client.call("explain_upkeep", table="sales.t1")
        return [(row["decision"], row["reason"]) for row in rows.to_pylist()]

    return asyncio.run(whole())


def test_an_explanation_says_which_snapshots_stay_and_why() -> None:
    world = CallWorld(tables=(replace(upkept_table(), snapshot_retention=SnapshotRetention(86_400_000, 10)),), rows=10)
    world.later(world.table.freshness_ms / 1_000)
    tierer = world.tierer()
    tierer.run(tierer.get())
    world.lake.expirable = 2
    stay = "2 snapshots would expire with the next commit; others stay: 10 (the newest snapshots), 1 (the tag 'audit')"
    assert ("note", stay) in explained(world)
    world.coordinator.close()


def test_an_explanation_has_the_next_upkeep_the_last_one_and_the_options(world: CallWorld, tierer: HandTierer) -> None:
    lines = explained(world)
    assert ("nothing", "its health has not been observed yet") in lines
    assert ("last", "the table has had no upkeep round yet") in lines
    assert ("option", "table.datalake.auto-compaction = true") in lines
    assert ("rewrite", "12 files would be rewritten") in lines
    assert ("left", "bytes that the following round would rewrite") in lines
    assert ("note", f"3 files would be skipped: {LEFT_ALONE}") in lines
    world.degrade(100 * MB)
    assert ("wait", "waits for: a slot that no other table needs") in [
        (decision, reason.split(" (")[0]) for decision, reason in explained(world)
    ]
    called(world, "rewrite_manifests", wait=False)
    assert any(reason.startswith("CALL rewrite_manifests by ann has waited since") for _, reason in explained(world))
    run_upkeep(tierer, tierer.get(), upkeep_stats(0))
    assert any(decision == "last" and reason.endswith("SUCCEEDED") for decision, reason in explained(world))
