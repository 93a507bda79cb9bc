"""Measures the cost of tables without new rows: of 10,000 idle tables per minute, and the time until 1,000 tables that are due at a start
were all checked.

    .venv/bin/python bench/idle.py

A real coordinator process and a real tierer process. `--slots` is the tierer's. An idle table's freshness is an hour. The empty ones are
all due when the coordinator starts; the time counts from that start. The coordinator checks them without a round, and leaves tables to the
tierer if it cannot check them in time. CPU seconds are those of the process itself per minute of wall time (the tierer's: with its JVM),
memory is resident (VmRSS). Prints a table; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse, verdict
from running.processes import python_process

from tiering.cli.processes.data_folder import open_data_folder
from tiering.client import LakewardClient
from tiering.cluster.embedded.metadata import table_rows
from tiering.cluster.embedded.metadata.database import buckets, table_schemas, tables
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
BUCKETS = 2
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
EMPTY_TARGET_SECONDS = 10.0
SETTLE_SECONDS = 15.0
"""The cost of a start is not counted."""
GIVE_UP_SECONDS = 600.0


@dataclass(frozen=True)
class Usage:
    """Use of one process and its children."""

    cpu_seconds_a_minute: float
    memory_mb: float


def make_tables(folder: Path, database: str, count: int, freshness: str, created: datetime) -> float:
    """All of them, made at one moment, in one transaction of the embedded cluster while no coordinator has it open; seconds.

    The first is made as the cluster makes them, the others are copies of its rows: one by one they would take minutes.
    """
    start = time.perf_counter()
    properties = {"table.datalake.enabled": "true", "table.datalake.freshness": freshness}
    spec = TableSpec(SCHEMA, BUCKETS, properties=properties)
    with EmbeddedStorage(open_data_folder(folder).cluster) as cluster:
        cluster.create_database(database, ignore_if_exists=True)
        with cluster.metadata.write() as connection:
            first, _ = table_rows.insert_table(connection, TablePath(database, _name(0)), spec, False, created)
            table_row = connection.execute(sa.select(tables).where(tables.c.table_id == first.table_id)).mappings().one()
            copies = [
                {**table_row, "table_id": None, "table_name": _name(number), "folded_name": _name(number)} for number in range(1, count)
            ]
            if copies:
                connection.execute(sa.insert(tables), copies)
                others = sa.select(tables.c.table_id).where(tables.c.database_name == database, tables.c.table_id != first.table_id)
                ids = connection.scalars(others).all()
                for part in (buckets, table_schemas):
                    rows = connection.execute(sa.select(part).where(part.c.table_id == first.table_id)).mappings().all()
                    connection.execute(sa.insert(part), [{**row, "table_id": table_id} for table_id in ids for row in rows])
    return time.perf_counter() - start


def _name(number: int) -> str:
    return f"t{number:05d}"


def process(*arguments: str, log: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A `lakeward` command; ended at the end."""
    return python_process("-m", "tiering.cli.main", *arguments, log=log)


def wait_for_line(log: Path, text: str, seconds: float = 400) -> str:
    """The line of a log that has `text`, once it is there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        line = next((line for line in log.read_text(errors="replace").splitlines() if text in line), None)
        if line is not None:
            return line
        time.sleep(0.05)
    raise SystemExit(f"{log}: no {text!r} within {seconds} s:\n{log.read_text(errors='replace')[-2000:]}")


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    pids = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            pids += tree(int(child))
    return pids


def cpu_seconds(pid: int) -> float:
    """Used so far by a process and its descendants."""
    total = 0
    for process_id in tree(pid):
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_SECOND


def memory_mb(pid: int) -> float:
    """Resident now."""
    pages = sum(int(Path(f"/proc/{process_id}/statm").read_text().split()[1]) for process_id in tree(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def usage_over(pids: dict[str, int], seconds: float) -> dict[str, Usage]:
    """Measures the use of the processes while no client sends a call."""
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    return {name: Usage((cpu_seconds(pid) - before[name]) * 60 / seconds, memory_mb(pid)) for name, pid in pids.items()}


def checked(folder: Path, database: str) -> int:
    """Tables of a database that were checked, as the store has them: asking the service would load it."""
    engine = sa.create_engine(open_data_folder(folder).store_url)
    with engine.connect() as connection:
        query = "SELECT count(*) FROM lakeward_tables WHERE path LIKE :like AND json_extract(body, '$.last_checked_time') IS NOT NULL"
        count = connection.execute(sa.text(query), {"like": f"{database}.%"}).scalar_one()
    engine.dispose()
    return int(count)


def time_to_check(folder: Path, database: str, tables: int, begun: float) -> float:
    """Seconds from `begun` (monotonic) until every table of the database was checked."""
    while True:
        left = tables - checked(folder, database)
        if not left:
            return time.monotonic() - begun
        if time.monotonic() - begun > GIVE_UP_SECONDS:
            raise SystemExit(f"{left} tables of {database} were not checked within {GIVE_UP_SECONDS:.0f} s")
        time.sleep(0.05)


@contextmanager
def coordinator_of(folder: Path) -> Iterator[tuple[int, str]]:
    """A coordinator that serves; its pid, and where it answers."""
    log = folder / "coordinator.out"
    options = ("--data", str(folder / "data"), "--port", "0", "--log-level", "warning")
    with process("coordinator", *options, log=log) as coordinator:
        yield coordinator.pid, wait_for_line(log, "lakeward is ready: ").split(": ")[1].strip()


@contextmanager
def tierer_of(folder: Path, uri: str, slots: int) -> Iterator[int]:
    """A tierer that asks for tables; its pid."""
    log = folder / "tierer.out"
    with process("tierer", "--uri", uri, "--master", "local[1]", "--slots", str(slots), log=log) as tierer:
        wait_for_line(log, "tierer is ready")
        yield tierer.pid


def measure_empty(work: Path, tables: int, slots: int) -> float:
    """All tables are due at the start of coordinator and tierer."""
    folder = work / "empty"
    folder.mkdir()
    make_tables(folder / "data", "empty", tables, "1 s", datetime.now(UTC))
    begun = time.monotonic()
    with coordinator_of(folder) as (_, uri), tierer_of(folder, uri, slots):
        return time_to_check(folder / "data", "empty", tables, begun)


def measure_idle(work: Path, tables: int, slots: int, seconds: float) -> tuple[float, dict[str, Usage]]:
    """Seconds to make the tables, and what they cost while they wait for their hour."""
    folder = work / "idle"
    folder.mkdir()
    making = make_tables(folder / "data", "idle", tables, "1 h", datetime.now(UTC))
    with coordinator_of(folder) as (pid, uri), tierer_of(folder, uri, slots) as tierer_pid:
        with LakewardClient(uri) as client:
            listed = len(client.list_tiering_statuses())
        if listed != tables:
            raise SystemExit(f"{listed} of {tables} tables are known")
        time.sleep(min(SETTLE_SECONDS, seconds))
        return making, usage_over({"coordinator": pid, "tierer": tierer_pid}, seconds)


def show(idle: dict[str, Usage], idle_tables: int, empty_tables: int, empty_seconds: float) -> None:
    """Both measurements."""
    table = Table("process", "CPU s a minute", "memory MB", title=f"{idle_tables:,} idle tables")
    for name, usage in idle.items():
        table.add_row(name, f"{usage.cpu_seconds_a_minute:.2f}", f"{usage.memory_mb:.0f}")
    Console().print(table)
    target = f"target {EMPTY_TARGET_SECONDS:.0f} s: {verdict(empty_seconds, EMPTY_TARGET_SECONDS)}"
    print(f"{empty_tables:,} due but empty tables were all checked in {empty_seconds:.1f} s ({target})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle-tables", type=int, default=10_000)
    parser.add_argument("--empty-tables", type=int, default=1_000)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60, help="how long the idle cost is measured")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parse(parser, idle_tables=20, empty_tables=10, slots=2, seconds=2.0)
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        empty = measure_empty(Path(folder), arguments.empty_tables, arguments.slots)
        making, idle = measure_idle(Path(folder), arguments.idle_tables, arguments.slots, arguments.seconds)
    figures = {f"{name}_{field}": round(value, 2) for name, usage in idle.items() for field, value in vars(usage).items()}
    counts = {"idle_tables": arguments.idle_tables, "empty_tables": arguments.empty_tables, "slots": arguments.slots}
    report = {"bench": "idle", **counts, "create_seconds": round(making, 2), "empty_seconds": round(empty, 2), **figures}
    finish(report, lambda: show(idle, arguments.idle_tables, arguments.empty_tables, empty))


if __name__ == "__main__":
    main()
