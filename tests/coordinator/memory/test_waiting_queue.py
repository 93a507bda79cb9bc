"""The front of the queue has the table that a look at all waiting tables would pick, whatever a request may take."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from support.worlds.coordinator_world import START
from tiering.coordinator.decisions import retries, table_lifecycle
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import LakeState, RoundRecord, TableRecord, Trigger
from tiering.coordinator.decisions.table_lifecycle import BacklogTurns
from tiering.coordinator.memory.record_index import SPARE_ENTRIES, WaitingQueue
from tiering.model.rounds import RoundState
from tiering.model.states import TableState

LIVE = LakeState(backlog={})


def waiting(
    table_id: int, since: int, due: int | None = 0, *, failures: int = 0, called: bool = False, backlog: bool = False, freshness: int = 5
) -> TableRecord:
    """Times in seconds after START."""
    trigger = Trigger.CALL if called else Trigger.SCHEDULE
    queued = RoundRecord(f"round-{table_id}", table_id, "sales", f"t{table_id}", 1, 1, trigger, RoundState.QUEUED, START)
    return TableRecord(
        table_id,
        "sales",
        f"t{table_id}",
        "LOG",
        "iceberg",
        freshness * 1_000,
        "",
        TableState.PENDING,
        START,
        pending_since=START + timedelta(seconds=since),
        due_deadline=None if due is None else START + timedelta(seconds=due),
        consecutive_failures=failures,
        lake=LakeState() if backlog else LIVE,
        round=queued,
    )


def at(seconds: int) -> Moment:
    return Moment(START + timedelta(seconds=seconds), START + timedelta(seconds=seconds))


tables = st.builds(
    waiting,
    st.integers(1, 12),
    st.integers(0, 20),
    st.none() | st.integers(0, 30),
    failures=st.integers(0, 2),
    called=st.booleans(),
    backlog=st.booleans(),
    freshness=st.integers(1, 20),
)
steps = st.tuples(tables, st.sets(st.integers(1, 12), max_size=3), st.sets(st.integers(1, 12), max_size=3))


@settings(deadline=None)
@given(st.lists(steps, max_size=30), st.booleans(), st.booleans(), st.booleans())
def test_the_front_has_the_table_that_all_of_them_would_give(
    story: list[tuple[TableRecord, set[int], set[int]]], apart: bool, allowed: bool, may_retry: bool
) -> None:
    queue, records, turns = WaitingQueue(backlog_apart=apart), dict[int, TableRecord](), BacklogTurns(allowed, apart)
    for seconds, (record, leave, without) in enumerate(story):
        queue.put(record)
        records[record.table_id] = record
        for table_id in leave:
            queue.drop(table_id)
            records.pop(table_id, None)
        now, front = at(seconds), queue.first(at(seconds), without)
        allowed_records = {
            table_id: record
            for table_id, record in records.items()
            if table_id not in without and (may_retry or not retries.is_retry(record))
        }
        of_front = [allowed_records[table_id] for table_id in front if table_id in allowed_records]
        assert table_lifecycle.pick(of_front, now, turns) == table_lifecycle.pick(allowed_records.values(), now, turns)


def test_a_table_overtakes_others_once_its_deadline_has_passed() -> None:
    queue = WaitingQueue()
    for record in (waiting(1, since=0, due=100), waiting(2, since=1, due=10)):
        queue.put(record)
    assert queue.first(at(5)) == [1]
    assert queue.first(at(10)) == [2, 1]


def test_an_outdated_place_counts_no_more() -> None:
    queue = WaitingQueue()
    queue.put(waiting(1, since=0, due=5))
    assert queue.first(at(6)) == [1, 1]
    queue.put(replace(waiting(1, since=0, due=60)))
    queue.put(waiting(2, since=3, due=5))
    assert queue.first(at(6)) == [2, 1]


def test_the_queue_forgets_tables_that_came_and_went() -> None:
    queue = WaitingQueue()
    for turn in range(10 * SPARE_ENTRIES):
        queue.put(waiting(turn, since=turn, due=turn + 1_000))
        queue.drop(turn)
    entries = sum(len(heap) for line in queue._lines.values() for heap in (line.all, line.late, line.by_deadline))
    assert entries <= 2 * (SPARE_ENTRIES + 1)
