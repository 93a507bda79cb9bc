"""Every store promises atomic writes, fenced by epoch, and the same records after a restart."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from support.worlds.coordinator_world import START
from tiering.coordinator.decisions.records import (
    CommitState,
    ErrorInfo,
    EventRecord,
    LakeCommitRecord,
    LakeState,
    Level,
    OperationRecord,
    Pause,
    QueuedCall,
    ReadHold,
    RoundRecord,
    TableRecord,
    Trigger,
)
from tiering.coordinator.memory import sql_schema
from tiering.coordinator.memory.history import HistoryBounds
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.memory.store import Store, Writes
from tiering.errors import Fenced, SetupError, StoreError
from tiering.model.rounds import RoundState, RoundStats
from tiering.model.states import TableState

Reopen = Callable[[Store], Store]


@pytest.fixture
def store(opened: tuple[Store, Reopen]) -> Store:
    return opened[0]


def round_record(number: int = 1, state: RoundState = RoundState.SUCCEEDED, table_id: int = 1) -> RoundRecord:
    return RoundRecord(
        round_id=f"round-{number}",
        table_id=table_id,
        database_name="sales",
        table_name="orders",
        tiering_epoch=number,
        coordinator_epoch=1,
        trigger=Trigger.CALL,
        state=state,
        pending_time=START + timedelta(seconds=number),
        planned_stops={"17/3": 5},
        stats=RoundStats(splits=2, records_written=10),
        error=ErrorInfo("OSError", "no disk left", "WRITE", "buy one", True, START, {"path": "x"}),
    )


def commit_record(number: int = 1, state: CommitState = CommitState.ACKED) -> LakeCommitRecord:
    time = START + timedelta(seconds=number)
    return LakeCommitRecord(f"round-{number}", 1, "sales", "orders", number, state, time, base_tag=2**62, offsets={"0": 10})


def full_record(table_id: int = 1) -> TableRecord:
    """A record with everything in it."""
    return TableRecord(
        table_id=table_id,
        database_name="sales",
        table_name="orders",
        table_type="LOG",
        lake_format="iceberg",
        freshness_ms=180_000,
        definition="abc",
        state=TableState.TIERING,
        status_time=START,
        tiering_epoch=7,
        due_deadline=START + timedelta(microseconds=1),
        pending_since=START,
        checked_since=START,
        checked_wall=START,
        heartbeat_time=START,
        heartbeat_deadline=START,
        last_tiered_time=START,
        last_checked_time=START,
        last_round_duration_ms=5,
        round=round_record(state=RoundState.RUNNING),
        commit=commit_record(),
        error=ErrorInfo("OSError", "größer", None, "", False, START),
        error_count=3,
        consecutive_failures=2,
        retry_deadline=START,
        pause=Pause("alice", None, START, START),
        call=QueuedCall("round-9", "bob", START, "k"),
        lake=LakeState("uuid", 2**62, 5, {"0": 10}, "round-0", 1, 2, 3),
    )


def operation(key: str, seconds: float = 0) -> OperationRecord:
    return OperationRecord(
        key, "alice", "tier_table", {"table": "sales.orders"}, 1, START + timedelta(seconds=seconds), {"0": 10}, {"0": 0}
    )


def event(message: str) -> EventRecord:
    return EventRecord(START, Level.INFO, "TABLE_NEW", message, details={"table_id": 1})


def test_the_needs_of_open_reads_are_there_after_a_restart_until_they_are_deleted(opened: tuple[Store, Reopen]) -> None:
    store, again = opened
    epoch = store.take_over()
    first = ReadHold("hold-1", 1, 2**62, {"0": 10, "17/3": 2**62}, START)
    second = ReadHold("hold-2", 1, None, {}, START + timedelta(microseconds=1))
    store.apply(epoch, Writes(read_holds=(first, second)))
    store.close()
    reopened = again(store)
    assert sorted(reopened.read_holds(), key=lambda hold: hold.hold_id) == [first, second]
    with pytest.raises(Fenced):
        reopened.apply(epoch + 5, Writes(ended_read_holds=("hold-1",)))
    reopened.apply(reopened.take_over(), Writes(ended_read_holds=("hold-1", "hold-3")))
    assert list(reopened.read_holds()) == [second]
    reopened.close()


def test_all_of_a_write_is_there_after_a_restart(opened: tuple[Store, Reopen]) -> None:
    store, again = opened
    epoch = store.take_over()
    record, done, commit, call = full_record(), round_record(2), commit_record(2), operation("k")
    store.apply(epoch, Writes((record,), (done,), (commit,), (event("one"), event("two")), (call,)))
    store.close()
    reopened = again(store)
    assert list(reopened.load()) == [record]
    assert reopened.round("round-2") == done
    assert list(reopened.rounds()) == [done]
    assert list(reopened.commits(1)) == [commit]
    assert (reopened.commit(commit.round_id), reopened.commit("another")) == (commit, None)
    assert reopened.operation("k") == call
    assert [(event.message, event.event_id) for event in reopened.events()] == [("two", 2), ("one", 1)]


def test_a_row_with_the_same_id_is_replaced(store: Store) -> None:
    epoch = store.take_over()
    store.apply(epoch, Writes(tables=(full_record(),), rounds=(round_record(state=RoundState.QUEUED),)))
    moved = replace(full_record(), state=None)
    store.apply(epoch, Writes(tables=(moved,), rounds=(round_record(),)))
    assert list(store.load()) == [moved]
    assert list(store.rounds()) == [round_record()]


def test_of_a_forgotten_table_only_its_record_goes(store: Store) -> None:
    epoch = store.take_over()
    store.apply(epoch, Writes((full_record(), full_record(2)), (round_record(),), (commit_record(),)))
    store.apply(epoch, Writes(forgotten_tables=(1, 77)))
    assert [record.table_id for record in store.load()] == [2]
    assert (len(store.rounds(1)), len(store.commits(1))) == (1, 1)


def test_every_take_over_makes_a_greater_epoch_and_fences_the_former(opened: tuple[Store, Reopen]) -> None:
    store, again = opened
    first = store.take_over()
    other = again(store)
    second = other.take_over()
    assert second == first + 1
    with pytest.raises(Fenced):
        store.apply(first, Writes(tables=(full_record(),), events=(event("late"),)))
    with pytest.raises(Fenced):
        store.prune(first, HistoryBounds(START, 1, 1, 1, 1), START, START)
    assert list(other.load()) == []
    assert list(other.events()) == []
    other.apply(second, Writes(tables=(full_record(),)))
    assert len(other.load()) == 1


def test_who_rises_to_a_higher_epoch_has_both_until_another_takes_over(opened: tuple[Store, Reopen]) -> None:
    store, again = opened
    first = store.take_over()
    risen = store.rise(first, 70)
    assert risen > 70
    for epoch in (first, risen):
        store.apply(epoch, Writes(events=(event(f"of {epoch}"),)))
    other = again(store)
    second = other.take_over()
    assert second == risen + 1
    for epoch in (first, risen):
        with pytest.raises(Fenced):
            store.apply(epoch, Writes(events=(event("late"),)))
        with pytest.raises(Fenced):
            store.rise(epoch, 10_000)
    assert [event.message for event in other.events()] == [f"of {risen}", f"of {first}"]


def test_of_two_coordinators_with_one_epoch_the_later_has_the_store(store_url: str) -> None:
    """The database was set back to a backup under a coordinator that sleeps."""
    sleeper = SqlStore(store_url)
    epoch = sleeper.take_over()
    engine = sql_schema.open_engine(store_url)
    with engine.begin() as connection:
        connection.execute(sa.update(sql_schema.owner).values(epoch=epoch - 1))
    engine.dispose()
    other = SqlStore(store_url)
    assert other.take_over() == epoch
    with pytest.raises(Fenced, match="another coordinator took over"):
        sleeper.apply(epoch, Writes(events=(event("late"),)))
    other.apply(epoch, Writes(events=(event("of the owner"),)))
    assert [event.message for event in other.events()] == ["of the owner"]
    for store in (sleeper, other):
        store.close()


def test_a_process_that_slept_before_its_take_over_replaces_no_owner(store_url: str) -> None:
    sleeper, other = SqlStore(store_url), SqlStore(store_url)
    sleeper.look_at_owner()
    epoch = other.take_over()
    with pytest.raises(Fenced, match="while this one was about to"):
        sleeper.take_over()
    other.apply(epoch, Writes(events=(event("of the owner"),)))
    sleeper.look_at_owner()
    assert sleeper.take_over() == epoch + 1
    for store in (sleeper, other):
        store.close()


def test_rounds_and_grants_come_newest_first_and_by_table(store: Store) -> None:
    rows = tuple(round_record(number, table_id=number % 2) for number in range(1, 6))
    store.apply(store.take_over(), Writes(rounds=rows, commits=tuple(commit_record(number) for number in range(1, 4))))
    assert [row.tiering_epoch for row in store.rounds()] == [5, 4, 3, 2, 1]
    assert [row.tiering_epoch for row in store.rounds(table_id=1, limit=2)] == [5, 3]
    assert [row.tiering_epoch for row in store.commits(limit=2)] == [3, 2]
    assert list(store.commits(table_id=9)) == []
    assert store.round("unknown") is None
    assert store.operation("unknown") is None


def test_the_newest_rows_of_a_table_are_not_sorted_out_of_all_of_them(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.db"
    SqlStore(sqlite_url(file)).close()
    with sqlite3.connect(file) as connection:
        for name in ("lakeward_rounds", "lakeward_commits"):
            newest = f"SELECT body FROM {name} WHERE table_id = 1 ORDER BY tiering_epoch DESC LIMIT 16"
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {newest}")]
            assert plan == [f"SEARCH {name} USING INDEX {name}_by_epoch (table_id=?)"]


def test_pruning_keeps_the_newest_and_what_is_not_over(store: Store) -> None:
    epoch = store.take_over()
    rounds = (round_record(1, RoundState.RUNNING), *(round_record(number) for number in range(2, 8)))
    commits = (commit_record(1, CommitState.UNKNOWN), *(commit_record(number) for number in range(2, 8)))
    events = tuple(event(str(number)) for number in range(7))
    store.apply(epoch, Writes(rounds=rounds, commits=commits, events=events, operations=(operation("old"), operation("new", 10))))
    bounds = HistoryBounds(START, rounds=3, events=2, rounds_per_table=100, events_per_table=100)
    store.prune(epoch, bounds, operations_before=START + timedelta(seconds=5), now=START + timedelta(days=1))
    assert [row.tiering_epoch for row in store.rounds()] == [7, 6, 5, 1]
    assert [row.tiering_epoch for row in store.commits()] == [7, 6, 5, 1]
    assert [row.message for row in store.events()] == ["6", "5"]
    assert store.operation("old") is None
    assert store.operation("new") is not None
    store.apply(epoch, Writes(events=(event("next"),)))
    assert store.events(1)[0].event_id == 8


def test_more_rows_than_one_statement_takes(store: Store) -> None:
    records = tuple(full_record(table_id) for table_id in range(1_200))
    epoch = store.take_over()
    for _ in range(2):
        store.apply(epoch, Writes(tables=records))
    assert len(store.load()) == 1_200


def test_a_write_that_dies_half_way_leaves_nothing(tmp_path: Path) -> None:
    store = SqlStore(sqlite_url(tmp_path / "coordinator.db"))
    epoch = store.take_over()
    half = replace(event("half"), details={"not json": object()})
    with pytest.raises(Exception, match="object"):
        store.apply(epoch, Writes(tables=(full_record(),), events=(half,)))
    assert list(store.load()) == []
    store.close()


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "coordinator.db")
    SqlStore(url).close()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.update(sql_schema.owner).values(version=sql_schema.VERSION + 1))
    engine.dispose()
    with pytest.raises(SetupError, match="version 2"):
        SqlStore(url)


def test_a_store_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="unable to open"):
        SqlStore(sqlite_url(tmp_path / "missing" / "coordinator.db"))


def test_a_file_that_is_no_database_says_so(tmp_path: Path) -> None:
    path = tmp_path / "coordinator.db"
    path.write_bytes(b"not a database, but long enough to look at" * 50)
    with pytest.raises(SetupError, match="not a database"):
        SqlStore(sqlite_url(path))


def test_a_record_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    store = SqlStore(sqlite_url(tmp_path / "coordinator.db"))
    store.apply(store.take_over(), Writes(tables=(full_record(),)))
    engine = sa.create_engine(sqlite_url(tmp_path / "coordinator.db"))
    with engine.begin() as connection:
        connection.execute(sa.update(sql_schema.tables).values(body={"table_id": 1}))
    engine.dispose()
    with pytest.raises(StoreError, match="cannot be read"):
        store.load()
    store.close()


def test_sqlite_syncs_every_commit(tmp_path: Path) -> None:
    engine = sql_schema.open_engine(sqlite_url(tmp_path / "coordinator.db"))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
    engine.dispose()


def test_the_tables_can_be_made_in_postgresql() -> None:
    statements = [str(CreateTable(table).compile(dialect=postgresql.dialect())) for table in sql_schema.owner.metadata.sorted_tables]  # type: ignore[no-untyped-call]
    assert any("event_id BIGSERIAL" in text for text in statements)
