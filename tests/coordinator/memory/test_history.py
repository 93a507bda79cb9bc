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
from tiering.coordinator.decisions.records import (
    CommitState,
    ErrorRecord,
    EventRecord,
    LakeCommitRecord,
    Level,
    OperationRecord,
    RoundRecord,
    Trigger,
)
from tiering.coordinator.memory import sql_history, sql_schema
from tiering.coordinator.memory.history import HistoryBounds, HistoryKind, HistoryRange, share_of_a_table
from tiering.coordinator.memory.idempotency import stored_key
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.memory.store import Store, Writes
from tiering.errors import SetupError
from tiering.model.rounds import RoundState
from tiering.procedures.prove_table import ReaderRows, TableProof

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


def test_rounds_are_narrowed_to_tables_and_to_missed_deadlines(store: Store) -> None:
    missed = [("orders", 5_000_000_000), ("flights", 1), ("orders", 0), ("orders", None), ("places", 7)]
    rounds = [replace(round_record(at, table), missed_by_ms=late_ms) for at, (table, late_ms) in enumerate(missed)]
    store.apply(store.take_over(), Writes(rounds=tuple(rounds)))
    paths = frozenset({("sales", "orders"), ("sales", "places"), ("other", "flights")})
    assert [row.missed_by_ms for row in store.read_rounds(HistoryRange(is_missed=True))] == [7, 1, 5_000_000_000]
    assert [row.missed_by_ms for row in store.read_rounds(HistoryRange(is_missed=True, paths=paths))] == [7, 5_000_000_000]


def test_events_come_by_time_or_as_they_were_written(store: Store) -> None:
    """The two orders differ once the clock was set back."""
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


def test_the_oldest_round_of_a_table_is_an_empty_one_only_where_there_is_no_other(store: Store) -> None:
    empty = [round_record(number, state=RoundState.EMPTY) for number in range(3)]
    other = [replace(row, table_name="returns", round_id=f"other {row.round_id}") for row in empty]
    rounds = (*empty, round_record(3), round_record(4, state=RoundState.FAILED), *other)
    store.apply(store.take_over(), Writes(rounds=rounds))
    oldest = store.oldest_rounds([("sales", name) for name in ("orders", "returns", "unknown")])
    assert oldest == {("sales", "orders"): rounds[3].pending_time, ("sales", "returns"): empty[0].pending_time}


def test_a_read_that_ends_early_leaves_nothing_open(tmp_path: Path) -> None:
    store = SqlStore(sqlite_url(tmp_path / "coordinator.db"))
    store.apply(store.take_over(), Writes(events=tuple(event(number) for number in range(20))))
    reading = store.read_events(HistoryRange(page_rows=5))
    assert next(reading).message == "19"
    assert store._engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    store.close()


def made_older(url: str) -> None:
    """Leaves the store as a version wrote it that had no look-up columns."""
    engine = sa.create_engine(url)
    look_up = ("database_name", "table_name", "state", "level", "event_type", "principal", "occurred_us")
    with engine.begin() as connection:
        connection.execute(sa.text(f"DROP TABLE {sql_schema.VERSION_TABLE}"))
        for table in (sql_schema.rounds, sql_schema.commits, sql_schema.events):
            for index in table.indexes:
                index.drop(connection)
            for name in (*look_up, *(("round_id",) if table is sql_schema.events else ())):
                if name in table.c:
                    connection.execute(sa.text(f"ALTER TABLE {table.name} DROP COLUMN {name}"))
    engine.dispose()


def test_what_an_older_version_wrote_is_found_after_the_next_start(store_url: str, tmp_path: Path) -> None:
    """One of the texts is too long for an index of PostgreSQL."""
    file, long = tmp_path / "coordinator.db", "ann" * 2_000
    rows = (event(1), event(2, None), replace(event(4, level=Level.ERROR), principal=long))
    store = SqlStore(store_url)
    store.apply(store.take_over(), Writes(rounds=(round_record(1),), commits=(commit_record(1),), events=rows))
    store.close()
    made_older(store_url)
    if file.exists():
        with pytest.raises(SetupError, match="written by an older version"):
            SqlStore.for_reading(file)
    store = SqlStore(store_url)
    store.apply(store.take_over(), Writes(events=(event(3), replace(event(5), principal=f"{long}e"))))
    assert messages(store, HistoryRange(table_name="orders")) == ["5", "4", "3", "1"]
    assert messages(store, HistoryRange(since=START + second(2))) == ["5", "4", "3", "2"]
    assert messages(store, HistoryRange(fields={"level": "ERROR"})) == ["4"]
    assert messages(store, HistoryRange(fields={"principal": "ann", "event_type": "TABLE_NEW"})) == ["3", "2", "1"]
    assert messages(store, HistoryRange(fields={"principal": long})) == ["4"]
    assert list(store.read_rounds(HistoryRange(table_name="orders", fields={"state": "SUCCEEDED"}))) == [round_record(1)]
    assert list(store.read_commits(HistoryRange(database_name="sales", fields={"state": "ACKED"}))) == [commit_record(1)]
    store.close()
    if file.exists():
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


def test_rounds_without_rows_push_out_no_others_and_take_their_events_with_them(store: Store) -> None:
    epoch = store.take_over()
    empty = tuple(round_record(number, state=RoundState.EMPTY) for number in range(10, 20))
    rounds = (round_record(1), *empty, round_record(25), round_record(2, "flights", state=RoundState.EMPTY))
    events = tuple(replace(event(number), round_id=round_record(number).round_id) for number in (1, *range(10, 20), 25))
    warning = replace(events[1], level=Level.WARN, message="a warning")
    store.apply(epoch, Writes(rounds=rounds, events=(*events, warning)))
    bounds = HistoryBounds(START, 100, 100, 100, 100, empty_rounds_per_table=2)
    for _ in range(2):
        store.prune(epoch, bounds, START, START + second(100))
        assert [row.tiering_epoch for row in store.read_rounds(HistoryRange())] == [25, 19, 18, 2, 1]
        assert messages(store, HistoryRange()) == ["25", "19", "18", "a warning", "1"]


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


def test_a_table_with_few_rows_keeps_them_beside_crowded_ones(store: Store) -> None:
    """All tables together may have no more events than that, and tables with many events lose some; a dropped table counts, too."""
    epoch = store.take_over()
    crowded = [round_record(number, name) for number, name in enumerate(["orders", "flights"] * 20, 100)]
    rounds = (*crowded, round_record(1, "weather"), round_record(2, "weather"))
    events = (*(event(number) for number in range(10, 30)), *(event(number, None) for number in range(40, 60)), event(1, "weather"))
    store.apply(epoch, Writes(rounds=rounds, events=events))
    bounds = HistoryBounds(START, rounds=12, events=9, rounds_per_table=100, events_per_table=100)
    store.prune(epoch, bounds, START, START + second(1_000))
    assert [row.tiering_epoch for row in store.read_rounds(HistoryRange())] == [*range(139, 129, -1), 2, 1]
    assert messages(store, HistoryRange()) == ["59", "58", "57", "56", "29", "28", "27", "26", "1"]


@pytest.mark.parametrize(
    ("counts", "total", "share"),
    [((), 10, 10), ((3, 4), 10, 10), ((5, 5), 10, 10), ((1, 50, 60), 11, 5), ((9, 9, 9), 10, 3), ((1, 1, 1), 2, 1), ((7,), 3, 3)],
)
def test_tables_share_what_is_kept_of_all(counts: tuple[int, ...], total: int, share: int) -> None:
    assert share_of_a_table(counts, total) == share


def test_the_tables_of_history_are_looked_up_once(store_url: str) -> None:
    """A reader who may know only some tables needs their names for each read, and there are very many rows."""
    store = SqlStore(store_url)
    epoch = store.take_over()
    looked_up: list[str] = []
    sa.event.listen(store._engine, "before_cursor_execute", lambda _, __, statement, *___: looked_up.append(statement))
    store.apply(epoch, Writes(events=(event(1),)))
    assert set(store.paths_of(HistoryKind.EVENTS)) == {("sales", "orders")}
    store.apply(epoch, Writes(events=(replace(event(2), table_name="returns"), replace(event(3), database_name=None, table_name=None))))
    for _ in range(3):
        assert set(store.paths_of(HistoryKind.EVENTS)) == {("sales", "orders"), ("sales", "returns"), (None, None)}
    assert store.paths_of(HistoryKind.ROUNDS) == frozenset()
    assert len([statement for statement in looked_up if "DISTINCT" in statement]) == 2
    store.prune(epoch, HistoryBounds(START, 10, 100, 10, 100), START, START + second(9_000))
    assert ("sales", "returns") in store.paths_of(HistoryKind.EVENTS)
    store.close()


def test_keys_of_one_principal_are_kept_up_to_a_number(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many keys one principal uses up, those of others stay for their time."""
    monkeypatch.setattr(sql_history, "KEEP_OPERATIONS", 3)
    store = SqlStore(store_url)
    epoch = store.take_over()
    keys = {principal: [stored_key(principal, str(number)) for number in range(count)] for principal, count in (("eve", 7), ("ann", 3))}
    keys["older version"] = [f"key-{number}" for number in range(5)]
    rows = [
        OperationRecord(key, principal, "tier_table", {}, 1, START + second(number), {}, {})
        for principal, names in keys.items()
        for number, key in enumerate(names)
    ]
    store.apply(epoch, Writes(operations=tuple(rows)))
    store.prune(epoch, HistoryBounds(START, 10, 100, 10, 100), START, START + second(9_000))
    kept = {principal: sum(store.operation(key) is not None for key in names) for principal, names in keys.items()}
    assert kept == {"eve": 3, "ann": 3, "older version": 5}
    assert store.operation(keys["eve"][-1]) is not None
    store.close()


def test_the_newest_proofs_are_kept_as_they_were(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_history, "KEEP_PROOFS", 2)
    readers = (ReaderRows("DuckDB", "2.0.0", 4, "reads files"), ReaderRows("Spark", None, None, "not asked"))
    proofs = [
        TableProof(START, "sales", "orders", "ann", number, "equal", None, 4, readers, 1, "SHA256:key", "00", 10, 5) for number in range(4)
    ]
    store = SqlStore(store_url)
    epoch = store.take_over()
    for proof in proofs:
        store.apply(epoch, Writes(proofs=(proof,)))
    store.close()
    store = SqlStore(store_url)
    assert list(store.proofs()) == proofs[::-1]
    store.prune(store.take_over(), HistoryBounds(START, 10, 100, 10, 100), START, START + second(9_000))
    assert list(store.proofs()) == proofs[:1:-1]
    store.close()


def test_much_is_forgotten_in_short_writes_with_rests_before_them(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One query finds only a part of the rows. A pass that was stopped continues the next time."""
    monkeypatch.setattr(sql_history, "LOOKED_UP", 1_000)
    store = SqlStore(store_url)
    epoch = store.take_over()
    operations = tuple(OperationRecord(f"k{number}", "ann", "tier_table", {}, 1, START, {}, {}) for number in range(300))
    store.apply(epoch, Writes(events=tuple(event(number) for number in range(2_500)), operations=operations))
    written: list[tuple[str, int]] = []

    def watch(_: object, cursor: Any, statement: str, *__: object) -> None:
        if statement.startswith("DELETE FROM"):
            written.append((statement.split()[2].removeprefix("lakeward_"), cursor.rowcount))

    def rest() -> bool:
        written.append(("rest", 0))
        return len(written) < 4 or len(written) > 5

    sa.event.listen(store._engine, "after_cursor_execute", watch)
    bounds = HistoryBounds(START, 10, 100, 10, 100)
    store.prune(epoch, bounds, START + second(1), START + second(9_000), rest)
    assert written == [("rest", 0), ("events", 250), ("rest", 0), ("events", 250), ("rest", 0)]
    store.prune(epoch, bounds, START + second(1), START + second(9_000), rest)
    assert written[5:] == [*[("rest", 0), ("events", 250)] * 7, ("rest", 0), ("events", 150), *_operations_in_two()]
    assert len(store.events(10_000)) == 100
    store.close()


def _operations_in_two() -> list[tuple[str, int]]:
    return [("rest", 0), ("operations", 250), ("rest", 0), ("operations", 50)]


CONDITIONS = {
    "all of it": HistoryRange(),
    "a table": HistoryRange(database_name="sales", table_name="orders"),
    "a table by its name": HistoryRange(table_name="orders"),
    "a time": HistoryRange(since=START, until=START + second(9)),
    "a round": HistoryRange(round_id="round-0001"),
    "a state": HistoryRange(fields={"state": "FAILED"}),
    "a level": HistoryRange(fields={"level": "ERROR"}),
    "a type": HistoryRange(fields={"event_type": "TABLE_PAUSED"}),
    "a principal": HistoryRange(fields={"principal": "ann"}),
    "a table and a level": HistoryRange(database_name="sales", table_name="orders", fields={"level": "ERROR"}),
}


@pytest.mark.parametrize("wanted", CONDITIONS.values(), ids=CONDITIONS)
def test_every_condition_is_answered_by_an_index_that_sorts(tmp_path: Path, wanted: HistoryRange) -> None:
    """A page is read without the rows beyond it, and sorts none but those of one moment."""
    engine = sql_schema.open_engine(sqlite_url(tmp_path / "coordinator.db"))
    sql_schema.prepare(engine)
    for table in (sql_schema.rounds, sql_schema.commits, sql_schema.events, sql_schema.errors):
        if not all(name in table.c for name in wanted.fields):
            continue
        query = sql_history.first_page(table, wanted).limit(100).compile(engine, compile_kwargs={"literal_binds": True})
        with engine.connect() as connection:
            steps = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]
        assert [step for step in steps if "SCAN" in step and "INDEX" not in step] == [], (table.name, steps)
        if wanted.round_id is None:
            assert "USE TEMP B-TREE FOR ORDER BY" not in steps, (table.name, steps)
    engine.dispose()


def test_missed_deadlines_of_a_few_tables_are_read_without_the_rounds_of_others(tmp_path: Path) -> None:
    engine = sql_schema.open_engine(sqlite_url(tmp_path / "coordinator.db"))
    sql_schema.prepare(engine)
    missed = HistoryRange(paths=frozenset(("sales", f"t{number}") for number in range(50)), is_missed=True, since=START)
    query = sql_history.first_page(sql_schema.rounds, missed).limit(100).compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        steps = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]
    searches = [step for step in steps if "SEARCH" in step]
    assert searches
    assert all("lakeward_rounds_by_path (database_name=? AND table_name=?" in step for step in searches), steps
    engine.dispose()


@pytest.mark.parametrize("hidden", [1, 250])
def test_very_many_tables_are_one_parameter_of_a_read(store_url: str, hidden: int) -> None:
    store = SqlStore(store_url)
    names = [f"t{number}" for number in range(300)]
    events = [replace(event(number), table_name=name) for number, name in enumerate(names)]
    store.apply(store.take_over(), Writes(events=(*events, replace(event(400), database_name=None, table_name=None))))
    parameters: list[int] = []
    sa.event.listen(store._engine, "before_cursor_execute", lambda _, __, ___, values, *____: parameters.append(len(values)))
    visible = frozenset(("sales", name) for name in names[hidden:])
    assert {row.table_name for row in store.read_events(HistoryRange(paths=visible))} == set(names[hidden:])
    assert parameters
    assert max(parameters) <= 200
    assert None in {row.table_name for row in store.read_events(HistoryRange(paths=visible | {(None, None)}))}
    store.close()
