"""How many rounds a second one coordinator hands out as tierers are added: many tables, all due at once, and then a steady load.

    .venv/bin/python bench/many_tierers.py

Each run has a coordinator of its own (`scripted_service.py`: real server, background and SQLite store, on one core; cluster and lake in
memory, with real markers) and scripted tierers of 4 slots, on the other core, whose rounds take 50 to 600 ms. Some 7 minutes in all:

- **due at once**, for 1, 2, 4 and 8 tierers: all tables are due at the start, with deadlines that lie apart in the past. How fast the queue
  drains is the throughput, and the order in which tables are given out is compared with their deadlines. With most tierers until each
  table had its round, with fewer for `--queue-seconds`.
- **steady**, with most tierers: tables become due evenly, `--rounds-per-second` of them, for `--steady` seconds after `WARM_SECONDS`.
  A table is due again after its freshness (tables by rounds a second), less what its round may take: with few tables that is within the
  run, and asks for more.

Targets: an answer that gives a table out p99 < 50 ms, as the tierer sees it; no table starves: each had its round once the queue was empty,
none is given out before another whose deadline lay more than `ORDER_SECONDS` earlier, and in the steady load none waits longer than
`STARVING_SECONDS`; throughput grows with the tierers until the coordinator's core is full. CPU a round is all of the coordinator's process,
with the lake in memory that it serves to the tierers. Prints a table; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import grpc.aio
import idle
import scripted_service as service
from load import EARLY_SECONDS, Measured, ScriptedTierer, end, quantile
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse, rounded, shown, verdict

from tiering.coordinator.decisions import waits
from tiering.model.tables import TableInfo

ROW_SECONDS = 10.0
BOOT_SECONDS = 20.0
"""Until the first table of the steady load is begun: the service is up by then."""
WARM_SECONDS = 10.0
GIVE_UP_SECONDS = 300.0
ASSIGNMENT_TARGET_MS = 50.0
ORDER_SECONDS = 1.0
"""Tables become due a tick at a time, and a tierer asks for the next while the last tick is worked on."""
STARVING_SECONDS = 10.0


@dataclass(frozen=True)
class Load:
    """Settings of a run. `seconds`: duration of the run; None = until each table had a round."""

    name: str
    tierers: int
    tables: int
    freshness: float
    start: float
    """When the logs begin, in seconds since the epoch."""
    first_due: float
    """Seconds from then until the first table is due; the last one is a freshness later."""
    early: float
    """How long before its due time a table begins a round."""
    warm: float
    seconds: float | None

    def infos(self) -> list[TableInfo]:
        return service.infos(self.tables, self.freshness, datetime.fromtimestamp(self.start + self.first_due, UTC))

    def begin_times(self) -> dict[int, float]:
        """When each table is to be given out, in seconds since the epoch."""
        return {info.table_id: info.created_at.timestamp() + self.freshness - self.early for info in self.infos()}


def due_at_once(arguments: argparse.Namespace, tierers: int) -> Load:
    freshness = arguments.tables / arguments.rounds_per_second
    seconds = None if tierers == max(arguments.tierers) else arguments.queue_seconds
    return Load(f"{tierers} x 4", tierers, arguments.tables, freshness, time.time() - ROW_SECONDS, -2 * freshness, 0.0, 0.0, seconds)


def steady(arguments: argparse.Namespace) -> Load:
    freshness = arguments.tables / arguments.rounds_per_second
    early, tierers = min(EARLY_SECONDS, freshness * waits.ROUND_SHARE), max(arguments.tierers)
    start = time.time() + BOOT_SECONDS
    return Load(f"{tierers} x 4, steady", tierers, arguments.tables, freshness, start, early, early, WARM_SECONDS, arguments.steady)


def late_in_order(order: Sequence[int], begin_times: dict[int, float]) -> float:
    """The most seconds by which a table was given out after one of a later deadline."""
    worst, latest = 0.0, float("-inf")
    for table_id in order:
        latest = max(latest, begin_times[table_id])
        worst = max(worst, latest - begin_times[table_id])
    return worst


@dataclass(frozen=True)
class Window:
    """The time that counts of a run, in steady seconds, and what it took."""

    began: float
    ended: float
    coordinator_cpu: float
    drivers_cpu: float
    measured: Measured


async def drive(uri: str, cluster: service.TickingCluster, load: Load, pid: int) -> Window:
    """All tierers, until the run is over."""
    measured = Measured()
    channels = [grpc.aio.insecure_channel(uri) for _ in range(min(load.tierers, 4))]
    tasks = [
        asyncio.ensure_future(
            ScriptedTierer(f"tierer-{number}", channels[number % len(channels)], cluster, measured, random.Random(number), 0.0).run()
        )
        for number in range(load.tierers)
    ]
    await asyncio.sleep(load.warm)
    began, cpu, own = time.perf_counter(), idle.cpu_seconds(pid), time.process_time()
    ends = began + (GIVE_UP_SECONDS if load.seconds is None else load.seconds)
    while time.perf_counter() < ends and (load.seconds is not None or len({table_id for table_id, *_ in measured.assigned}) < load.tables):
        await asyncio.wait(tasks, timeout=0.25, return_when=asyncio.FIRST_EXCEPTION)
        if broken := [task for task in tasks if task.done()]:
            broken[0].result()
    window = Window(began, time.perf_counter(), idle.cpu_seconds(pid) - cpu, time.process_time() - own, measured)
    await end(tasks)
    for channel in channels:
        await channel.close()
    return window


Figures = dict[str, float | None]


def figures_of(load: Load, window: Window) -> Figures:
    """Result of one run."""
    measured, seconds, begin_times = window.measured, window.ended - window.began, load.begin_times()
    rounds = sum(window.began < at <= window.ended for at in measured.ended)
    answers = [took for _, at, took in measured.assigned if took is not None and at > window.began]
    first = {table_id: at for table_id, at, _ in reversed(measured.assigned)}  # the last one kept is each table's first
    to_wall = time.time() - time.perf_counter()
    late = {table_id: first.get(table_id, window.ended) + to_wall - begin for table_id, begin in begin_times.items()}
    if load.seconds is None:
        starved = load.tables - len(first)
    else:  # the queue of a run that ends early is not empty
        starved = sum(seconds > STARVING_SECONDS for seconds in late.values()) if load.warm else 0
    return {
        "seconds": seconds,
        "tables_given_out": len(first),
        "rounds_a_second": rounds / seconds,
        "coordinator_cpu_share": window.coordinator_cpu / seconds,
        "coordinator_cpu_ms_a_round": window.coordinator_cpu * 1_000 / max(rounds, 1),
        "drivers_cpu_share": window.drivers_cpu / seconds,
        **{f"assignment_p{percent}_ms": quantile(answers, percent) for percent in (50, 95, 99)},
        "heartbeat_p99_ms": quantile(measured.heartbeat_ms, 99),
        "given_out_of_order_seconds": late_in_order(sorted(first, key=first.__getitem__), begin_times),
        "longest_wait_seconds": max(0.0, *late.values()) if load.warm else None,
        "starved_tables": starved,
        "errors_of_calls": len(measured.errors),
    }


def measure(load: Load, work: Path | None) -> tuple[Measured, Figures]:
    """One coordinator under one load."""
    cores = sorted(os.sched_getaffinity(0))
    cluster = service.TickingCluster(load.infos(), datetime.fromtimestamp(load.start, UTC), ROW_SECONDS)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        log = Path(folder) / "service.log"
        options = {"store": folder, "tables": load.tables, "freshness": load.freshness, "start": load.start, "first-due": load.first_due}
        command = [text for name, value in (options | {"core": cores[0]}).items() for text in (f"--{name}", str(value))]
        with service.process(command, log) as coordinator:
            uri = idle.wait_for_line(log, "lakeward is ready: ", seconds=300).split(": ")[1].strip()
            time.sleep(max(0.0, load.start - time.time()))
            os.sched_setaffinity(0, {cores[-1]})
            gc.collect()
            gc.freeze()  # a pause of this process would count as the coordinator's
            window = asyncio.run(drive(uri, cluster, load, coordinator.pid))
            gc.unfreeze()
        os.sched_setaffinity(0, set(cores))
    return window.measured, figures_of(load, window)


def targets(figures: Figures) -> str:
    """`met` if a run kept all targets, else `missed`; `not measured` if it gave out nothing."""
    out_of_order = figures["given_out_of_order_seconds"]
    if figures["starved_tables"] or (out_of_order is not None and out_of_order > ORDER_SECONDS):
        return "missed"
    return verdict(figures["assignment_p99_ms"], ASSIGNMENT_TARGET_MS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--tierers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--queue-seconds", type=float, default=40.0, help="of the runs that do not drain the queue")
    parser.add_argument("--rounds-per-second", type=float, default=50.0, help="of the steady load")
    parser.add_argument("--steady", type=float, default=60.0, help="seconds of it")
    parser.add_argument("--work", type=Path, help="folder for the stores; default: a temporary one")
    arguments = parse(parser, tables=20, tierers=[1, 2], queue_seconds=5.0, rounds_per_second=5.0, steady=5.0)
    before, runs = os.getloadavg()[0], dict[str, Figures]()
    loads = [partial(due_at_once, arguments, tierers) for tierers in arguments.tierers] + [partial(steady, arguments)]
    for make_load in loads:
        load = make_load()
        measured, runs[load.name] = measure(load, arguments.work)
        print(f"{load.name}: {json.dumps({name: rounded(value, 3) for name, value in runs[load.name].items()})}", flush=True)
        for error in dict.fromkeys(measured.errors[:5]):
            print(f"a call failed: {error}")
    report = [{"run": run, **{name: rounded(value, 3) for name, value in figures.items()}} for run, figures in runs.items()]
    finish({"bench": "many_tierers", "tables": arguments.tables, "runs": report}, lambda: show(runs, before))


def show(runs: dict[str, Figures], load_before: float) -> None:
    """A column a run, and the targets."""
    table = Table("figure", *runs)
    for name in next(iter(runs.values())):
        table.add_row(name.replace("_", " "), *(shown(figures[name], 2) for figures in runs.values()))
    Console().print(table)
    verdicts = ", ".join(f"{run}: {targets(figures)}" for run, figures in runs.items())
    print(f"targets: {verdicts}; load before {load_before:.1f}, after {os.getloadavg()[0]:.1f} (1 min)")


if __name__ == "__main__":
    main()
