"""What tables without news cost: 10,000 idle ones per minute, and how long until 1,000 that are due at once were all checked.

    .venv/bin/python bench/idle.py

A real coordinator process and a real tierer process. `--slots` is the tierer's. An idle table's freshness is an hour; an
empty one's is due together with all others. Prints a table; the last line is one JSON object. CPU seconds are those of the
process itself per minute of wall time (the tierer's: with its JVM), memory is resident (VmRSS).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from rich.console import Console
from rich.table import Table
from running.processes import python_process

from tiering.cli.processes.data_folder import open_data_folder
from tiering.client import LakewardClient
from tiering.cluster.embedded.metadata import table_rows
from tiering.cluster.embedded.metadata.database import buckets, tables
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
BUCKETS = 2
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
EMPTY_TARGET_SECONDS = 10.0
GIVE_UP_SECONDS = 600.0


@dataclass(frozen=True)
class Usage:
    """Of one process and its children."""

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
            first = table_rows.insert_table(connection, TablePath(database, _name(0)), spec, False, created).info
            table_row = connection.execute(sa.select(tables).where(tables.c.table_id == first.table_id)).mappings().one()
            copies = [
                {**table_row, "table_id": None, "table_name": _name(number), "folded_name": _name(number)} for number in range(1, count)
            ]
            kept = connection.execute(sa.select(buckets).where(buckets.c.table_id == first.table_id)).mappings().all()
            if copies:
                connection.execute(sa.insert(tables), copies)
                others = sa.select(tables.c.table_id).where(tables.c.database_name == database, tables.c.table_id != first.table_id)
                ids = connection.scalars(others).all()
                connection.execute(sa.insert(buckets), [{**bucket, "table_id": table_id} for table_id in ids for bucket in kept])
    return time.perf_counter() - start


def _name(number: int) -> str:
    return f"t{number:05d}"


def process(*arguments: str, log: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A `lakeward` command; ended at the end."""
    return python_process("-m", "tiering.cli.main", *arguments, log=log)


def wait_for_line(log: Path, text: str, seconds: float = 180) -> str:
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
    """What the processes use while nobody asks anything."""
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    return {name: Usage((cpu_seconds(pid) - before[name]) * 60 / seconds, memory_mb(pid)) for name, pid in pids.items()}


def unchecked(folder: Path, database: str) -> int:
    """Tables of a database that no round has looked at yet, as the store has them: asking the service would load it."""
    engine = sa.create_engine(open_data_folder(folder).store_url)
    with engine.connect() as connection:
        query = "SELECT count(*) FROM lakeward_tables WHERE path LIKE :like AND json_extract(body, '$.last_checked_time') IS NULL"
        left = connection.execute(sa.text(query), {"like": f"{database}.%"}).scalar_one()
    engine.dispose()
    return int(left)


def time_to_check(folder: Path, database: str, started: float) -> float:
    """Seconds from `started` until every table of the database was checked."""
    while (left := unchecked(folder, database)) > 0:
        if time.monotonic() - started > GIVE_UP_SECONDS:
            raise SystemExit(f"{left} tables of {database} were not checked within {GIVE_UP_SECONDS:.0f} s")
        time.sleep(0.1)
    return time.monotonic() - started


@contextmanager
def service(folder: Path, slots: int) -> Iterator[dict[str, int]]:
    """Coordinator and tierer that both serve; their pids, and the coordinator's port."""
    with ExitStack() as stack:
        log, tierer_log = folder / "coordinator.out", folder / "tierer.out"
        options = ("--data", str(folder / "data"), "--port", "0", "--log-level", "warning")
        coordinator = stack.enter_context(process("coordinator", *options, log=log))
        uri = wait_for_line(log, "lakeward is ready: ").split(": ")[1].strip()
        tierer_options = ("--uri", uri, "--master", "local[1]", "--slots", str(slots))
        tierer = stack.enter_context(process("tierer", *tierer_options, log=tierer_log))
        wait_for_line(tierer_log, "tierer is ready")
        yield {"coordinator": coordinator.pid, "tierer": tierer.pid, "port": int(uri.rpartition(":")[2])}


def measure_empty(work: Path, tables: int, slots: int) -> float:
    """All tables become due at one moment, long before which coordinator and tierer serve."""
    folder = work / "empty"
    folder.mkdir()
    lead_seconds = 45
    due = time.monotonic() + lead_seconds
    make_tables(folder / "data", "empty", tables, f"{lead_seconds} s", datetime.now(UTC))
    with service(folder, slots):
        if time.monotonic() > due:
            raise SystemExit("the service took too long to start: the tables were due before")
        if unchecked(folder / "data", "empty") != tables:
            raise SystemExit("tables were checked before they were due")
        return time_to_check(folder / "data", "empty", due)


def measure_idle(work: Path, tables: int, slots: int, seconds: float) -> tuple[float, dict[str, Usage]]:
    """Seconds to make the tables, and what they cost while they wait for their hour."""
    folder = work / "idle"
    folder.mkdir()
    making = make_tables(folder / "data", "idle", tables, "1 h", datetime.now(UTC))
    with service(folder, slots) as pids:
        with LakewardClient(f"127.0.0.1:{pids.pop('port')}") as client:
            listed = len(client.list_tiering_statuses())
        if listed != tables:
            raise SystemExit(f"{listed} of {tables} tables are known")
        usage_over(pids, 15)  # what a start costs is not counted
        return making, usage_over(pids, seconds)


def show(idle: dict[str, Usage], idle_tables: int, empty_tables: int, empty_seconds: float) -> None:
    """Both measurements."""
    table = Table("process", "CPU s a minute", "memory MB", title=f"{idle_tables:,} idle tables")
    for name, usage in idle.items():
        table.add_row(name, f"{usage.cpu_seconds_a_minute:.2f}", f"{usage.memory_mb:.0f}")
    Console().print(table)
    met = "met" if empty_seconds < EMPTY_TARGET_SECONDS else "missed"
    print(f"{empty_tables:,} due but empty tables were all checked in {empty_seconds:.1f} s (target {EMPTY_TARGET_SECONDS:.0f} s: {met})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle-tables", type=int, default=10_000)
    parser.add_argument("--empty-tables", type=int, default=1_000)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60, help="how long the idle cost is measured")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        empty = measure_empty(Path(folder), arguments.empty_tables, arguments.slots)
        making, idle = measure_idle(Path(folder), arguments.idle_tables, arguments.slots, arguments.seconds)
    show(idle, arguments.idle_tables, arguments.empty_tables, empty)
    figures = {f"{name}_{field}": round(value, 2) for name, usage in idle.items() for field, value in vars(usage).items()}
    counts = {"idle_tables": arguments.idle_tables, "empty_tables": arguments.empty_tables, "slots": arguments.slots}
    print(json.dumps({"bench": "idle", **counts, "create_seconds": round(making, 2), "empty_seconds": round(empty, 2), **figures}))


if __name__ == "__main__":
    main()
