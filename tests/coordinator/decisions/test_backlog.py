"""The backlog of a table: when it starts and starts anew, what its splits carry, and that it ends once per bucket and start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from support.background import tick
from support.clusters.memory_cluster import log_table
from support.operators import pause, resume
from support.worlds.coordinator_world import FRESHNESS, HandTierer, World
from tiering.coordinator.decisions import retries
from tiering.coordinator.decisions.backlog import PLAN_MS
from tiering.coordinator.options import CoordinatorOptions
from tiering.errors import InvalidArgument
from tiering.model.leases import KvSnapshot
from tiering.model.rounds import RoundMode
from tiering.model.splits import AssignedBacklog, TieringSplit
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo, TableType
from tiering.planning.plan_splits import Plan, plan_round
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import ASSIGNMENT

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
NEW_PARTITION = BucketKey(17, 0)


def backlog(world: World) -> bool | None:
    [status] = world.coordinator.view().table_statuses()
    column = world.coordinator.view().status_columns().column("is_backlog")
    assert column.to_pylist() == [status.is_backlog]
    return status.is_backlog


def events_about(world: World, *kinds: str) -> list[tuple[object, ...]]:
    """Events of these kinds: what they are about, the oldest first."""
    events = [event for event in reversed(world.store.events(10_000)) if event.event_type in kinds]
    return [
        (event.event_type, *(event.details[name] for name in ("start", "bucket", "cause") if name in event.details)) for event in events
    ]


def finishes(world: World) -> list[tuple[object, ...]]:
    """Start and bucket of each BACKLOG_FINISH."""
    return [row[1:] for row in events_about(world, "BACKLOG_FINISH")]


def finish_messages(world: World) -> list[str]:
    return [event.message for event in reversed(world.store.events()) if event.event_type == "BACKLOG_FINISH"]


def switches(world: World) -> list[object]:
    return [kind for (kind,) in events_about(world, "MODE_BACKLOG", "MODE_LIVE")]


def caught_up(world: World) -> HandTierer:
    """A table without backlog, whose lake has all of ten rows in either bucket."""
    world.append(10)
    world.append(10, bucket=1)
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    assert finishes(world) == [(1, "0"), (1, "1")]
    return tierer


def plan_of(world: World, assignment: pb.PbLakeTieringTableInfo) -> Plan:
    """Returns the plan of a round that begins now, with nothing in the lake."""
    assigned = ASSIGNMENT.from_pb(assignment, coordinator_epoch=1).backlog
    return plan_round(world.table, {}, world.cluster.offsets(world.table), [], backlog=assigned)


def carried(splits: Sequence[TieringSplit]) -> dict[BucketKey, int | None]:
    return {split.bucket: split.backlog_offset for split in splits}


def test_a_backlog_is_what_was_there_when_reading_began_and_ends_once(world: World) -> None:
    assert backlog(world) is None
    world.append(10)
    tierer, assignment = world.assigned()
    assert backlog(world) is None  # it did not look yet
    tierer.plan(assignment)
    assert backlog(world) is True
    world.restart()
    assert backlog(world) is True
    tierer.fail(assignment)
    world.append(5)
    world.later(60)
    again = tierer.get()
    tierer.commit(again)
    assert (backlog(world), finishes(world)) == (True, [])
    tierer.ack(again)
    assert (backlog(world), finishes(world)) == (False, [(1, "0")])
    tierer.finish(again)
    world.append(50)
    world.later(1_000)
    tierer.plan(tierer.get())
    assert backlog(world) is False
    assert switches(world) == ["MODE_BACKLOG", "MODE_LIVE"]
    assert events_about(world, "BACKLOG_BEGIN") == [("BACKLOG_BEGIN", 1, "FIRST")]


def test_a_table_without_rows_has_no_backlog(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.finish(assignment, empty=True)
    assert backlog(world) is False
    world.append(10)
    world.later(FRESHNESS)
    tierer.run(tierer.get())
    assert (switches(world), finishes(world)) == ([], []), "rows that come later are no backlog"


def test_splits_carry_the_end_of_when_reading_began(world: World) -> None:
    world.append(10)
    tierer, assignment = world.assigned()
    assert carried(plan_of(world, assignment).splits) == {B0: 10}
    tierer.plan(assignment)
    tierer.fail(assignment)
    world.append(90)
    world.append(7, bucket=1)
    world.later(60)
    again = tierer.get()
    assert carried(plan_of(world, again).splits) == {B0: 10, B1: None}, "the ends of then, and of what began then"
    tierer.run(again)
    world.later(FRESHNESS)
    assert ASSIGNMENT.from_pb(tierer.get(), coordinator_epoch=1).backlog == AssignedBacklog()


def test_a_snapshot_split_carries_it_too_and_may_be_all_that_there_is_to_read() -> None:
    table = replace(log_table(), table_type=TableType.PRIMARY_KEY, primary_key=("id",))
    ends = {B0: BucketOffsets(40, 40), B1: BucketOffsets(0, 50)}
    snapshots = {B0: KvSnapshot(3, 40), B1: KvSnapshot(4, 30)}
    plan = plan_round(table, {}, ends, [], snapshots, AssignedBacklog(begins=True))
    assert carried(plan.snapshots) == carried(plan.splits) == {B0: 40, B1: 50}
    assert plan.stops[B0] == 40
    live = plan_round(table, {}, ends, [], snapshots, AssignedBacklog({B1: 45}))
    assert carried(live.snapshots) == {B0: None, B1: 45}


def test_a_bucket_with_only_a_snapshot_to_read_finishes_when_that_is_done(world: World) -> None:
    world.append(40)
    world.append(50, bucket=1)
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    # Bucket 0 is left out of the marker while its snapshot is not read whole: it is not finished, and not gone.
    request = tierer.prepare(assignment)
    without = replace(request.marker, buckets={B1: request.marker.buckets[B1]})
    partly = replace(request, marker=without, ranges=tuple(row for row in request.ranges if row[0] == B1))
    assert tierer.begin(assignment, partly).granted
    assert world.lake.receive(partly)
    tierer.ack(assignment)
    assert (finishes(world), backlog(world)) == ([(1, "1")], True)
    tierer.finish(assignment, forced=True)
    tierer.run(tierer.get())
    assert (finishes(world), backlog(world)) == ([(1, "1"), (1, "0")], False)


def test_of_a_log_that_lost_its_beginning_no_more_records_are_claimed_than_can_be_told(world: World) -> None:
    world.cluster.logs[1][B0] = (1_000, 1_010)
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    world.later(11 * FRESHNESS)
    world.cluster.logs[1][B0] = (1_000, 1_030)
    world.later(FRESHNESS)
    again = tierer.get()
    tierer.plan(again)
    begins = [event.message.partition(":")[0] for event in reversed(world.store.events()) if event.event_type == "BACKLOG_BEGIN"]
    assert begins == ["at most 1,010 records of 1 bucket wait", "20 records of 1 bucket wait"]


def test_what_is_reached_in_part_goes_on(world: World) -> None:
    world.append(10)
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    world.cluster.logs[1][B0] = (0, 6)
    tierer.commit(assignment)
    tierer.ack(assignment)
    world.cluster.logs[1][B0] = (0, 10)
    tierer.finish(assignment, forced=True)
    assert (backlog(world), finishes(world)) == (True, [])
    tierer.run(tierer.get())
    assert (backlog(world), finishes(world)) == (False, [(1, "0")])


def test_lost_answers_repeats_and_restarts_finish_it_once(world: World) -> None:
    world.append(10)
    world.due()
    tierer = world.tierer()
    tierer.lose_answer()
    assignment = tierer.get()
    tierer.plan(assignment)
    tierer.plan(assignment)
    tierer.commit(assignment)
    late = tierer.ack_message(assignment)
    tierer.ack(assignment)
    world.coordinator.commits.commit_lake_snapshot(late)
    world.crash()
    world.coordinator.commits.commit_lake_snapshot(late)
    tierer.finish(assignment)
    assert finishes(world) == [(1, "0")]
    assert events_about(world, "BACKLOG_BEGIN") == [("BACKLOG_BEGIN", 1, "FIRST")]


def test_a_fenced_round_whose_commit_landed_finishes_it_once(world: World) -> None:
    world.append(10)
    world.due()
    first = world.process("one")
    assignment = first.get()
    first.commit(assignment)
    second = world.process("two")
    again = second.get()  # the first process is fenced; its commit is in the lake
    assert finishes(world) == []
    second.ack(again)
    second.finish(again, empty=True)
    assert (finishes(world), backlog(world)) == ([(1, "0")], False)
    first.ack(assignment)
    assert finishes(world) == [(1, "0")]


def test_a_later_partition_is_no_backlog(world: World) -> None:
    tierer = caught_up(world)
    world.cluster.logs[1][NEW_PARTITION] = (0, 500)
    world.later(FRESHNESS)
    assignment = tierer.get()
    assert carried(plan_of(world, assignment).splits)[B0] is None
    tierer.plan(assignment)
    assert backlog(world) is False
    row = world.record().round
    assert row is not None
    assert row.mode is RoundMode.LIVE


def test_a_partition_that_goes_before_it_is_read_has_no_backlog(world: World) -> None:
    world.append(10)
    world.cluster.logs[1][NEW_PARTITION] = (0, 500)
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    del world.cluster.logs[1][NEW_PARTITION]
    tierer.fail(assignment)
    world.later(60)
    again = tierer.get()
    tierer.plan(again)
    assert finishes(world) == [(1, "17/0")]
    assert finish_messages(world) == ["nothing is left to read of the backlog of bucket 17/0, which ended at offset 500"]
    tierer.run(again)
    assert finish_messages(world)[1:] == ["the lake has the backlog of bucket 0, which ended at offset 10"]
    assert (finishes(world), backlog(world)) == ([(1, "17/0"), (1, "0")], False)


def test_a_partition_that_was_all_that_was_left_ends_it_with_an_empty_round(world: World) -> None:
    world.cluster.logs[1][NEW_PARTITION] = (0, 500)
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    del world.cluster.logs[1][NEW_PARTITION]
    tierer.finish(assignment, empty=True)
    assert (finishes(world), backlog(world)) == ([(1, "17/0")], False)
    assert finish_messages(world) == ["nothing is left to read of the backlog of bucket 17/0, which ended at offset 500"]


def test_it_starts_anew_when_the_lake_is_enabled_again(world: World) -> None:
    caught_up(world)
    replace_table(world, replace(world.table, lake_enabled=False))
    world.append(30)
    replace_table(world, replace(world.table, lake_enabled=True, lake_enabled_at=world.clock.now()))
    assert backlog(world) is True
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    assert events_about(world, "BACKLOG_BEGIN")[1:] == [("BACKLOG_BEGIN", 2, "ENABLED")]
    assert finishes(world)[2:] == [(2, "0")], "bucket 1 had nothing to read"
    assert switches(world) == ["MODE_BACKLOG", "MODE_LIVE"] * 2


def replace_table(world: World, table: TableInfo) -> None:
    world.cluster.by_path[table.path] = table
    tick(world.coordinator)


def test_it_starts_anew_for_a_table_that_is_made_anew(world: World) -> None:
    caught_up(world)
    anew = replace(world.table, table_id=2)
    world.cluster.logs[2] = {B0: (0, 4), B1: (0, 0)}
    world.lake.tables.clear()
    replace_table(world, anew)
    world.tables = (anew,)
    assert backlog(world) is None
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    assert events_about(world, "BACKLOG_BEGIN")[1:] == [("BACKLOG_BEGIN", 1, "FIRST")]
    assert finishes(world)[2:] == [(1, "0")]


def test_it_starts_anew_after_days_without_a_tierer(world: World) -> None:
    tierer = caught_up(world)
    world.append(1_000)
    world.later(9 * FRESHNESS)
    world.coordinator.observer.observe_all()
    assert backlog(world) is False
    world.later(3 * 86_400)
    world.coordinator.observer.observe_all()
    assert (backlog(world), switches(world)[-1]) == (True, "MODE_BACKLOG")
    world.restart()
    world.coordinator.observer.observe_all()
    assignment = tierer.get()
    assert assignment.max_duration_ms == 10 * FRESHNESS * 1_000
    tierer.run(assignment)
    assert events_about(world, "BACKLOG_BEGIN")[1:] == [("BACKLOG_BEGIN", 2, "OUTAGE")]
    assert (finishes(world)[2:], backlog(world)) == ([(2, "0")], False)
    assert switches(world) == ["MODE_BACKLOG", "MODE_LIVE"] * 2


def test_an_outage_that_no_process_observed_is_noticed_by_the_plan(world: World) -> None:
    tierer = caught_up(world)
    world.append(1_000)
    world.later(3 * 86_400)
    tierer.slots = 2
    assignment = tierer.get()
    assert assignment.max_duration_ms == 10 * FRESHNESS * 1_000
    tierer.run(assignment)
    assert events_about(world, "BACKLOG_BEGIN")[1:] == [("BACKLOG_BEGIN", 2, "OUTAGE")]


def test_days_without_a_row_are_no_outage(world: World) -> None:
    tierer = caught_up(world)
    world.later(3 * 86_400)
    world.coordinator.observer.observe_all()
    assert backlog(world) is False
    tierer.finish(tierer.get(), empty=True)
    assert (backlog(world), len(switches(world))) == (False, 2)


def test_a_long_pause_is_an_outage(world: World) -> None:
    tierer = caught_up(world)
    pause(world.coordinator, world.table.path, "ann")
    world.append(5)
    world.later(11 * FRESHNESS)
    world.coordinator.observer.observe_all()
    assert backlog(world) is True
    resume(world.coordinator, world.table.path, "ann")
    tick(world.coordinator)
    tierer.run(tierer.get())
    assert backlog(world) is False


@pytest.mark.parametrize(("after_ms", "is_outage"), [(60_000, True), (86_400_000, False)])
def test_an_option_says_how_long_an_outage_is(after_ms: int, is_outage: bool) -> None:
    world = World(options=CoordinatorOptions(backlog_reset_after_ms=after_ms))
    caught_up(world)
    world.append(5)
    world.later(11 * FRESHNESS)
    world.coordinator.observer.observe_all()
    assert backlog(world) is is_outage


def test_rounds_that_fail_after_an_outage_start_it_no_more_often_than_outages_last(world: World) -> None:
    tierer = caught_up(world)
    world.append(1_000)
    world.later(3 * 86_400)
    for _ in range(5):
        assignment = tierer.get()
        tierer.plan(assignment)
        tierer.fail(assignment)
        world.later(100)
        world.coordinator.observer.observe_all()
    assert len(events_about(world, "BACKLOG_BEGIN")) == 2


def test_modes_of_rounds_and_how_long_they_may_take(world: World) -> None:
    world.append(10)
    tierer, assignment = world.assigned()
    assert assignment.max_duration_ms == 10 * FRESHNESS * 1_000
    tierer.run(assignment)
    world.append(5)
    world.later(FRESHNESS)
    live = tierer.get()
    assert live.max_duration_ms == FRESHNESS * 1_000
    tierer.run(live)
    modes = [row.mode for row in reversed(world.store.rounds()) if row.mode is not None]
    assert modes == [RoundMode.BACKLOG, RoundMode.LIVE]


def many(*slots_of: str, factor: int = 10) -> World:
    """A world of three tables, of which the first two have a backlog to begin, and the third is live."""
    tables = tuple(log_table(number, path=replace(log_table().path, table_name=name)) for number, name in enumerate(slots_of, 1))
    return World(tables, options=CoordinatorOptions(backlog_duration_factor=factor))


def two_backlogs_and_a_live_table(factor: int = 10) -> tuple[World, HandTierer]:
    world = many("first", "second", "live", factor=factor)
    world.due()
    tierer = world.tierer()
    assigned = {info.path.table_name: info for info in (tierer.get(), tierer.get(), tierer.get())}
    tierer.finish(assigned["live"], empty=True)
    for name in ("first", "second"):
        tierer.fail(assigned[name], error_class="TiererStopped")
    world.append(100, table=world.tables[0])
    world.append(100, table=world.tables[1])
    world.later(FRESHNESS)
    return world, tierer


def names_given(tierer: HandTierer, slots: int) -> list[str]:
    tierer.slots = slots
    names = []
    for _ in range(slots):
        response = tierer.beat(request=True)
        if response.HasField("tiering_table"):
            names.append(response.tiering_table.path.table_name)
    return names


def test_backlogs_leave_a_slot_to_tables_that_promise_to_be_fresh() -> None:
    world, tierer = two_backlogs_and_a_live_table()
    assert names_given(tierer, 2) == ["live", "first"]
    tierer.finish(next(info for info in tierer.running.values() if info.path.table_name == "live"), empty=True)
    assert not tierer.beat(request=True).HasField("tiering_table"), "the second backlog waits for the first"
    world.later(100)
    assert not tierer.beat(request=True).HasField("tiering_table")
    world.later(100)
    assert tierer.get().path.table_name == "live"


@pytest.mark.parametrize("planned", [False, True])
def test_a_first_round_that_hangs_before_its_plan_keeps_no_other_backlog_waiting(planned: bool) -> None:
    world = many("live", "first", "second")
    for table in world.tables[1:]:
        world.append(100, table=table)
    world.due()
    tierer = world.tierer()
    tierer.slots = 2
    live = tierer.get()
    assert live.path.table_name == "live"
    tierer.finish(live, empty=True)
    first = tierer.get()
    if planned:
        tierer.plan(first)
    world.clock.advance(PLAN_MS / 1_000)
    assert not tierer.beat(request=True).HasField("tiering_table"), "it may only be about to plan"
    world.clock.advance(0.001)
    assert tierer.beat(request=True).HasField("tiering_table") is not planned


def test_a_backlog_that_failed_keeps_its_slot_no_longer_than_others(world: World) -> None:
    world.append(100)
    world.due()
    tierer = world.tierer()
    tierer.slots = 2
    first = tierer.get()
    assert first.max_duration_ms == 10 * FRESHNESS * 1_000
    tierer.fail(first)
    world.later(2)
    again = tierer.get()
    assert again.max_duration_ms == FRESHNESS * 1_000
    assert retries.is_retry(world.record()), "it counts among the retries, which get a share of the slots"


def test_with_one_slot_they_take_turns_in_rounds_as_short_as_all_others() -> None:
    _, tierer = two_backlogs_and_a_live_table()
    assert names_given(tierer, 1) == ["live"]
    [live] = tierer.running.values()
    tierer.finish(live, empty=True)
    assert tierer.get().max_duration_ms == FRESHNESS * 1_000


def test_without_long_rounds_a_backlog_is_as_all_others() -> None:
    _, tierer = two_backlogs_and_a_live_table(factor=1)
    assert names_given(tierer, 3) == ["first", "second", "live"]
    assert {info.max_duration_ms for info in tierer.running.values()} == {FRESHNESS * 1_000}


def test_a_table_that_is_called_for_gets_the_last_slot_too() -> None:
    world, tierer = two_backlogs_and_a_live_table()
    for table in world.tables[:2]:
        world.call(table.path, wait=False)
    assert names_given(tierer, 2) == ["first", "second"]


@pytest.mark.parametrize("wrong", [{"backlog_duration_factor": 0}, {"backlog_reset_after_ms": -1}])
def test_options_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match="backlog_"):
        CoordinatorOptions(**wrong)
