"""Reads of stored history: narrowed and paged in the store, the newest first, also of rows that an older version wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from support.worlds.coordinator_world import START
from tiering.coordinator.decisions.records import CommitState, ErrorRecord, EventRecord, LakeCommitRecord, Level, RoundRecord, Trigger
from tiering.coordinator.memory import sql_schema
from tiering.coordinator.memory.history import HistoryBounds, HistoryRange
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.memory.store import Store, Writes
from tiering.errors import SetupError
from tiering.model.rounds import RoundState

Reopen = Callable[[Store], Store]


def second(number: float) -> timedelta:
    return timedelta(seconds=number)


def round_record(number: int, table: str = "orders", state: RoundState = RoundState.SUCCEEDED) -> RoundRecord:
    time = START + second(number)
    return RoundRecord(f"round-{number:04}", 1, "sales", table, number, 1, Trigger.SCHEDULE, state, pending_time=time)


def commit_record(number: int, state: CommitState = CommitState.ACKED) -> LakeCommitRecord:
    return LakeCommitRecord(f"round-{number:04}", 1, "sales", "orders", number, state, START + second(number))


def event(number: int, table: str | None = "orders", level: Level = Level.INFO, at: float | None = None) -> EventRecord:
    time = START + second(number if at is None else at)
    database = None if table is None else "sales"
    return EventRecord(time, level, "TABLE_NEW", f"{number}", "ann", database, table, f"round-{number:04}")


def messages(store: Store, wanted: HistoryRange) -> list[str]:
    return [row.message for row in store.read_events(wanted)]


@pytest.fixture
def store(opened: tuple[Store, Reopen]) -> Store:
    return opened[0]


def test_a_read_is_narrowed_by_table_round_time_and_fields(store: Store) -> None:
    rounds = (round_record(1), round_record(2, "flights", RoundState.FAILED), round_record(3, state=RoundState.FAILED))
    events = (event(1), event(2, None), event(3, "flights"), event(4, level=Level.ERROR))
    commits = (commit_record(1), commit_record(2, CommitState.UNKNOWN))
    store.apply(store.take_over(), Writes(rounds=rounds, commits=commits, events=events))

    assert [row.tiering_epoch for row in store.read_rounds(HistoryRange(table_name="orders"))] == [3, 1]
    assert [row.tiering_epoch for row in store.read_rounds(HistoryRange(fields={"state": "FAILED"}))] == [3, 2]
    assert list(store.read_rounds(HistoryRange(round_id="round-0002"))) == [rounds[1]]
    assert [row.tiering_epoch for row in store.read_commits(HistoryRange(database_name="sales"))] == [2, 1]
    assert [row.tiering_epoch for row in store.read_commits(HistoryRange(fields={"state": "UNKNOWN"}))] == [2]
    assert messages(store, HistoryRange()) == ["4", "3", "2", "1"]
    assert messages(store, HistoryRange(database_name="sales", fields={"level": "INFO"})) == ["3", "1"]
    assert messages(store, HistoryRange(since=START + second(2), until=START + second(3))) == ["3", "2"]
    assert messages(store, HistoryRange(round_id="round-0003")) == ["3"]
    assert messages(store, HistoryRange(database_name="other")) == []


def test_events_come_by_time_or_as_they_were_written(store: Store) -> None:
    """They differ once the clock was set back."""
    store.apply(store.take_over(), Writes(events=(event(1, at=9), event(2, at=5), event(3, at=5.5))))
    assert messages(store, HistoryRange()) == ["1", "3", "2"]
    assert messages(store, HistoryRange(by_time=False)) == ["3", "2", "1"]


@pytest.mark.parametrize("by_time", [True, False])
def test_pages_join_without_a_gap_or_a_repeat(store: Store, by_time: bool) -> None:
    """Many rows of one moment do not stop a page from ending among them."""
    rows = tuple(event(number, at=number // 40) for number in range(2_050))
    rounds = tuple(replace(round_record(number), pending_time=START) for number in range(1_300))
    store.apply(store.take_over(), Writes(events=rows, rounds=rounds))
    assert messages(store, HistoryRange(page_rows=7, by_time=by_time)) == [f"{number}" for number in reversed(range(2_050))]
    assert [row.tiering_epoch for row in store.read_rounds(HistoryRange(page_rows=3))] == list(reversed(range(1_300)))


def test_a_read_that_ends_early_leaves_nothing_open(tmp_path: Path) -> None:
    store = SqlStore(sqlite_url(tmp_path / "coordinator.db"))
    store.apply(store.take_over(), Writes(events=tuple(event(number) for number in range(20))))
    reading = store.read_events(HistoryRange(page_rows=5))
    assert next(reading).message == "19"
    assert store._engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    store.close()


def older_store(folder: Path) -> Path:
    """A store as a version wrote it that had no look-up columns."""
    file = folder / "coordinator.db"
    store = SqlStore(sqlite_url(file))
    store.apply(store.take_over(), Writes(rounds=(round_record(1),), commits=(commit_record(1),), events=(event(1), event(2, None))))
    store.close()
    engine = sa.create_engine(sqlite_url(file))
    with engine.begin() as connection:
        for table in (sql_schema.rounds, sql_schema.commits, sql_schema.events):
            for index in table.indexes:
                index.drop(connection)
            for name in ("database_name", "table_name", *(("occurred_us", "round_id") if table is sql_schema.events else ())):
                connection.execute(sa.text(f"ALTER TABLE {table.name} DROP COLUMN {name}"))
    engine.dispose()
    return file


def test_what_an_older_version_wrote_is_found_after_the_next_start(tmp_path: Path) -> None:
    file = older_store(tmp_path)
    with pytest.raises(SetupError, match="written by an older version"):
        SqlStore.for_reading(file)
    store = SqlStore(sqlite_url(file))
    store.apply(store.take_over(), Writes(events=(event(3),)))
    assert messages(store, HistoryRange(table_name="orders")) == ["3", "1"]
    assert messages(store, HistoryRange(since=START + second(2))) == ["3", "2"]
    assert list(store.read_rounds(HistoryRange(table_name="orders"))) == [round_record(1)]
    assert list(store.read_commits(HistoryRange(database_name="sales"))) == [commit_record(1)]
    store.close()
    SqlStore.for_reading(file).close()


def test_history_is_bounded_by_age_and_count_and_a_crowded_table_pushes_out_no_other(store: Store) -> None:
    epoch = store.take_over()
    rounds = (*tuple(round_record(number) for number in range(10, 20)), round_record(5, "flights"), round_record(1, "weather"))
    commits = tuple(commit_record(number) for number in range(10, 20))
    events = (*tuple(event(number) for number in range(10, 20)), event(5, "flights"), event(6, None), event(1, "weather"))
    store.apply(epoch, Writes(rounds=rounds, commits=commits, events=events))
    bounds = HistoryBounds(before=START + second(2), rounds=100, events=100, rounds_per_table=3, events_per_table=4)
    store.prune(epoch, bounds, START, START + second(100))
    assert [row.tiering_epoch for row in store.read_rounds(HistoryRange())] == [19, 18, 17, 5]
    assert [row.tiering_epoch for row in store.read_commits(HistoryRange())] == [19, 18, 17]
    assert messages(store, HistoryRange()) == ["19", "18", "17", "16", "6", "5"]


def test_what_is_not_over_is_kept_however_old_it_is(store: Store) -> None:
    epoch = store.take_over()
    running, unknown = round_record(1, state=RoundState.RUNNING), commit_record(2, CommitState.UNKNOWN)
    error = ErrorRecord(1, "sales", "orders", None, "OSError", "", "", True, 1, START, START, "round-0001")
    over = replace(error, phase="READ", resolved_at=START)
    store.apply(epoch, Writes(rounds=(running,), commits=(unknown,), errors=(error, over)))
    store.prune(epoch, HistoryBounds(START + second(50), 1, 1, 1, 1), START, START + second(100))
    assert list(store.read_rounds(HistoryRange())) == [running]
    assert list(store.read_commits(HistoryRange())) == [unknown]
    assert list(store.read_errors(HistoryRange())) == [error]


def test_much_is_forgotten_in_short_writes(tmp_path: Path) -> None:
    store = SqlStore(sqlite_url(tmp_path / "coordinator.db"))
    epoch = store.take_over()
    store.apply(epoch, Writes(events=tuple(event(number) for number in range(2_500))))
    deleted: list[int] = []

    def watch(_: object, cursor: Any, statement: str, *__: object) -> None:
        if statement.startswith("DELETE FROM lakeward_events"):
            deleted.append(cursor.rowcount)

    sa.event.listen(store._engine, "after_cursor_execute", watch)
    store.prune(epoch, HistoryBounds(START, 10, 100, 10, 100), START, START + second(9_000))
    assert deleted == [1_000, 1_000, 400]
    store.close()
