"""The pure rules of upkeep: what a table needs, when a round may begin and how large it is, and what callers ask for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.upkeep.upkeep_records import ERROR, FRESHNESS_MS, TABLE, WORK, ask, at, ended, resting, work_of
from support.upkeep.upkeep_world import MB
from support.worlds.coordinator_world import START
from tiering import errors
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import (
    CommitState,
    EndedUpkeep,
    LakeCommitRecord,
    Pause,
    QueuedCall,
    RoundRecord,
    TableRecord,
    UpkeepOutcome,
    UpkeepPause,
    UpkeepRecord,
    UpkeepRequest,
)
from tiering.coordinator.decisions.table_lifecycle import discover, drop, due, restore
from tiering.coordinator.decisions.upkeep import requests, rounds, schedule
from tiering.coordinator.decisions.upkeep.need import needed_work
from tiering.coordinator.decisions.upkeep.outcomes import MAX_GIVEN_WAY, total_stats
from tiering.lake.health.measure import FileTotals, LakeMeasure
from tiering.lake.health.table_health import HealthObservation
from tiering.lake.rules.upkeep.small_files import LEAST_BUDGET_BYTES, REWRITTEN_BYTES_PER_MS
from tiering.model.rounds import RoundState, RoundStats
from tiering.model.states import TableState
from tiering.model.tables import SnapshotRetention
from tiering.model.upkeep import UPKEEP_ROUND_BYTES, ExpiryOrder, UpkeepOrder, UpkeepStats


def with_upkeep(**fields: Any) -> TableRecord:
    return resting(upkeep=UpkeepRecord(**fields))


def waits_for(record: TableRecord, seconds: float = 0, **arguments: bool) -> str | None:
    return schedule.waits_for(at(seconds).now, record, **({"needs_turn": False, "requested": False} | arguments))


def stats(**counts: Any) -> RoundStats:
    return RoundStats(upkeep=UpkeepStats(**counts))


COMMIT = LakeCommitRecord("r1", 1, "sales", "t1", 1, CommitState.LAKE_COMMITTED, START)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (resting(pause=Pause("bob", None, START)), "the table is paused by bob"),
        (with_upkeep(pause=UpkeepPause("bob", "a migration", START)), "its upkeep is paused by bob: a migration"),
        (resting(state=TableState.FAILED, error=ERROR), "the table failed permanently (OSError): upkeep continues when its tiering does"),
        (resting(state=TableState.FAILED, error=ERROR, retry_deadline=START), "the table failed and waits for its next round"),
        (resting(state=TableState.PENDING), "a tiering round of the table runs or waits for a tierer"),
        (resting(consecutive_failures=1), "its latest round failed, and the next one has to succeed first"),
        (resting(commit=COMMIT), "the cluster has not been told of its latest commit yet"),
        (resting(call=QueuedCall("r2", "bob", START)), "a CALL waits for a tiering round"),
        (resting(due_deadline=START + timedelta(seconds=3)), "its next round begins in 0 ms"),
        (discover(at(0), TABLE).record, "there is no lake table yet"),
        (with_upkeep(next_deadline=START + timedelta(seconds=90)), "its latest upkeep was recent: the next one begins in 1.5 min"),
        (
            with_upkeep(next_deadline=START + timedelta(seconds=9), failures=2),
            "2 upkeep rounds in a row failed or lost a commit conflict: the next one begins in 9 s",
        ),
        (
            with_upkeep(next_deadline=START + timedelta(seconds=9), idle_rounds=2),
            "its latest upkeep round found nothing to change: the next one begins in 9 s",
        ),
        (
            with_upkeep(rest_deadline=START + timedelta(seconds=9)),
            "it pauses for 9 s after a round that gave way to tiering or lost a commit conflict",
        ),
        (
            with_upkeep(rest_deadline=START + timedelta(seconds=9), given_way=3),
            "3 upkeep rounds in a row gave way to tiering before their commit: the next one begins in 9 s",
        ),
        (resting(), None),
    ],
)
def test_what_upkeep_waits_for(record: TableRecord, words: str | None) -> None:
    assert waits_for(record) == words


def test_an_unresolved_commit_keeps_upkeep_waiting() -> None:
    record = resting()
    record = replace(record, lake=replace(record.lake, unresolved_epoch=1))
    assert waits_for(record) == "it is not known yet whether its latest commit is in the lake: its next round finds out"


def test_a_caller_waits_for_no_interval_but_for_a_rest() -> None:
    later = START + timedelta(seconds=60)
    assert waits_for(with_upkeep(next_deadline=later), requested=True) is None
    assert waits_for(with_upkeep(rest_deadline=later), requested=True) is not None


def test_where_the_cluster_assigns_tables_upkeep_waits_for_the_turn() -> None:
    assert waits_for(resting(), needs_turn=True) == "the cluster has not assigned the table to this service"


@pytest.mark.parametrize(
    ("fields", "order", "budget"),
    [
        ({}, UpkeepOrder(), UPKEEP_ROUND_BYTES),
        ({"upkeep": UpkeepRecord(budget_bytes=50 * MB)}, UpkeepOrder(), 50 * MB),
        ({"due_deadline": START + timedelta(seconds=13)}, UpkeepOrder(), 10_000 * REWRITTEN_BYTES_PER_MS),
        ({"due_deadline": START}, UpkeepOrder(), LEAST_BUDGET_BYTES),
        ({"due_deadline": START}, UpkeepOrder(budget_bytes=7), 7),
        ({"due_deadline": START}, UpkeepOrder(full=True), LEAST_BUDGET_BYTES),
        ({"due_deadline": START}, UpkeepOrder(rewrite=False), UPKEEP_ROUND_BYTES),
    ],
)
def test_a_round_is_as_large_as_the_time_until_its_table_is_due(fields: dict[str, Any], order: UpkeepOrder, budget: int) -> None:
    record = resting(**({"recent_waits_ms": (), "freshness_ms": FRESHNESS_MS} | fields))
    assert schedule.within_budget(at(0).now, record, order) == replace(order, budget_bytes=budget)


def test_a_round_begins_no_rewrite_that_could_not_be_committed_before_its_table_is_due() -> None:
    record = resting(due_deadline=START + timedelta(seconds=13), recent_waits_ms=(), freshness_ms=FRESHNESS_MS)
    room = schedule.room_ms(at(0).now, record)
    assert room == 10_000
    assert schedule.longest(at(0).now, record, at(0).options) == timedelta(seconds=7)
    assert schedule.longest(at(0).now, resting(due_deadline=START), at(0).options) > timedelta(0)


def observation(seconds: float = 0, rewrite_bytes: int = 0, manifests: int = 1, snapshots: int = 1) -> HealthObservation:
    files = FileTotals(128 * MB, data_files=9, data_bytes=9 * MB, buckets=1, rewrite_bytes=rewrite_bytes)
    oldest = START - timedelta(days=3)
    return HealthObservation.of(START + timedelta(seconds=seconds), LakeMeasure(files, snapshots, oldest, manifests, 1, 1))


def needed(record: TableRecord, health: HealthObservation | None, seconds: float = 1, **table: Any) -> UpkeepOrder | None:
    work = needed_work(record, replace(TABLE, **table), health, START + timedelta(seconds=seconds))
    return None if work is None else work.order


def test_what_a_table_needs_follows_from_its_health() -> None:
    assert needed(resting(), None) is None
    assert needed(resting(), HealthObservation(START)) is None
    assert needed(resting(), observation()) is None
    assert needed(resting(), observation(rewrite_bytes=1)) == UpkeepOrder()
    assert needed(resting(), observation(rewrite_bytes=1, manifests=101)) == UpkeepOrder(manifests=True)
    assert needed(resting(), observation(manifests=101)) == UpkeepOrder(rewrite=False, manifests=True)
    assert needed(resting(), observation(rewrite_bytes=1, manifests=101), auto_compaction=False) is None


def test_what_was_observed_before_the_latest_upkeep_round_counts_no_more() -> None:
    record = with_upkeep(commit_time=START + timedelta(seconds=5))
    assert needed(record, observation(5, rewrite_bytes=1)) is None
    assert needed(record, observation(6, rewrite_bytes=1)) == UpkeepOrder()
    assert needed(replace(record, upkeep=replace(record.upkeep, bytes_left=1)), observation(5)) == UpkeepOrder()


def test_snapshots_of_a_table_without_commits_expire_in_an_upkeep_round() -> None:
    retention = SnapshotRetention(86_400_000, 10)
    idle = resting(last_tiered_time=START - timedelta(hours=2))
    expiry = UpkeepOrder(rewrite=False, expiry=ExpiryOrder())
    assert needed(idle, observation(snapshots=20), snapshot_retention=retention) == expiry
    assert needed(idle, observation(snapshots=20), snapshot_retention=retention, auto_compaction=False) == expiry
    assert needed(idle, observation(snapshots=19), snapshot_retention=retention) is None
    assert needed(idle, observation(snapshots=20)) is None
    lately = replace(idle, upkeep=UpkeepRecord(commit_time=START - timedelta(hours=23)))
    assert needed(lately, observation(snapshots=20), snapshot_retention=retention) is None, "a tag may keep the oldest one for good"
    assert needed(lately, observation(snapshots=1_000), snapshot_retention=retention) == expiry, "so many go with several commits"
    long_ago = replace(idle, upkeep=UpkeepRecord(commit_time=START - timedelta(hours=25)))
    assert needed(long_ago, observation(snapshots=20), snapshot_retention=retention) == expiry
    assert needed(resting(last_tiered_time=START), observation(snapshots=20), snapshot_retention=retention) is None


def test_a_request_goes_on_until_nothing_is_left_and_its_answer_is_the_sum() -> None:
    record, request_id = ask(resting(), UpkeepOrder())
    waiting = requests.request_state(record, request_id)
    assert isinstance(waiting, UpkeepRequest)
    assert (waiting.caller, waiting.rounds) == ("alice", 0)
    record = ended(
        record, 1, UpkeepStats(files_before=10, files_after=1, bytes_read=100, bytes_left=50, manifests_before=7, manifests_after=6)
    )
    assert isinstance(requests.request_state(record, request_id), UpkeepRequest)
    record = ended(
        record, 5, UpkeepStats(files_before=5, files_after=1, bytes_read=50, bytes_left=0, manifests_before=6, manifests_after=5)
    )
    end = requests.request_state(record, request_id)
    assert isinstance(end, EndedUpkeep)
    assert (end.outcome, end.rounds, record.upkeep.requests) == (UpkeepOutcome.SUCCEEDED, 2, ())
    assert (end.stats.files_before, end.stats.files_after, end.stats.bytes_read, end.stats.bytes_left) == (15, 2, 150, 0)
    assert (end.stats.manifests_before, end.stats.manifests_after) == (7, 5)


@pytest.mark.parametrize(("left", "enough"), [(1, 101), (150, 301)])
def test_manifests_are_merged_again_only_once_they_doubled(left: int, enough: int) -> None:
    """A table with more full manifests than the bound would get a commit every few minutes."""
    record, _ = ask(resting(), UpkeepOrder(rewrite=False, manifests=True))
    record = ended(record, 1, UpkeepStats(manifests_before=150, manifests_after=left))
    assert needed(record, observation(9, manifests=enough - 1)) is None
    assert needed(record, observation(9, manifests=enough)) == UpkeepOrder(rewrite=False, manifests=True)
    record = ended(record, 10, UpkeepStats(files_before=1, manifests_before=9, manifests_after=8))
    assert needed(record, observation(20, manifests=enough - 1)) is None, "that round merged no manifests"


def test_the_first_round_of_a_request_has_its_id() -> None:
    record, request_id = ask(resting(), UpkeepOrder())
    running = rounds.begin(at(1, "another"), record, work_of(record), "t").record
    assert running.running is not None
    assert (running.running.round_id, running.running.triggered_by) == (request_id, "alice")
    state = requests.request_state(running, request_id)
    assert isinstance(state, RoundRecord)
    assert state.state is RoundState.RUNNING


def test_a_full_rewrite_is_divided_as_any_other() -> None:
    record, request_id = ask(resting(), UpkeepOrder(full=True))
    record = ended(record, 1, UpkeepStats(files_before=10, files_after=1, bytes_left=50))
    assert isinstance(requests.request_state(record, request_id), UpkeepRequest)
    record = ended(record, 5, UpkeepStats(files_before=5, files_after=1, bytes_left=0))
    assert isinstance(requests.request_state(record, request_id), EndedUpkeep)


def test_an_equal_request_joins_and_another_one_waits_its_turn() -> None:
    record, first = ask(resting(), UpkeepOrder())
    joined = requests.request(at(1, "x"), record, UpkeepOrder(), "rewrite_data_files")
    assert (joined.round_id, joined.joined) == (first, True)
    record, second = ask(record, UpkeepOrder(rewrite=False, manifests=True))
    record = ended(record, 2, UpkeepStats(files_before=1, bytes_left=0))
    assert [request.request_id for request in record.upkeep.requests] == [second]


def test_too_many_requests_are_refused() -> None:
    record = resting()
    for number in range(requests.MAX_REQUESTS):
        order = UpkeepOrder(partitions=frozenset({str(number)}))
        record = requests.request(at(0, f"q{number}"), record, order, "rewrite_data_files").change.record
    with pytest.raises(errors.ServiceBusy):
        requests.request(at(0, "more"), record, UpkeepOrder(), "rewrite_data_files")


def test_a_request_whose_round_failed_ends_with_its_error() -> None:
    record, request_id = ask(resting(), UpkeepOrder())
    began = rounds.begin(at(1), record, work_of(record), "t").record
    record = rounds.fail(at(2), began, ERROR).record
    end = requests.request_state(record, request_id)
    assert isinstance(end, EndedUpkeep)
    assert (end.outcome, end.error) == (UpkeepOutcome.FAILED, ERROR)


@pytest.mark.parametrize("error_class", ["TiererStopped", "TiererLost", "Fenced"])
def test_a_request_outlives_its_tierer_but_not_for_ever(error_class: str) -> None:
    record, request_id = ask(resting(), UpkeepOrder())
    for number in range(1, 20):
        began = rounds.begin(at(number), record, work_of(record), "t").record
        record = rounds.fail(at(number), began, replace(ERROR, error_class=error_class)).record
        assert isinstance(requests.request_state(record, request_id), UpkeepRequest)
    began = rounds.begin(at(20), record, work_of(record), "t").record
    record = rounds.fail(at(20), began, replace(ERROR, error_class=error_class)).record
    assert isinstance(requests.request_state(record, request_id), EndedUpkeep)


def test_a_request_whose_round_gave_way_goes_on_later() -> None:
    record, request_id = ask(resting(), UpkeepOrder())
    began = rounds.begin(at(1), record, work_of(record), "t").record
    record = rounds.give_way(at(2), Change(began), "its table is due").record
    state = requests.request_state(record, request_id)
    assert isinstance(state, UpkeepRequest)
    assert state.rounds == 1


def test_a_request_whose_rounds_always_give_way_ends_with_the_reason() -> None:
    record, request_id = ask(resting(), UpkeepOrder())
    now = 0
    for _ in range(MAX_GIVEN_WAY):
        assert isinstance(requests.request_state(record, request_id), UpkeepRequest)
        now += schedule.LONGEST_GIVEN_WAY_MS // 1_000
        began = rounds.begin(at(now), record, work_of(record), "t").record
        record = rounds.give_way(at(now + 1), Change(began), "its table is due").record
    end = requests.request_state(record, request_id)
    assert isinstance(end, EndedUpkeep)
    assert (end.outcome, end.rounds) == (UpkeepOutcome.CANCELLED, MAX_GIVEN_WAY)
    assert end.error is not None
    assert "its table is due" in end.error.message


def test_a_request_that_gets_on_between_rounds_that_give_way_goes_on() -> None:
    record, request_id = ask(resting(), UpkeepOrder())
    for number in range(3 * MAX_GIVEN_WAY):
        if number % 2:
            began = rounds.begin(at(2 * number), record, work_of(record), "t").record
            record = rounds.give_way(at(2 * number + 1), Change(began), "its table is due").record
        else:
            record = ended(record, 2 * number, UpkeepStats(files_before=2, files_after=1, bytes_left=1))
        assert isinstance(requests.request_state(record, request_id), UpkeepRequest)


def test_a_pause_of_upkeep_ends_requests_that_wait_and_refuses_others() -> None:
    record, request_id = ask(resting(), UpkeepOrder())
    paused = requests.pause_upkeep(at(1), record, "a migration").record
    end = requests.request_state(paused, request_id)
    assert isinstance(end, EndedUpkeep)
    assert (end.outcome, end.error is not None and end.error.message) == (
        UpkeepOutcome.CANCELLED,
        "upkeep of sales.t1 was paused by alice: a migration",
    )
    with pytest.raises(errors.TablePaused, match=r"upkeep of sales\.t1 was paused by alice: a migration"):
        ask(paused, UpkeepOrder())
    resumed = requests.resume_upkeep(at(2), paused).record
    assert ask(resumed, UpkeepOrder())[0].upkeep.requests != ()
    assert requests.resume_upkeep(at(2), resumed).record == resumed


def test_a_paused_table_and_one_that_failed_for_good_refuse_requests() -> None:
    with pytest.raises(errors.TablePaused):
        ask(resting(pause=Pause("bob", None, START)), UpkeepOrder())
    with pytest.raises(errors.InvalidArgument, match="failed permanently"):
        ask(resting(state=TableState.FAILED, error=ERROR), UpkeepOrder())


def test_the_end_of_a_request_survives_a_restart() -> None:
    record, request_id = ask(resting(), UpkeepOrder())
    record = ended(record, 1, UpkeepStats(files_before=1, bytes_left=0))
    assert isinstance(requests.request_state(restore(at(9), record).record, request_id), EndedUpkeep)


def test_a_dropped_table_forgets_its_upkeep() -> None:
    began = rounds.begin(at(1), resting(), WORK, "t").record
    dropped = drop(at(2), began)
    assert dropped is not None
    assert dropped.record.upkeep == UpkeepRecord()
    assert dropped.rounds["r9"].state is RoundState.CANCELLED


def test_deadlines_of_a_clock_that_was_ahead_are_cut_at_a_start() -> None:
    far = START + timedelta(days=900)
    upkeep = restore(at(0), with_upkeep(next_deadline=far, rest_deadline=far)).record.upkeep
    limit = START + timedelta(milliseconds=schedule.LONGEST_REST_MS)
    assert (upkeep.next_deadline, upkeep.rest_deadline) == (limit, limit)


def test_a_restart_cuts_a_future_time_that_an_upkeep_round_gives_back() -> None:
    ahead = START + timedelta(days=900)
    running = rounds.begin(at(1), resting(checked_since=ahead), WORK, "t").record
    after = rounds.finish(at(3), restore(at(2), running).record, None).record
    assert after.checked_since == at(2).now.steady


@given(failures=st.integers(0, 10_000), idle=st.integers(0, 10_000), outcome=st.sampled_from(UpkeepOutcome), gave_way=st.booleans())
def test_the_next_round_is_never_further_away_than_the_longest_rest(
    failures: int, idle: int, outcome: UpkeepOutcome, gave_way: bool
) -> None:
    began = rounds.begin(at(0), with_upkeep(failures=failures, idle_rounds=idle), WORK, "t").record
    assert began.round is not None
    upkeep = schedule.next_time(at(0), began.upkeep, replace(began.round, error=ERROR), outcome, gave_way=gave_way)
    limit = START + timedelta(milliseconds=schedule.LONGEST_REST_MS)
    assert all(deadline is None or START <= deadline <= limit for deadline in (upkeep.next_deadline, upkeep.rest_deadline))
    assert upkeep.budget_bytes is None or LEAST_BUDGET_BYTES <= upkeep.budget_bytes <= UPKEEP_ROUND_BYTES


def test_rounds_that_give_way_get_smaller_and_those_that_go_well_larger() -> None:
    record, budgets = resting(), []
    for _ in range(9):
        began = rounds.begin(at(0), record, WORK, "t").record
        assert began.round is not None
        assert began.round.upkeep is not None
        budgets.append(began.round.upkeep.budget_bytes)
        record = rounds.give_way(at(1), Change(began), "its table is due").record
    assert budgets == [max(LEAST_BUDGET_BYTES, UPKEEP_ROUND_BYTES >> number) for number in range(9)]
    for _ in range(8):
        record = ended(record, 1, UpkeepStats(files_before=1, bytes_left=0))
    assert record.upkeep.budget_bytes is None


def test_rounds_that_give_way_again_and_again_rest_longer_until_one_commits() -> None:
    record, rests = resting(), []
    for _ in range(12):
        began = rounds.begin(at(0), record, WORK, "t").record
        record = rounds.give_way(at(1), Change(began), "its table is due").record
        assert record.upkeep.rest_deadline is not None
        rests.append((record.upkeep.rest_deadline - at(1).now.steady).total_seconds())
    assert rests == [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600, 3_600]
    assert waits_for(record, 1) == "12 upkeep rounds in a row gave way to tiering before their commit: the next one begins in 1 h"
    record = ended(record, 1, UpkeepStats(files_before=1, bytes_left=0))
    assert (record.upkeep.given_way, record.upkeep.rest_deadline) == (0, None)


NEVER_TOUCHED = (
    *(
        "state",
        "due_deadline",
        "last_tiered_time",
        "last_checked_time",
        "last_round_duration_ms",
        "round",
        "commit",
        "error",
        "error_count",
    ),
    *("consecutive_failures", "consecutive_fences", "retry_deadline", "errors", "backoff_ms", "paused_ms", "waited_for_slot_ms"),
    *("queued_late_ms", "due_time", "recent_rounds_ms", "recent_waits_ms", "checked_since", "checked_wall", "heartbeat_deadline"),
    *("pending_since", "call", "pause"),
)
"""Fields of the record that are about tiering."""


@pytest.mark.parametrize("end", ["finished", "empty", "failed", "fenced", "cancelled", "gave way"])
def test_however_an_upkeep_round_ends_what_is_on_record_of_the_tiering_stays(end: str) -> None:
    before = resting(
        last_tiered_time=START,
        last_checked_time=START,
        last_round_duration_ms=7,
        checked_since=START,
        checked_wall=START,
        recent_waits_ms=(3,),
        backoff_ms=1,
        paused_ms=2,
        error_count=4,
    )
    began = rounds.begin(at(10), before, WORK, "t").record
    assert began.state is TableState.TIERING
    match end:
        case "finished":
            after = ended(before, 10, UpkeepStats(files_before=3))
        case "empty":
            after = rounds.finish(at(20), began, None).record
        case "failed":
            after = rounds.fail(at(20), began, ERROR).record
        case "fenced":
            after = rounds.fail(at(20), began, ERROR, RoundState.FENCED).record
        case "cancelled":
            assert began.round is not None
            after = rounds.end_cancelled(at(20), replace(began, round=replace(began.round, cancelled_by="bob"))).record
        case _:
            after = rounds.give_way(at(20), Change(began), "its table is due").record
    assert {name: getattr(after, name) for name in NEVER_TOUCHED} == {name: getattr(before, name) for name in NEVER_TOUCHED}
    assert (after.tiering_epoch, after.upkeep.before) == (before.tiering_epoch + 1, None)


def test_a_due_table_ends_its_upkeep_round_and_is_queued_in_one_change() -> None:
    began = rounds.begin(at(10, "up"), resting(), WORK, "t").record
    assert due(at(3_000), began) is None
    change = due(at(3_600, "next"), began)
    assert change is not None
    assert {row.round_id: row.state for row in change.rounds.values()} == {"up": RoundState.CANCELLED, "next": RoundState.QUEUED}
    assert change.record.tiering_epoch == began.tiering_epoch + 1


def test_upkeep_inside_a_tiering_round_counts_as_upkeep_of_the_table() -> None:
    record = replace(resting(), round=rounds.begin(at(1, "r"), resting(), WORK, "t").record.round)
    assert rounds.note_inside_round(at(2), record, stats(files_before=2)).last_time == at(2).now.wall
    assert rounds.note_inside_round(at(2), record, stats()).last_time is None
    assert rounds.note_inside_round(at(2), record, None).last_time is None


def test_sums_keep_what_is_known_of_manifests() -> None:
    total = total_stats(UpkeepStats(manifests_before=5), UpkeepStats(manifests_after=3, snapshots_expired=2))
    assert (total.manifests_before, total.manifests_after, total.snapshots_expired, total.bytes_left) == (5, 3, 2, None)


def test_a_time_in_sql_is_that_of_the_latest_obstacle() -> None:
    early, late = START + timedelta(seconds=5), START + timedelta(seconds=9)
    assert schedule.earliest_time(at(0).now, with_upkeep(next_deadline=late, rest_deadline=early)) == late
    request = UpkeepRequest("q", UpkeepOrder(), "rewrite_data_files", "alice", START)
    assert schedule.earliest_time(at(0).now, with_upkeep(next_deadline=late, rest_deadline=early, requests=(request,))) == early
    assert schedule.earliest_time(at(0).now, resting()) == now_of(0)


def now_of(seconds: float) -> datetime:
    return at(seconds).now.wall
