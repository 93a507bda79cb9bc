"""Measures the healing of a lake table that an earlier version left with very many snapshots and small files.

    PYTHONPATH=bench .venv/bin/python bench/upkeep/degraded_table.py --snapshots 50000 --files 50000

The table is made directly (`tests/support/upkeep/degraded_tables.py`): an Iceberg log table with one bucket, a snapshot and a manifest list
of each former round, and 20 former metadata files. Cluster, coordinator and lake are in this process, and rounds run inline. First the
bench runs tiering rounds of one row each until no snapshot expires any more. Then it runs upkeep rounds until nothing is left to rewrite,
measures the table's health, and runs two sweeps with some hours between them. Each line has seconds and CPU seconds of the step, the memory
of the process, and what is left: snapshots, data files, and the size of the newest metadata file. At the end the lake has exactly the rows
of the log. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import running.tests_path  # noqa: F401  # what is imported next needs it
import structlog
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse

from support.upkeep.degraded_tables import Degradation, degraded_table
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.cluster.log_writer import LogWriter
from tiering.coordinator.lake_repair.background_sweeps import BackgroundSweeps
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder

MB = 1_000_000
MOST_ROUNDS = 100
HOURS_BETWEEN_SWEEPS = 3


@dataclass(frozen=True)
class Step:
    """One step and what it left. `peak_mb` is the most memory that the process had until then."""

    name: str
    seconds: float
    cpu_seconds: float
    memory_mb: float
    peak_mb: float
    snapshots: int
    data_files: int
    metadata_json_mb: float
    metadata_files: int


class Healing:
    """Takes steps on one table and measures them."""

    def __init__(self, world: LakeWorld, table: TableInfo) -> None:
        self._world, self._table = world, table
        self.steps: list[Step] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures what is done within."""
        began, began_cpu = time.perf_counter(), time.process_time()
        yield
        seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
        loaded = self._world.iceberg(self._table)
        newest = Path(loaded.metadata_location.removeprefix("file://"))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.steps.append(
            Step(
                name,
                round(seconds, 2),
                round(cpu, 2),
                round(pages * os.sysconf("SC_PAGE_SIZE") / MB),
                round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024 / MB),
                len(loaded.metadata.snapshots),
                self._world.view(self._table).files or 0,
                round(newest.stat().st_size / MB, 1),
                sum(1 for _ in newest.parent.iterdir()),
            )
        )
        print(self.steps[-1], flush=True)

    def expire(self) -> None:
        """Tiering rounds of a row each, until one leaves as many snapshots as the one before."""
        left = None
        for number in range(MOST_ROUNDS):
            row = pa.table({"id": [-number], "text": ["new"]}, schema=SCHEMA)
            LogWriter(self._world.storage, self._table.path, f"new-{number}").append(row)
            with self.step(f"round {number + 1}"):
                self._end(None)
            if left is not None and self.steps[-1].snapshots >= left:
                return
            left = self.steps[-1].snapshots

    def rewrite(self) -> None:
        """Upkeep rounds, until one leaves as many files as the one before."""
        left = None
        for number in range(MOST_ROUNDS):
            with self.step(f"upkeep round {number + 1}"):
                self._end(UpkeepOrder())
            if left is not None and self.steps[-1].data_files >= left:
                return
            left = self.steps[-1].data_files

    def _end(self, order: UpkeepOrder | None) -> None:
        self._world.due()
        outcome = self._world.begin(self._table, upkeep=order).end()
        if outcome.error is not None:
            raise SystemExit(f"a round failed: {outcome.error!r}") from outcome.error

    def look_and_sweep(self) -> None:
        """A look at the health, and sweeps."""
        self._world.clock.advance(600)
        with self.step("health"):
            self._world.coordinator.lake_health.observe()
        sweeps = BackgroundSweeps(self._world.coordinator.call_parts)
        for name in ("first sweep", "second sweep"):
            with self.step(name):
                sweeps.run()
            self._world.clock.advance(HOURS_BETWEEN_SWEEPS * 3_600)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshots", type=int, default=50_000)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parse(parser, snapshots=100, files=50)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        world = LakeWorld(Path(folder))
        table = degraded_table(world, "orders", Degradation(arguments.snapshots, arguments.files))
        world.clock.wall = datetime.now(UTC) + timedelta(hours=2)
        healing = Healing(world, table)
        with healing.step("as it was left"):
            pass
        healing.expire()
        healing.rewrite()
        healing.look_and_sweep()
        world.assert_exact(table)
        world.close()
    report = {"bench": "degraded_table", "cores": os.cpu_count(), "load": os.getloadavg()[0], "files": arguments.files}
    finish({**report, "steps": [asdict(step) for step in healing.steps]}, lambda: show(healing.steps))


def show(steps: list[Step]) -> None:
    """Prints a line a step."""
    table = Table(*(name.replace("_", " ") for name in Step.__dataclass_fields__))
    for step in steps:
        table.add_row(*(str(value) for value in vars(step).values()))
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
