"""A year of history at 1,000 rounds a minute: how large the store gets, and how long pruning keeps its lock.

    .venv/bin/python bench/year_of_history.py
    .venv/bin/python bench/year_of_history.py --postgresql      # in a PostgreSQL of its own (Debian's package)

525.6 million rounds cannot be written here one by one. What is kept is the newest of each table, so the store at any time depends on
what was written since its oldest row alone: some hours at this rate. Two runs show the whole year, both through the coordinator's own
`TableRecords.prune` (every ten minutes of a simulated clock) and the store's own writes:

- full rate: `--hours` of the year with the default bounds, every row written. The rows are copies of what a round leaves behind in a
  real coordinator (one round, one grant, its events), with ids, times and tables of their own.
- whole year: 365 days with rate and bounds both divided by `--scale`: the rows are replaced as many times as in the year at full rate,
  so that a store that grew with the year would grow here, too. Tables that are tiered once a day, and one dropped after a month, are
  among the others.

Prints tables; the last line is one JSON object. A write is timed beside the pruning, as a heartbeat's that waits for the store.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import running.tests_path  # noqa: F401  # what is imported next needs it
import sqlalchemy as sa
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse

from support.clusters.memory_cluster import log_table
from support.running.postgresql import DATABASE, PASSWORD, USER, running_postgresql
from support.worlds.coordinator_world import HandClock, World
from tiering.clock import RandomIds
from tiering.coordinator.decisions.records import ErrorInfo, ErrorRecord, EventRecord, LakeCommitRecord, RoundRecord
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.memory.store import Writes
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.background import BACKGROUND_SHARE, PRUNE_INTERVAL_MS
from tiering.model.rounds import PhaseTimes, RoundState
from tiering.throttle import Throttle

PRUNE_MINUTES = PRUNE_INTERVAL_MS // 60_000
BUCKETS = 8
FAILED_SHARE = 0.01
QUIET_TABLES = 10
"""Number of rounds of the whole year, of tables that are tiered once a day."""
MB = 1_000_000


@dataclass(frozen=True)
class Left:
    """Rows that one round leaves in the store."""

    round: RoundRecord
    commit: LakeCommitRecord
    events: Sequence[EventRecord]


def what_a_round_leaves() -> Left:
    """From a real coordinator with a lake in memory, which tiers a table with `BUCKETS` buckets twice."""
    world = World((replace(log_table(), bucket_count=BUCKETS),))
    for _ in range(2):
        for bucket in range(BUCKETS):
            world.append(1_000_000, bucket)
        tierer, assignment = world.assigned()
        tierer.commit(assignment)
        tierer.ack(assignment)
        tierer.finish(assignment)
    [last] = world.store.rounds(limit=1)
    assert last.stats is not None
    timed = replace(last, stats=replace(last.stats, times=PhaseTimes(120, None, 900, 800, 450, 60)), incarnation=RandomIds().new_id())
    events = [event for event in world.store.events() if event.round_id == last.round_id]
    world.coordinator.close()
    return Left(timed, world.store.commits(limit=1)[0], [replace(event, event_id=None) for event in reversed(events)])


class Year:
    """Writes rounds as of a simulated clock, and prunes as the coordinator does."""

    def __init__(self, store: SqlStore, options: CoordinatorOptions) -> None:
        self.clock, self.store, self.ids = HandClock(), store, RandomIds()
        self.records = TableRecords(store, self.clock, self.ids, options)
        self.left = what_a_round_leaves()
        self.rounds = self.events = 0
        self.longest_prune = 0.0
        self._random = random.Random(1)

    def write(self, tables: Sequence[int], minutes: float) -> None:
        """A round of each of these tables, spread over so many minutes that end now; one transaction."""
        step, now = timedelta(minutes=minutes) / max(1, len(tables)), self.clock.now()
        copies = [self._copy(number, now - step * place) for place, number in enumerate(reversed(tables))]
        errors = [error for _, _, _, error in copies if error is not None]
        self.store.apply(
            self.records.epoch,
            Writes(
                rounds=tuple(row for row, _, _, _ in copies),
                commits=tuple(row for _, row, _, _ in copies if row is not None),
                events=tuple(event for _, _, events, _ in copies for event in events),
                errors=tuple(errors),
            ),
        )
        self.rounds += len(copies)
        self.events += sum(len(events) for _, _, events, _ in copies)

    def prune(self) -> None:
        """With the rests of the coordinator's background, which are not counted."""
        rested = 0.0

        def wait(seconds: float) -> bool:
            nonlocal rested
            started = time.perf_counter()
            time.sleep(min(seconds, 0.02))
            rested += time.perf_counter() - started
            return False

        started = time.perf_counter()
        self.records.prune(Throttle(BACKGROUND_SHARE, wait).pause)
        self.longest_prune = max(self.longest_prune, time.perf_counter() - started - rested)

    def _copy(self, number: int, ended: datetime) -> tuple[RoundRecord, LakeCommitRecord | None, list[EventRecord], ErrorRecord | None]:
        """The template as a round of this table that ended then; one of a hundred failed before its grant."""
        of_table: dict[str, Any] = {"database_name": "sales", "table_name": f"table_{number:05}"}
        round_id, moved = self.ids.new_id(), ended - self.left.events[-1].occurred_at
        row, commit = self.left.round, self.left.commit
        times = {
            name: value + moved
            for name in ("pending_time", "started_time", "finished_time", "deadline", "completion_target")
            if isinstance(value := getattr(row, name), datetime)
        }
        row = replace(row, **of_table, **times, round_id=round_id, table_id=number, tiering_epoch=self.rounds)
        events = [replace(event, **of_table, occurred_at=event.occurred_at + moved, round_id=round_id) for event in self.left.events]
        if self._random.random() < FAILED_SHARE:
            info = ErrorInfo("LakeUnavailable", "the lake's catalog does not answer: connection refused", "PLAN", "", True, ended)
            error = ErrorRecord(number, **of_table, **_of_error(info), count=1, first_seen=ended, last_seen=ended, last_round_id=round_id)
            return replace(row, state=RoundState.FAILED, error=info), None, events, replace(error, resolved_at=ended)
        grant = replace(commit, **of_table, round_id=round_id, table_id=number, tiering_epoch=self.rounds, prepared_at=ended)
        return row, grant, events, None


def _of_error(info: ErrorInfo) -> dict[str, Any]:
    return {name: getattr(info, name) for name in ("phase", "error_class", "message", "hint", "retryable")}


@dataclass
class Writer:
    """Writes now and then beside the pruning, as heartbeats do; the time that each write took, in ms."""

    year: Year
    took_ms: list[float] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def beside(self) -> Iterator[None]:
        self._ended.clear()
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _run(self) -> None:
        event = replace(self.year.left.events[0], occurred_at=self.year.clock.now(), table_name="heartbeat")
        while True:
            started = time.perf_counter()
            self.year.store.apply(self.year.records.epoch, Writes(events=(event,)))
            self.took_ms.append((time.perf_counter() - started) * 1_000)
            if self._ended.wait(0.005):
                return


Size = Callable[[], float]
"""Size of the store on its disk, in MB."""


def full_rate(year: Year, size: Size, hours: float, a_minute: int, tables: int) -> list[dict[str, float]]:
    """Every round of so many hours; the store every hour."""
    beat, shown = Writer(year), []
    for minute in range(1, int(hours * 60) + 1):
        year.clock.advance(60)
        year.write([(minute * a_minute + place) % tables for place in range(a_minute)], 1)
        if minute % PRUNE_MINUTES == 0:
            with beat.beside():
                year.prune()
        if minute % 60 == 0 or minute == int(hours * 60):
            waited = max(beat.took_ms, default=0.0)
            shown.append({"hours": minute / 60, "rounds": year.rounds, "events": year.events, "mb": size(), "waited_ms": waited})
            beat.took_ms.clear()
    return shown


def whole_year(year: Year, size: Size, a_day: int, tables: int, number: int) -> list[dict[str, float]]:
    """A day at a time, so many, pruned every six hours; the store every 73 days. The last table is dropped after a month."""
    shown = []
    for quarter in range(1, number * 4 + 1):
        year.clock.advance(21_600)
        live = tables - (quarter > 120)
        numbers = [(quarter * a_day // 4 + place) % live for place in range(a_day // 4)]
        year.write(numbers, 360)
        if quarter % 4 == 0:
            year.write(range(tables, tables + QUIET_TABLES), 360)
        year.prune()
        if quarter % (73 * 4) == 0 or quarter == number * 4:
            shown.append({"days": quarter / 4, "rounds": year.rounds, "events": year.events, "mb": size()})
    return shown


def burst(year: Year, share: float) -> tuple[int, float, float, float]:
    """Pruning with bounds that are a share of the former: rows that went, seconds of work, median and longest write beside it in ms."""
    options = year.records.options
    names = ("keep_rounds", "keep_events", "keep_table_rounds", "keep_table_events")
    year.records.options = replace(options, **{name: max(1, int(getattr(options, name) * share)) for name in names})
    before, beat = kept(year.store), Writer(year)
    year.longest_prune = 0.0
    with beat.beside():
        year.prune()
    waits = sorted(beat.took_ms)
    gone = sum(before.values()) + len(waits) - sum(kept(year.store).values())
    return gone, year.longest_prune, waits[len(waits) // 2], waits[-1]


def kept(store: SqlStore) -> dict[str, int]:
    """Rows of each table of the store."""
    names = ("rounds", "commits", "events", "errors")
    with store._engine.connect() as connection:
        return {name: connection.execute(sa.text(f"SELECT count(*) FROM lakeward_{name}")).scalar_one() for name in names}


def quiet_days(year: Year, tables: int) -> list[int]:
    """Number of days for which the store has rounds of the tables that are tiered once a day, then the number of rounds of the dropped
    table."""
    query = sa.text("SELECT count(*) FROM lakeward_rounds WHERE table_name = :name")
    with year.store._engine.connect() as connection:
        names = [f"table_{number:05}" for number in (*range(tables, tables + QUIET_TABLES), tables - 1)]
        return [connection.execute(query, {"name": name}).scalar_one() for name in names]


@contextmanager
def opened(folder: Path, name: str, in_postgresql: bool) -> Iterator[tuple[SqlStore, Size]]:
    """An empty store, and what it takes on the disk."""
    if not in_postgresql:
        store = SqlStore(sqlite_url(folder / f"{name}.db"))
        yield store, lambda: sum(file.stat().st_size for file in folder.glob(f"{name}.db*")) / MB
        store.close()
        return
    with running_postgresql(folder / name) as port:
        store = SqlStore(f"postgresql+psycopg://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/{DATABASE}")

        def size() -> float:
            with store._engine.connect() as connection:
                return float(connection.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one()) / MB

        yield store, size
        store.close()


def show(title: str, rows: Sequence[dict[str, float]]) -> None:
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" for value in row.values()))
    Console().print(table)


Shows = list[Callable[[], None]]
"""Prints the tables, after the figures were checked."""


def measure_full_rate(arguments: argparse.Namespace, folder: Path, figures: dict[str, Any], shows: Shows) -> None:
    with opened(folder, "full", arguments.postgresql) as (store, size):
        year = Year(store, CoordinatorOptions())
        hours = full_rate(year, size, arguments.hours, arguments.rounds_a_minute, arguments.tables)
        title = f"{arguments.rounds_a_minute:,} rounds a minute of {arguments.tables:,} tables, {BUCKETS} buckets each"
        shows.append(partial(show, title, hours))
        figures |= {"store_mb": round(hours[-1]["mb"]), "longest_prune_s": round(year.longest_prune, 2), "kept": kept(store)}
        figures["longest_write_ms"] = round(max(row["waited_ms"] for row in hours), 1)
        gone, seconds, median, longest = burst(year, 0.1)
        beside = f"a write beside it took {median:.1f} ms (median), {longest:.0f} ms (longest)"
        shows.append(partial(print, f"{gone:,} rows at once: {seconds:.1f} s of work; {beside}"))
        figures |= {"burst_rows": gone, "burst_s": round(seconds, 1), "burst_write_median_ms": round(median, 1)}
        figures["burst_write_longest_ms"] = round(longest, 1)


def measure_year(arguments: argparse.Namespace, folder: Path, figures: dict[str, Any], shows: Shows) -> None:
    whole, scale = CoordinatorOptions(), arguments.scale
    bounds = {name: max(2, getattr(whole, name) // scale) for name in ("keep_rounds", "keep_events")}
    tables = max(2, arguments.tables // scale * 4)
    with opened(folder, "year", arguments.postgresql) as (store, size):
        year = Year(store, replace(whole, **bounds))
        days = whole_year(year, size, arguments.rounds_a_minute * 1_440 // scale, tables, arguments.days)
        shows.append(partial(show, f"{arguments.days} days, rate and bounds divided by {scale:,}", days))
        *quiet, dropped = quiet_days(year, tables)
        kept_rounds = f"rounds kept of tables tiered once a day: {min(quiet)} to {max(quiet)}; of one dropped after a month: {dropped}"
        shows.append(partial(print, kept_rounds))
        figures |= {"year_mb": [round(row["mb"], 2) for row in days], "year_rounds": year.rounds, "year_kept": kept(store)}
        figures |= {"quiet_rounds": min(quiet), "dropped_rounds": dropped}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=12)
    parser.add_argument("--rounds-a-minute", type=int, default=1_000)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--scale", type=int, default=1_000)
    parser.add_argument("--days", type=int, default=365, help="of the year with the divided rate")
    parser.add_argument("--postgresql", action="store_true", help="in place of SQLite")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parse(parser, hours=0.2, rounds_a_minute=60, tables=20, scale=1_000, days=10)
    figures: dict[str, Any] = {
        "bench": "year_of_history",
        "store": "postgresql" if arguments.postgresql else "sqlite",
        "hours": arguments.hours,
        "rounds_a_minute": arguments.rounds_a_minute,
        "tables": arguments.tables,
        "scale": arguments.scale,
    }
    started, shows = time.perf_counter(), Shows()
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        measure_full_rate(arguments, Path(folder), figures, shows)
        measure_year(arguments, Path(folder), figures, shows)
    finish(figures | {"seconds": round(time.perf_counter() - started)}, lambda: show_all(shows))


def show_all(shows: Shows) -> None:
    for show_part in shows:
        show_part()


if __name__ == "__main__":
    main()
