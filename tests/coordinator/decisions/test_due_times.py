"""When a table becomes due: early enough for its promise, or because enough waits. On a clock that the test drives."""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from support.background import tick
from support.clusters.assigner import Assigner
from support.clusters.memory_cluster import log_table
from support.operators import cancel, pause
from support.worlds.coordinator_world import FRESHNESS, START, HandTierer, World
from tiering.coordinator.decisions import waits
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import LakeState, RoundRecord
from tiering.coordinator.options import CoordinatorOptions
from tiering.model.rounds import RoundState
from tiering.model.tables import TablePath

TICK_SECONDS = 0.2
SECONDS = 300
DIFFERENT = {"dashboard": 2, "orders": 10, "clicks": 40, "archive": 90}
ALIKE = {f"shop{number}": 30 for number in range(5)}
"""Freshness by table, in seconds."""


class Busy:
    """A deployment in which rows come all the time; its rounds take up to `longest` of their table's freshness."""

    def __init__(self, freshnesses: Mapping[str, int], slots: int, longest: float) -> None:
        self.freshnesses, self.slots, self.longest = freshnesses, slots, longest
        tables = (
            replace(log_table(number, TablePath("sales", name)), freshness_ms=seconds * 1_000)
            for number, (name, seconds) in enumerate(freshnesses.items(), 1)
        )
        self.world = World(tuple(tables))
        self.random = random.Random(7)
        self.tierer = self.world.tierer()
        self.tierer.slots = slots
        self.ends: list[tuple[float, str]] = []

    def live(self) -> None:
        """Rounds begin and end."""
        seconds = 0.0
        while seconds < SECONDS:
            seconds += TICK_SECONDS
            self.world.clock.advance(TICK_SECONDS)
            self.world.append(1, table=self.random.choice(self.world.tables))
            self.world.coordinator.advance()
            while self.ends and self.ends[0][0] <= seconds:
                self.tierer.run(self.tierer.running[heapq.heappop(self.ends)[1]])
            if len(self.ends) < self.slots and self.world.coordinator.table_records.work_waits():
                info = self.tierer.get()
                takes = self.freshnesses[info.path.table_name] * self.random.uniform(self.longest / 3, self.longest)
                heapq.heappush(self.ends, (seconds + takes, info.round_id))


def misses(world: World) -> list[RoundRecord]:
    return [row for row in world.store.rounds(limit=100_000) if row.missed_by_ms]


def succeeded(busy: Busy) -> dict[str, int]:
    rows = [row.table_name for row in busy.world.store.rounds(limit=100_000) if row.state is RoundState.SUCCEEDED]
    return {name: rows.count(name) for name in busy.freshnesses}


@pytest.mark.parametrize(("freshnesses", "slots", "longest"), [(DIFFERENT, 4, 0.33), (ALIKE, 1, 0.1)])
def test_healthy_tables_miss_no_promise(freshnesses: Mapping[str, int], slots: int, longest: float) -> None:
    busy = Busy(freshnesses, slots, longest)
    busy.live()
    assert misses(busy.world) == []
    for name, rounds in succeeded(busy).items():
        promised = SECONDS / freshnesses[name]
        assert promised - 1 <= rounds <= 3 * promised, "it keeps its promise, and does not begin rounds all the time"


def test_rounds_that_begin_at_the_deadline_miss_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above could not fail."""
    monkeypatch.setattr(waits, "lead_ms", lambda record: 0)
    busy = Busy(DIFFERENT, slots=4, longest=0.33)
    busy.live()
    assert {row.table_name for row in misses(busy.world)} == set(DIFFERENT)


def test_a_round_is_expected_to_take_what_the_slowest_of_the_latest_took(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.run(assignment)  # of a backlog: it says nothing of those that follow
    assert (world.record().recent_rounds_ms, waits.lead_ms(world.record())) == ((), waits.FIRST_ROUND_MS)
    for seconds in (8, 1, 1, 1, 1):
        one_round(world, tierer, seconds)
    assert waits.lead_ms(world.record()) == 2 * 8_000 * waits.MARGIN + waits.REACTION_MS, "another round may be in the way"
    one_round(world, tierer, 1)
    assert waits.lead_ms(world.record()) == 2 * 1_000 * waits.MARGIN + waits.REACTION_MS
    one_round(world, tierer, 170)
    longest = FRESHNESS * 1_000 * (waits.ROUND_SHARE + waits.WAIT_SHARE)
    assert waits.lead_ms(world.record()) == longest
    world.restart()
    assert waits.lead_ms(world.record()) == longest


def one_round(world: World, tierer: HandTierer, seconds: float) -> None:
    world.append()
    world.later(FRESHNESS)
    assignment = tierer.get()
    world.clock.advance(seconds / 2)
    tierer.beat()
    world.clock.advance(seconds / 2)
    tierer.run(assignment)


def test_waits_for_a_slot_count_too_up_to_a_share(world: World) -> None:
    record = replace(world.record(), recent_rounds_ms=(2_000,), recent_waits_ms=(4_000, 1_000))
    assert waits.lead_ms(record) == 2_000 * waits.MARGIN + waits.REACTION_MS + 4_000 * waits.MARGIN
    assert waits.lead_ms(replace(record, recent_waits_ms=(9_000_000,))) == 3_000 + FRESHNESS * 1_000 * waits.WAIT_SHARE


def test_what_is_shown_is_the_promise_and_when_the_next_round_begins(world: World) -> None:
    [status] = world.coordinator.view().table_statuses()
    assert status.freshness_deadline == START + timedelta(seconds=FRESHNESS)
    assert status.status_reason == "next check in 2 min 0 s"


def sized(**options: int) -> World:
    """A table whose rounds are to have 400 bytes; a row has 8."""
    return World((replace(log_table(), round_bytes=400),), options=CoordinatorOptions(**options))


def observed(world: World) -> str:
    """The table's state after a look at the log."""
    world.coordinator.observer.observe_all()
    return world.state()


def live(world: World) -> HandTierer:
    tierer, assignment = world.assigned()
    tierer.finish(assignment, empty=True)
    world.later(1)
    return tierer


def test_so_much_waiting_begins_a_round() -> None:
    world = sized()
    tierer = live(world)
    world.append(49)
    world.cluster.oldest_timestamps = lambda table, offsets: dict.fromkeys(offsets, world.clock.now())  # type: ignore[method-assign]
    assert observed(world) == "Scheduled"
    world.append(1, bucket=1)
    assert observed(world) == "Pending"
    moved = world.store.events(1)[0]
    assert (moved.event_type, moved.message) == ("TABLE_PENDING", "400 bytes wait, and a round is to have 400")
    tierer.run(tierer.get())
    assert observed(world) == "Scheduled"


def test_rows_of_unknown_size_are_taken_for_as_large_as_those_in_the_lake() -> None:
    world = sized()
    live(world)
    world.append(50)
    world.cluster.bytes_per_record = None
    world.cluster.oldest_timestamps = lambda table, offsets: dict.fromkeys(offsets, world.clock.now())  # type: ignore[method-assign]
    assert observed(world) == "Scheduled", "the age of the rows is unknown"
    records = world.coordinator.table_records
    with records.changing():
        records.put(Change(replace(world.record(), lake=LakeState(records=10, size_bytes=100, backlog={}))))
    assert observed(world) == "Pending"


def test_a_round_that_found_nothing_does_not_lead_to_the_next_for_the_same_rows() -> None:
    world = sized()
    tierer = live(world)
    world.append(1_000)
    world.later(FRESHNESS)
    tierer.finish(tierer.get(), empty=True)
    assert observed(world) == "Scheduled"


def test_a_cancelled_round_begins_anew_when_the_freshness_asks_for_it() -> None:
    world = sized()
    tierer = live(world)
    world.append(1_000)
    world.cluster.oldest_timestamps = lambda table, offsets: dict.fromkeys(offsets, world.clock.now())  # type: ignore[method-assign]
    assert observed(world) == "Pending"
    again = tierer.get()
    assert cancel(world.coordinator, again.round_id, "ann")
    tierer.fail(again)
    world.later(5)
    assert observed(world) == "Scheduled", "as much waits as before"
    world.later(FRESHNESS)
    assert observed(world) == "Pending"


def test_a_round_that_was_cancelled_late_does_not_begin_anew_at_once(world: World) -> None:
    """A round of a backlog may take ten times the freshness, and a round with a hanging split ends only when a user cancels it."""
    world.append(1_000)
    tierer, assignment = world.assigned()
    for _ in range(4):
        world.later(FRESHNESS / 2)
        tierer.beat()
    assert cancel(world.coordinator, assignment.round_id, "ann")
    tierer.fail(assignment)
    promised = world.record().round.deadline  # type: ignore[union-attr]
    world.later(FRESHNESS / 2 - 1)
    assert world.record().state == "Scheduled"
    world.later(1)  # the next one is expected to take long, too
    assert world.record().state == "Pending"
    assert world.record().round.deadline == promised, "the promise is as old as it was"  # type: ignore[union-attr]


def test_a_paused_table_is_not_due_by_size() -> None:
    world = sized()
    live(world)
    pause(world.coordinator, world.table.path, "ann")
    world.append(1_000)
    assert observed(world) == "Scheduled"


def test_a_backlog_without_the_option_is_due_when_a_round_would_not_run_inline() -> None:
    world = World(options=CoordinatorOptions(inline_round_bytes=80))
    world.append(9)
    assert observed(world) == "Scheduled"
    world.append(1)
    assert observed(world) == "Pending"


def test_where_the_cluster_assigns_tables_it_decides() -> None:
    world = World((replace(log_table(), round_bytes=8),), assigner=Assigner())
    world.append(1_000)
    assert observed(world) == "Scheduled"


def test_a_changed_size_counts_at_once() -> None:
    world = World()
    live(world)
    world.append(50)
    world.cluster.oldest_timestamps = lambda table, offsets: dict.fromkeys(offsets, world.clock.now())  # type: ignore[method-assign]
    assert observed(world) == "Scheduled"
    world.cluster.by_path[world.table.path] = replace(world.table, round_bytes=400)
    tick(world.coordinator)
    assert observed(world) == "Pending"
