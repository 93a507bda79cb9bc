"""Upkeep rounds of a coordinator: they get slots that no table needs, give way to tiering, and leave the tiering as it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from support.operators import cancel, pause, resume
from support.upkeep.upkeep_world import MB, UpkeepWorld, end_upkeep, run_upkeep, upkeep_stats, upkept_table
from support.worlds.coordinator_world import FRESHNESS, HandTierer
from tiering.coordinator.decisions.records import CommitState, TableRecord, Trigger, UpkeepOutcome
from tiering.coordinator.options import CoordinatorOptions
from tiering.lake.rules.upkeep.small_files import LEAST_BUDGET_BYTES
from tiering.model.rounds import RoundMode, RoundState
from tiering.rpc.v1 import coordinator_pb2 as pb

MINUTES = CoordinatorOptions().upkeep_interval_ms / 1_000


@pytest.fixture
def world() -> Iterator[UpkeepWorld]:
    world = UpkeepWorld(tables=(upkept_table(freshness_ms=FRESHNESS * 10_000),), rows=10)
    yield world
    world.coordinator.close()


@pytest.fixture
def tierer(world: UpkeepWorld) -> HandTierer:
    world.later(world.table.freshness_ms / 1_000)
    tierer = world.tierer()
    tierer.run(tierer.get())
    return tierer


@pytest.fixture
def assigned(world: UpkeepWorld, tierer: HandTierer) -> pb.PbLakeTieringTableInfo:
    """An upkeep round that a tierer has just got."""
    world.degrade()
    return tierer.get()


def tiering_of(record: TableRecord) -> TableRecord:
    """The record without what upkeep may change: its own part, the epoch, and what the lake holds."""
    return replace(
        record,
        upkeep=type(record.upkeep)(),
        tiering_epoch=0,
        status_time=record.last_checked_time or record.status_time,
        lake=type(record.lake)(),
    )


def test_a_degraded_table_gets_an_upkeep_round_when_a_tierer_has_nothing_else_to_do(world: UpkeepWorld, tierer: HandTierer) -> None:
    assert not tierer.beat(request=True).HasField("tiering_table")
    world.degrade(100 * MB)
    info = tierer.get()
    assert info.HasField("upkeep")
    assert (info.upkeep.rewrite, info.upkeep.full, info.upkeep.HasField("partitions")) == (True, False, False)
    running = world.record().running
    assert running is not None
    assert (running.trigger, running.mode, running.triggered_by) == (Trigger.UPKEEP, RoundMode.UPKEEP, None)
    assert running.upkeep_reason is not None
    assert running.upkeep_reason.startswith("100.0 MB of data files are to be rewritten")


def test_a_healthy_table_gets_none(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade(0)
    assert not tierer.beat(request=True).HasField("tiering_table")


def test_a_table_without_auto_compaction_gets_none() -> None:
    world = UpkeepWorld(tables=(upkept_table(freshness_ms=3_600_000, auto_compaction=False),), rows=10)
    world.later(3_600)
    tierer = world.tierer()
    tierer.run(tierer.get())
    world.degrade()
    assert not tierer.beat(request=True).HasField("tiering_table")
    assert world.coordinator.upkeep.explain(world.record(), tierer_connected=True).reason.startswith(
        "table.datalake.auto-compaction is off"
    )


def test_an_upkeep_round_leaves_what_the_record_says_of_the_tiering(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    before = world.record()
    info = tierer.get()
    world.later(60)
    run_upkeep(tierer, info)
    after = world.record()
    assert tiering_of(after) == tiering_of(before)
    assert after.tiering_epoch == before.tiering_epoch + 1
    assert after.lake.marker_round_id == info.round_id
    assert after.upkeep.last_outcome is UpkeepOutcome.SUCCEEDED
    assert after.upkeep.before is None
    ended = world.stored(info.round_id)
    assert (ended.state, ended.acked, ended.missed_by_ms) == (RoundState.SUCCEEDED, True, None)
    assert ended.stats is not None
    assert ended.stats.upkeep is not None
    assert ended.stats.upkeep.files_before == 20


def test_the_next_upkeep_waits_for_the_interval_and_for_a_new_look(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    run_upkeep(tierer, tierer.get())
    world.look()
    assert not tierer.beat(request=True).HasField("tiering_table")
    world.later(MINUTES)
    world.look()
    assert tierer.get().HasField("upkeep")


def test_what_a_round_left_is_rewritten_at_once(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    run_upkeep(tierer, tierer.get(), upkeep_stats(bytes_left=50 * MB))
    world.coordinator.upkeep.refresh()
    run_upkeep(tierer, tierer.get(), upkeep_stats(bytes_left=0))
    world.coordinator.upkeep.refresh()
    assert not tierer.beat(request=True).HasField("tiering_table")


def test_an_upkeep_round_ends_at_once_when_its_table_is_due(
    world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo
) -> None:
    world.later_with(tierer, world.table.freshness_ms / 1_000)
    assert world.state() == "Pending"
    ended = world.stored(assigned.round_id)
    assert (ended.state, ended.cancelled_by, ended.cancel_message) == (RoundState.CANCELLED, "lakeward", "its table is due")
    due = world.record().round
    assert due is not None
    assert (due.trigger, due.tiering_epoch) == (Trigger.SCHEDULE, assigned.tiering_epoch + 1)
    answer = tierer.beat().tiering_table_resp[0]
    assert answer.cancel
    request = tierer.prepare(assigned, ())
    assert not tierer.begin(assigned, request).granted
    assert world.record().upkeep.last_outcome is UpkeepOutcome.CANCELLED
    assert world.record().error is None


def test_a_granted_upkeep_round_goes_on_when_its_table_is_due(
    world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo
) -> None:
    tierer.commit(assigned, ())
    world.later_with(tierer, world.table.freshness_ms / 1_000)
    assert world.state() == "Tiering"
    tierer.ack(assigned)
    end_upkeep(tierer, assigned)
    world.later(1)
    assert world.state() == "Pending"
    assert world.stored(assigned.round_id).state is RoundState.SUCCEEDED


def test_a_round_that_gave_way_is_followed_by_a_smaller_one(
    world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo
) -> None:
    world.later_with(tierer, world.table.freshness_ms / 1_000)
    tierer.running.clear()
    tierer.run(tierer.get())
    world.look()
    assert tierer.get().upkeep.budget_bytes == assigned.upkeep.budget_bytes // 2


def test_a_due_table_that_finds_no_free_slot_gets_that_of_an_upkeep_round() -> None:
    tables = (upkept_table(1, freshness_ms=3_600_000), upkept_table(2, freshness_ms=200_000))
    world = UpkeepWorld(tables=tables, rows=10)
    world.later(3_600)
    tierer = world.tierer()
    for _ in tables:
        tierer.run(tierer.get())
    world.degrade()
    info = tierer.get()
    assert info.table_id == 1
    world.append(5, table=tables[1])
    while world.state(tables[1]) != "Pending":
        world.later(1)
        tierer.beat()
    assert world.record().running is not None
    world.later(0.5)
    assert world.record().running is None
    ended = world.stored(info.round_id)
    assert (ended.state, ended.cancel_message) == (RoundState.CANCELLED, "sales.t2 is due, and no slot is free")
    assert tierer.beat(request=False).tiering_table_resp[0].cancel
    tierer.running.clear()
    assert tierer.get().table_id == 2


def test_a_tierer_with_several_slots_keeps_one_for_due_tables() -> None:
    tables = (upkept_table(1, freshness_ms=3_600_000), upkept_table(2, freshness_ms=3_600_000))
    world = UpkeepWorld(tables=tables, rows=10)
    world.later(3_600)
    tierer = world.tierer()
    tierer.slots = 2
    for _ in tables:
        tierer.run(tierer.get())
    world.degrade(table=tables[0])
    world.degrade(table=tables[1])
    assert tierer.get().HasField("upkeep")
    assert not tierer.beat(request=True).HasField("tiering_table")


def test_a_failed_upkeep_round_leaves_its_table_healthy_and_backs_off(
    world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo
) -> None:
    tierer.fail(assigned)
    record = world.record()
    assert (world.state(), record.error, record.error_count, record.consecutive_failures) == ("Scheduled", None, 0, 0)
    assert record.upkeep.last_outcome is UpkeepOutcome.FAILED
    assert record.upkeep.last_error is not None
    assert record.upkeep.last_error.message == "no disk left"
    for failures, wait in ((1, MINUTES), (2, 2 * MINUTES)):
        assert world.record().upkeep.failures == failures
        world.later(wait - 30)
        world.look()
        assert not tierer.beat(request=True).HasField("tiering_table")
        world.later(30)
        world.look()
        tierer.fail(tierer.get())
    assert [event.event_type for event in world.store.events() if event.event_type.startswith("UPKEEP")] == ["UPKEEP_FAILED"] * 3


def test_a_granted_upkeep_commit_without_an_ack_is_resolved_by_a_tiering_round(
    world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo
) -> None:
    tierer.plan(assigned)
    late = tierer.prepare(assigned, ())
    assert tierer.begin(assigned, late).granted
    deadline = world.record().due_deadline
    tierer.fail(assigned)
    record = world.record()
    assert (world.state(), record.unresolved_commit, record.due_deadline) == ("Pending", True, deadline)
    assert record.round is not None
    assert record.round.trigger is Trigger.RETRY
    assert world.store.commits(1)[0].state is CommitState.UNKNOWN
    world.append(5)
    tierer.run(tierer.get())
    assert not world.record().unresolved_commit
    assert not world.lake.receive(late)


def test_a_call_ends_an_upkeep_round(world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo) -> None:
    world.append(5)
    result = world.call(wait=False)
    assert (result.round_id != assigned.round_id, world.state()) == (True, "Pending")
    assert world.stored(assigned.round_id).state is RoundState.CANCELLED


def test_a_call_waits_for_a_granted_upkeep_round(world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo) -> None:
    tierer.commit(assigned, ())
    world.append(5)
    result = world.call(wait=False)
    assert (result.round_id != assigned.round_id, world.state()) == (True, "Tiering")
    tierer.ack(assigned)
    end_upkeep(tierer, assigned)
    running = world.record().round
    assert running is not None
    assert (running.round_id, running.trigger, world.state()) == (result.round_id, Trigger.CALL, "Pending")


def test_a_paused_table_gets_no_upkeep(world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo) -> None:
    pause(world.coordinator, world.table.path, "alice")
    assert world.stored(assigned.round_id).state is RoundState.CANCELLED
    tierer.running.clear()
    world.later(MINUTES)
    world.look()
    assert not tierer.beat(request=True).HasField("tiering_table")
    resume(world.coordinator, world.table.path, "alice")
    assert tierer.get().HasField("upkeep")


def test_a_user_cancels_an_upkeep_round(world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo) -> None:
    assert cancel(world.coordinator, assigned.round_id, "alice")
    assert tierer.beat().tiering_table_resp[0].cancel
    tierer.fail(assigned, error_class="Cancelled", error_message="cancelled")
    assert (world.state(), world.stored(assigned.round_id).state) == ("Scheduled", RoundState.CANCELLED)


def test_the_round_that_a_lost_answer_assigned_is_handed_over_again(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    lost = tierer.lose_answer()
    assert tierer.get() == lost


def test_a_tierer_that_is_lost_costs_the_upkeep_round_alone(
    world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo
) -> None:
    world.later(121)
    assert (world.state(), world.record().error) == ("Scheduled", None)
    assert world.stored(assigned.round_id).state is RoundState.FAILED


def test_an_upkeep_round_outlives_the_coordinator(world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo) -> None:
    before = world.record().upkeep.before
    world.crash()
    assert world.record().upkeep.before == before
    run_upkeep(tierer, assigned)
    assert world.stored(assigned.round_id).state is RoundState.SUCCEEDED
    assert world.record().round == before.round if before is not None else False


def test_work_that_another_commit_overtook_is_dropped_counted_and_tried_in_smaller_pieces(
    world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo
) -> None:
    end_upkeep(tierer, assigned, upkeep_stats(None, files_after=0, dropped=2), empty=True)
    record = world.record()
    assert (record.upkeep.last_outcome, record.upkeep.failures) == (UpkeepOutcome.DROPPED, 1)
    world.look()
    assert tierer.get().upkeep.budget_bytes == max(LEAST_BUDGET_BYTES, assigned.upkeep.budget_bytes // 2)


def test_a_round_that_could_change_nothing_is_not_repeated_at_once(
    world: UpkeepWorld, tierer: HandTierer, assigned: pb.PbLakeTieringTableInfo
) -> None:
    end_upkeep(tierer, assigned, pb.PbRoundStats(), empty=True)
    assert world.record().upkeep.last_outcome is UpkeepOutcome.EMPTY
    world.later(MINUTES)
    world.look()
    end_upkeep(tierer, tierer.get(), pb.PbRoundStats(), empty=True)
    world.later(MINUTES)
    world.look()
    assert not tierer.beat(request=True).HasField("tiering_table")
