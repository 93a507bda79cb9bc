"""`sys.freshness_misses`: for each cause of a late table the row names that cause, and the parts add up to the whole time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.background import tick
from support.operators import cancel, pause, resume
from support.worlds.coordinator_world import FRESHNESS, START, HandTierer, World
from support.worlds.data_folders import FolderWorld, create
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import SystemTable
from sys_tables.tables import freshness_misses, tiering_rounds
from tiering.cluster.embedded.stored_cluster import ReadOnlyEmbeddedCluster
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.status.offline_view import offline_view
from tiering.errors import ClusterUnavailable
from tiering.model.tables import TableInfo, TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb

WAITS = ("queued_late_ms", "waited_for_slot_ms", "earlier_rounds_ms", "backoff_ms", "paused_ms")
OF_THE_ROUND = ("plan_ms", "lease_ms", "read_ms", "write_ms", "commit_ms", "ack_ms")
LATE = 100
"""Seconds that the cause takes; all else takes 10 at most."""

Info = pb.PbLakeTieringTableInfo


def shown(table: SystemTable, world: World) -> list[Any]:
    """The table's rows."""
    return list(table.rows(world.coordinator.view(), ScanRequest()))


def finish(world: World, tierer: HandTierer, info: Info, **seconds: float) -> None:
    """Ends the round well, after parts that take these times."""
    spent = {"plan": 2.0, "read": 3.0, "write": 1.0, "commit": 1.0, "ack": 0.0} | seconds
    for part in ("plan", "lease", "read", "write"):
        world.later(spent.get(part, 0))
    tierer.commit(info)
    world.later(spent["commit"] + spent["ack"])
    tierer.ack(info)
    times = pb.PbPhaseTimes(**{f"{part}_ms": int(value * 1_000) for part, value in spent.items()})
    stats = pb.PbRoundStats(records_written=10, times=times)
    tierer.running.pop(info.round_id, None)
    tierer.beat(finished=(tierer.about(info, stats=stats),))


def no_tierer(world: World) -> None:
    world.due()
    world.later(LATE)
    tierer = world.tierer()
    finish(world, tierer, tierer.get())


def no_tierer_since_one_stopped(world: World) -> None:
    world.due()
    tierer = world.tierer()
    world.later(20)
    tierer.beat(stopping=True)
    world.later(LATE)
    tierer = world.process("the next one")
    finish(world, tierer, tierer.get())


def no_slot(world: World) -> None:
    world.due()
    tierer = world.tierer()
    tierer.beat()  # it does not ask for a table
    world.later(LATE)
    finish(world, tierer, tierer.get())


def no_slot_again_and_again(world: World) -> None:
    world.due()
    tierer = world.tierer()
    tierer.beat()
    for failures_in_a_row in (1, 2):
        world.later(LATE / 2)
        tierer.fail(tierer.get())
        world.later(failures_in_a_row)
    finish(world, tierer, tierer.get())


def failures(world: World) -> None:
    tierer, info = world.assigned()
    for _ in range(7):
        tierer.fail(info)
        world.later(((world.record().retry_deadline or world.clock.now()) - world.record().status_time).total_seconds())
        info = tierer.get()
    finish(world, tierer, info)


def failed_until_an_operator_came(world: World) -> None:
    tierer, info = world.assigned()
    tierer.fail(info, error_retryable=False)
    world.later(LATE)
    world.call(wait=False)
    finish(world, tierer, tierer.get())


def paused(world: World) -> None:
    world.later(FRESHNESS / 2)
    pause(world.coordinator, world.table.path, "ann")
    world.later(FRESHNESS / 2 + LATE)
    resume(world.coordinator, world.table.path, "ann")
    tick(world.coordinator)
    tierer = world.tierer()
    finish(world, tierer, tierer.get())


def paused_while_a_round_ran(world: World) -> None:
    tierer, info = world.assigned()
    pause(world.coordinator, world.table.path, "ann")
    world.later(5)
    tierer.fail(info)
    world.later(LATE)
    resume(world.coordinator, world.table.path, "ann")
    tick(world.coordinator)
    finish(world, tierer, tierer.get())


def rounds_that_failed_slowly(world: World) -> None:
    tierer, info = world.assigned()
    world.later(LATE)
    tierer.fail(info)
    world.later(1)
    finish(world, tierer, tierer.get())


def a_tierer_that_died(world: World) -> None:
    world.assigned()
    world.later(LATE)
    world.later(20)
    assert world.state() == "Failed", "its service timeout is over"
    world.later(1)
    tierer = world.tierer("tierer-2")
    finish(world, tierer, tierer.get())


def a_round_that_stopped_early(world: World) -> None:
    world.append(bucket=1)
    tierer, info = world.assigned()
    world.later(LATE)
    tierer.commit(info, buckets=(0,))
    tierer.ack(info)
    tierer.finish(info, forced=True)
    world.coordinator.observer.observe_all()  # the ack has it done in the background: now, or after the next assignment
    finish(world, tierer, tierer.get())


def a_round_that_was_cancelled(world: World) -> None:
    tierer, info = world.assigned()
    world.later(LATE)
    assert cancel(world.coordinator, info.round_id, "ann")
    tierer.fail(info)
    world.later(FRESHNESS)
    finish(world, tierer, tierer.get())


def no_coordinator(world: World) -> None:
    world.coordinator.close()
    world.clock.advance(FRESHNESS + LATE)
    world.coordinator = world.another()
    tick(world.coordinator)
    tierer = world.tierer()
    finish(world, tierer, tierer.get())


def a_pause_over_which_a_round_ran(world: World) -> None:
    tierer, info = world.assigned()
    pause(world.coordinator, world.table.path, "ann")
    world.later(LATE)
    resume(world.coordinator, world.table.path, "ann")
    finish(world, tierer, info)


def long_part(part: str) -> Callable[[World], None]:
    def cause(world: World) -> None:
        tierer, info = world.assigned()
        finish(world, tierer, info, **{part: LATE})

    return cause


def an_answer_that_was_lost(world: World) -> None:
    world.due()
    tierer = world.tierer()
    tierer.lose_answer()
    world.later(LATE)
    finish(world, tierer, tierer.get())


CAUSES: tuple[tuple[Callable[[World], None], str, str], ...] = (
    (no_tierer, "waited_for_slot", "no tierer that gets tables was connected for 1.7 min: start one"),
    (no_tierer_since_one_stopped, "waited_for_slot", "no tierer that gets tables was connected for 1.7 min"),
    (no_slot, "waited_for_slot", "no tierer was free for 1.7 min"),
    (no_slot_again_and_again, "waited_for_slot", "no tierer was free for 1.7 min"),
    (failures, "backoff", "rounds failed, and the table waited"),
    (failed_until_an_operator_came, "backoff", "rounds failed, and the table waited 1.7 min"),
    (paused, "paused", "it was paused for 1.7 min"),
    (paused_while_a_round_ran, "paused", "it was paused for 1.6 min"),
    (rounds_that_failed_slowly, "earlier_rounds", "rounds before it took 1.7 min"),
    (a_tierer_that_died, "earlier_rounds", "rounds before it took 2 min"),
    (a_round_that_stopped_early, "earlier_rounds", "rounds before it took 1.7 min"),
    (a_round_that_was_cancelled, "earlier_rounds", "rounds before it took 4.7 min"),
    (no_coordinator, "queued_late", "no round was queued for 1.7 min"),
    (a_pause_over_which_a_round_ran, "unmeasured", "of the round are in none of its parts"),
    (an_answer_that_was_lost, "unmeasured", "1.7 min of the round are in none of its parts"),
    *(
        (long_part(part), part, f"{words} took 1.7 min")
        for part, words in (("plan", "reading the state of table, lake and log"), ("read", "reading"))
    ),
    *((long_part(part), part, f"{words} took 1.7 min") for part, words in (("lease", "KV snapshots"), ("write", "writing"))),
    *((long_part(part), part, f"{words} took 1.7 min") for part, words in (("commit", "the commit to the lake"), ("ack", "the commit"))),
)


@pytest.mark.parametrize(("cause", "part", "words"), CAUSES, ids=[f"{cause.__name__}-{part}" for cause, part, _ in CAUSES])
def test_a_miss_names_its_cause_and_its_parts_add_up(cause: Callable[[World], None], part: str, words: str) -> None:
    world = World(options=CoordinatorOptions(service_timeout_ms=(LATE + 20) * 1_000))
    world.append()
    cause(world)
    [miss] = shown(freshness_misses.rows, world)
    assert (miss.largest_part, words in miss.explanation) == (part, True), miss.explanation
    assert miss.largest_part_ms is not None
    row = next(row for row in shown(tiering_rounds.rows, world) if row.round_id == miss.round_id)
    parts = sum(getattr(row, name) or 0 for name in (*WAITS, *OF_THE_ROUND))
    unmeasured = miss.largest_part_ms if part == "unmeasured" else 0
    assert parts + unmeasured == miss.missed_by_ms


def test_a_table_up_to_date_forgets_its_waits() -> None:
    world = World()
    world.append()
    failures(world)
    world.append()
    world.later(FRESHNESS - 7)  # counted from when the last round began
    tierer = world.tierer("tierer-2")
    finish(world, tierer, tierer.get())
    newest = shown(tiering_rounds.rows, world)[0]
    assert [getattr(newest, name) for name in WAITS] == [0, 0, 0, 0, 0]


def test_time_in_which_no_row_waited_is_no_miss() -> None:
    world = World()
    world.coordinator.observer.observe_all()
    world.due()
    world.later(1_000)
    world.coordinator.observer.observe_all()  # nothing waits as yet
    world.append()
    world.later(FRESHNESS - 30)
    tierer = world.tierer()
    finish(world, tierer, tierer.get())
    [row] = shown(tiering_rounds.rows, world)
    assert (row.missed_by_ms, [getattr(row, name) for name in WAITS], row.no_tierer_ms) == (0, [0] * 5, 0)
    assert row.deadline == START + timedelta(seconds=1_000 + 2 * FRESHNESS)
    assert shown(freshness_misses.rows, world) == []


def test_a_miss_counts_from_when_the_oldest_row_had_waited_for_the_freshness() -> None:
    world = World()
    world.due()
    world.later(1_000)
    world.coordinator.observer.observe_all()
    world.append()
    world.later(FRESHNESS + LATE)
    tierer = world.tierer()
    finish(world, tierer, tierer.get())
    [miss] = shown(freshness_misses.rows, world)
    [row] = shown(tiering_rounds.rows, world)
    assert (miss.largest_part, miss.largest_part_ms, row.no_tierer_ms) == ("waited_for_slot", LATE * 1_000, LATE * 1_000)
    assert sum(getattr(row, name) or 0 for name in (*WAITS, *OF_THE_ROUND)) == miss.missed_by_ms == (LATE + 7) * 1_000


def test_a_promise_that_is_broken_now_has_a_row_until_its_round_has_ended() -> None:
    world = World()
    world.append()
    world.due()
    world.coordinator.observer.observe_all()
    oldest = world.coordinator.view().table_statuses()[0].oldest_pending_time
    assert oldest is not None
    world.clock.wall = oldest + timedelta(seconds=FRESHNESS)
    world.coordinator.observer.observe_all()
    assert shown(freshness_misses.rows, world) == [], "the promise is kept for one more moment"
    world.later(5)
    [miss] = shown(freshness_misses.rows, world)
    assert (miss.round_id, miss.deadline, miss.reached_at, miss.missed_by_ms) == (
        world.record().round.round_id,  # type: ignore[union-attr]
        oldest + timedelta(seconds=FRESHNESS),
        None,
        5_000,
    )
    assert (miss.largest_part, miss.explanation) == (None, "Pending until now: waits for a tierer: no connected tierer gets tables")
    tierer = world.tierer()
    finish(world, tierer, tierer.get())
    world.coordinator.observer.observe_all()
    [miss] = shown(freshness_misses.rows, world)
    assert miss.reached_at is not None


def test_of_a_cluster_that_is_down_history_is_read_without_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = FolderWorld(tmp_path / "data")
    table = create(world, TablePath("sales", "orders"), 2, freshness="1 h")
    world.append(table, 0, 20)
    world.clock.advance(3_601)
    tick(world.coordinator)
    world.begin(table).end()
    with (
        closing(world),
        closing(SqlStore.for_reading(world.folder.root / "coordinator.db")) as store,
        closing(ReadOnlyEmbeddedCluster(world.folder.cluster)) as cluster,
    ):

        def is_down() -> list[TableInfo]:
            raise ClusterUnavailable("the cluster is down")

        monkeypatch.setattr(cluster, "tables", is_down)
        view = offline_view(store, cluster, world.clock)
        [miss] = freshness_misses.rows.rows(view, ScanRequest())
    assert (miss.table_name, miss.missed_by_ms, miss.largest_part) == ("orders", 1_000, "queued_late")
