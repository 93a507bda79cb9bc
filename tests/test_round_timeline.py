"""The time line of rounds: where bars, parts and marks are, how much of a bar is which wait, and what it says in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.background import tick
from support.depth import examples
from support.operators import pause, resume
from support.worlds.coordinator_world import World
from sys_tables.tables.tiering_rounds import TieringRoundRow, row_of
from tiering.round_history import PART_COLOURS, PART_NAMES, TIMELINE_COLUMNS, WAIT_PARTS
from tiering.round_timeline import LEAST_WIDTH, MARK_DISTANCE, Timeline, timeline

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
NOW = START + timedelta(hours=3)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def ended(queued: float, started: float, finished: float, state: str = "SUCCEEDED", **changes: Any) -> dict[str, Any]:
    """Returns a round that waited in the queue for a slot only."""
    times = {"pending_time": at(queued), "started_time": at(started), "finished_time": at(finished)}
    waits = {"waited_for_slot_ms": round(1_000 * (started - queued)), "duration_ms": round(1_000 * (finished - started))}
    row = dict.fromkeys(TIMELINE_COLUMNS) | {"round_id": f"r{queued}", "trigger": "schedule", "state": state}
    return row | times | waits | changes


def drawn(*rounds: dict[str, Any], now: datetime = NOW) -> Timeline:
    """Returns the picture of rounds, which come with the oldest first."""
    picture = timeline(rounds[::-1], now)
    assert picture is not None
    return picture


def seconds(moment: datetime) -> float:
    return (moment - START).total_seconds()


def test_the_columns_are_those_of_the_system_table_and_each_part_is_one_of_them() -> None:
    columns = TieringRoundRow.__dataclass_fields__
    assert set(TIMELINE_COLUMNS) <= set(columns)
    assert {f"{name}_ms" for name in PART_COLOURS if name != "other"} <= set(columns)
    assert list(PART_NAMES) == list(PART_COLOURS)


def test_bars_and_gaps_are_where_they_were_in_time() -> None:
    picture = drawn(ended(0, 10, 20), ended(60, 60, 100))
    assert [(bar.x, bar.width) for bar in picture.bars] == [(0, pytest.approx(0.2)), (pytest.approx(0.6), pytest.approx(0.4))]
    assert (seconds(picture.since), seconds(picture.until)) == (0, 100)
    assert [(mark.text, mark.x) for mark in picture.marks] == [
        ("12:00:30", pytest.approx(0.3)),
        ("12:01:00", pytest.approx(0.6)),
        ("12:01:30", pytest.approx(0.9)),
    ]
    assert picture.label == "The last 2 rounds, the newest on the right; the longest took 40 s with its waiting time"
    assert picture.explanation == ""
    assert timeline([], NOW) is None


def test_a_wide_bar_has_its_parts_side_by_side_and_in_words() -> None:
    [bar] = drawn(ended(0, 10, 20, plan_ms=1_000, read_ms=0, write_ms=7, commit_ms=2_000)).bars
    assert [(box.name, box.x, box.width, box.y, box.height) for box in bar.boxes] == [
        ("waited_for_slot", 0, 0.5, 0, 1),
        ("plan", 0.5, 0.05, 0, 1),
        ("write", 0.55, pytest.approx(0.35), 0, 1),
        ("commit", 0.9, 0.1, 0, 1),
    ]
    assert bar.label == "2026-11-30 12:00:00 to 12:00:20 UTC, SUCCEEDED: waiting for a slot 10 s, plan 1 s, write 7 s, commit 2 s"


def test_a_short_round_keeps_a_width_that_can_be_seen_and_stacks_its_parts() -> None:
    picture = drawn(ended(0, 1, 2), ended(5_000, 5_001, 5_004), ended(9_998, 9_998, 10_000, "FAILED"))
    assert [bar.width for bar in picture.bars] == [LEAST_WIDTH] * 3
    assert picture.bars[1].x == pytest.approx(0.5, abs=0.01)
    waiting, other = picture.bars[1].boxes
    assert (waiting.name, waiting.y, waiting.height, waiting.width) == ("waited_for_slot", 0.75, 0.25, LEAST_WIDTH)
    assert (other.name, other.y, other.height, other.x) == ("other", 0, 0.75, picture.bars[1].x)
    assert "the first at the bottom" in picture.explanation
    assert ([bar.is_failed for bar in picture.bars], picture.has_failed) == ([False, False, True], True)
    assert picture.label.endswith("took 4 s with its waiting time; 1 failed")


def test_a_round_that_was_queued_late_waits_since_it_was_due() -> None:
    [bar] = drawn(ended(100, 110, 120, queued_late_ms=30_000)).bars
    assert seconds(bar.since) == 70
    assert bar.parts == {"queued_late": 30_000, "waited_for_slot": 10_000, "other": 10_000}


def test_a_retry_waits_since_the_failed_round_ended_and_only_its_own_waits_count() -> None:
    failed = ended(0, 5, 10, "FAILED", backoff_ms=0)
    retried = ended(30, 33, 40, earlier_rounds_ms=5_000, backoff_ms=20_000, waited_for_slot_ms=8_000)
    bars = drawn(failed, retried).bars
    assert [seconds(bar.since) for bar in bars] == [0, 10]
    assert bars[1].parts == {"backoff": 20_000, "waited_for_slot": 3_000, "other": 7_000}
    [alone] = drawn(retried).bars
    assert (seconds(alone.since), alone.parts) == (30, {"waited_for_slot": 3_000, "other": 7_000})


def test_the_waits_of_earlier_retries_do_not_count_again_nor_after_an_upkeep_round() -> None:
    failed = [ended(0, 5, 10, "FAILED", backoff_ms=0), ended(30, 30, 40, "FAILED", earlier_rounds_ms=5_000, backoff_ms=20_000)]
    upkeep = ended(41, 41, 45, trigger="upkeep", waited_for_slot_ms=None)
    retried = ended(55, 58, 70, earlier_rounds_ms=15_000, backoff_ms=22_000, paused_ms=8_000, waited_for_slot_ms=8_000)
    assert drawn(*failed, upkeep, retried).bars[-1].parts == {"backoff": 2_000, "paused": 8_000, "waited_for_slot": 3_000, "other": 12_000}


def test_a_wait_does_not_begin_before_the_previous_round_has_ended() -> None:
    bars = drawn(ended(0, 0, 100), ended(110, 110, 120, queued_late_ms=60_000)).bars
    assert (seconds(bars[1].since), bars[1].parts) == (100, {"queued_late": 10_000, "other": 10_000})


def test_a_pause_is_not_a_wait_for_a_slot() -> None:
    [in_queue] = drawn(ended(0, 100, 110, waited_for_slot_ms=40_000, paused_ms=60_000)).bars
    assert in_queue.parts == {"paused": 60_000, "waited_for_slot": 40_000, "other": 10_000}
    [before] = drawn(ended(100, 105, 110, paused_ms=60_000)).bars
    assert (seconds(before.since), before.parts) == (40, {"paused": 60_000, "waited_for_slot": 5_000, "other": 5_000})


def test_open_rounds_reach_until_now() -> None:
    running = ended(0, 10, 0, "RUNNING", finished_time=None, duration_ms=None)
    [bar] = drawn(running, now=at(25)).bars
    assert (bar.parts, seconds(bar.until)) == ({"waited_for_slot": 10_000, "other": 15_000}, 25)
    assert "until now UTC, RUNNING" in bar.label
    queued = running | {"state": "QUEUED", "started_time": None, "waited_for_slot_ms": None, "queued_late_ms": 5_000}
    [bar] = drawn(queued, now=at(25)).bars
    assert (seconds(bar.since), bar.parts) == (-5, {"queued_late": 5_000, "waited_for_slot": 25_000})


def test_marks_have_a_date_where_the_axis_has_several_days() -> None:
    picture = drawn(ended(0, 0, 10), ended(3 * 86_400, 3 * 86_400, 3 * 86_400 + 10))
    assert [mark.text for mark in picture.marks] == ["12-01 00:00", "12-02 00:00", "12-03 00:00"]


@pytest.fixture
def world() -> World:
    return World()


def bars_of(world: World) -> list[tuple[str, dict[str, int]]]:
    rows = sorted(world.store.rounds(), key=lambda row: row.pending_time, reverse=True)
    picture = timeline([vars(row_of(row)) for row in rows], world.clock.now())
    assert picture is not None
    assert all(later.since >= bar.until for bar, later in pairwise(picture.bars))
    return [(bar.row["state"], {name: bar.parts[name] for name in WAIT_PARTS if name in bar.parts}) for bar in picture.bars]


def test_the_rounds_of_a_coordinator_have_their_whole_wait(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    record = world.record()
    assert record.retry_deadline is not None
    backoff_ms = round((record.retry_deadline - record.status_time).total_seconds() * 1_000)
    world.later(backoff_ms / 1_000)
    pause(world.coordinator, world.table.path, "ann")
    world.later(60)
    resume(world.coordinator, world.table.path, "ann")
    tick(world.coordinator)
    world.later(7)
    tierer.run(tierer.get())
    waits = {"backoff": backoff_ms, "paused": 60_000, "waited_for_slot": 7_000}
    assert bars_of(world) == [("FAILED", {}), ("SUCCEEDED", waits)]


LENGTHS = st.lists(st.tuples(*[st.integers(0, 10_000_000)] * 3, st.integers(0, 1_000_000)), min_size=1, max_size=50)


@given(LENGTHS)
@settings(max_examples=examples(200))
def test_bars_fill_the_axis_in_order_and_are_wide_enough(lengths: list[tuple[int, int, int, int]]) -> None:
    """Each round: the gap before it, its wait, its duration, and the part of it that was spent on the plan, in milliseconds."""
    moment, rounds = 0, []
    for gap, wait, duration, plan in lengths:
        queued = moment + gap
        moment = queued + wait + duration
        rounds.append(ended(queued / 1_000, (queued + wait) / 1_000, moment / 1_000, plan_ms=plan))
    picture = drawn(*rounds)
    least = min(LEAST_WIDTH, 0.6 / len(rounds))
    total_ms, end = (picture.until - picture.since).total_seconds() * 1_000, 0.0
    for bar in picture.bars:
        assert bar.x >= end - 1e-9
        assert bar.width >= least - 1e-9
        end = bar.x + bar.width
        share = (bar.until - bar.since).total_seconds() * 1_000 / max(1, total_ms)
        assert bar.is_stacked or bar.width <= share + 1e-9
        for box in bar.boxes:
            assert bar.x - 1e-9 <= box.x <= box.x + box.width <= end + 1e-9
            assert -1e-9 <= box.y <= box.y + box.height <= 1 + 1e-9
    assert end == pytest.approx(1)
    places = [mark.x for mark in picture.marks]
    assert all(later - mark >= MARK_DISTANCE for mark, later in pairwise(places))
