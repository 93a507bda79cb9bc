"""How many rounds a second one coordinator hands out as tierers are added: many tables, all due at once, and then a steady load.

    .venv/bin/python bench/many_tierers.py --tables 10000 --tierers 1 2 4 8

For each number of tierers a coordinator of its own (`scripted_service.py`: real server, background and SQLite store, on one core; cluster
and lake in memory, with real markers) and that many scripted tierers of 4 slots, on the other core, whose rounds take 50 to 600 ms. All
tables are due at the start, with deadlines that lie apart in the past: how fast the queue drains is the throughput, and the order in
which tables are given out is compared with their deadlines. From then on each table is due again after its freshness, so that `--rounds-
per-second` are asked for, for `--steady` seconds.

Targets: an answer that gives a table out p99 < 50 ms, as the tierer sees it; no table waits longer for its first round than the queue
takes to drain, and none is given out before one whose deadline lay more than `ORDER_SECONDS` before; throughput grows with the tierers
until the coordinator's core is full. Prints a table; the last line is one JSON object.
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
from datetime import UTC, datetime
from pathlib import Path

import grpc.aio
import idle
import scripted_service as service
from load import Measured, ScriptedTierer, quantile
from rich.console import Console
from rich.table import Table

ROW_SECONDS = 10.0
GIVE_UP_SECONDS = 1_200.0
ASSIGNMENT_TARGET_MS = 50.0
ORDER_SECONDS = 1.0
"""Tables become due a tick at a time, and a tierer asks for the next while the last tick is worked on."""


def late_in_order(order: Sequence[int], deadlines: dict[int, float]) -> float:
    """The most seconds by which a table was given out after one of a later deadline."""
    worst, latest = 0.0, float("-inf")
    for table_id in order:
        latest = max(latest, deadlines[table_id])
        worst = max(worst, latest - deadlines[table_id])
    return worst


async def drive(
    uri: str, cluster: service.TickingCluster, tierers: int, tables: int, steady: float, pid: int
) -> tuple[Measured, dict[str, float]]:
    """All tierers until each table had a round, and for the steady time after it; what the two phases were."""
    measured = Measured()
    channels = [grpc.aio.insecure_channel(uri) for _ in range(min(tierers, 4))]
    began, cpu = time.perf_counter(), idle.cpu_seconds(pid)
    tasks = [
        asyncio.ensure_future(
            ScriptedTierer(f"tierer-{number}", channels[number % len(channels)], cluster, measured, random.Random(number), 0.0).run()
        )
        for number in range(tierers)
    ]
    while len({table_id for table_id, *_ in measured.assigned}) < tables:
        await asyncio.sleep(0.25)
        if broken := [task for task in tasks if task.done()]:
            broken[0].result()
        if time.perf_counter() - began > GIVE_UP_SECONDS:
            raise TimeoutError(f"only {len(measured.assigned)} of {tables} tables had a round")
    drained, drained_cpu = time.perf_counter(), idle.cpu_seconds(pid)
    await asyncio.sleep(steady)
    ended, ended_cpu = time.perf_counter(), idle.cpu_seconds(pid)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for channel in channels:
        await channel.close()
    rounds = sum(1 for at in measured.ended if at > drained)
    return measured, {
        "drain_seconds": drained - began,
        "drain_rounds_a_second": sum(1 for at in measured.ended if at <= drained) / (drained - began),
        "drain_cpu_share": (drained_cpu - cpu) / (drained - began),
        "steady_rounds_a_second": rounds / max(ended - drained, 1e-9),
        "steady_cpu_share": (ended_cpu - drained_cpu) / max(ended - drained, 1e-9),
    }


def figures_of(measured: Measured, deadlines: dict[int, float]) -> dict[str, float]:
    """Of the whole run."""
    first = list(dict.fromkeys(table_id for table_id, *_ in measured.assigned))
    answers = [took for *_, took in measured.assigned if took is not None]
    return {
        **{f"assignment_p{percent}_ms": quantile(answers, percent) for percent in (50, 95, 99)},
        "heartbeat_p99_ms": quantile(measured.heartbeat_ms, 99),
        "given_out_late_seconds": late_in_order(first, deadlines),
        "errors_of_calls": len(measured.errors),
    }


def measure(arguments: argparse.Namespace, tierers: int) -> tuple[Measured, dict[str, float]]:
    """One coordinator with so many tierers."""
    cores = sorted(os.sched_getaffinity(0))
    freshness = arguments.tables / arguments.rounds_per_second
    start = time.time() - ROW_SECONDS
    first_due = -2 * freshness  # the last one is due a freshness later
    due = datetime.fromtimestamp(start + first_due, UTC)
    infos = service.infos(arguments.tables, freshness, due)
    cluster = service.TickingCluster(infos, datetime.fromtimestamp(start, UTC), ROW_SECONDS)
    deadlines = {info.table_id: info.created_at.timestamp() + freshness for info in infos}
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        log = Path(folder) / "service.log"
        options = {"store": folder, "tables": arguments.tables, "freshness": freshness, "start": start, "first-due": first_due}
        command = [text for name, value in (options | {"core": cores[0]}).items() for text in (f"--{name}", str(value))]
        with service.process(command, log) as coordinator:
            uri = idle.wait_for_line(log, "lakeward is ready: ", seconds=300).split(": ")[1].strip()
            os.sched_setaffinity(0, {cores[-1]})
            gc.collect()
            gc.freeze()  # a pause of this process would count as the coordinator's
            measured, phases = asyncio.run(drive(uri, cluster, tierers, arguments.tables, arguments.steady, coordinator.pid))
        os.sched_setaffinity(0, set(cores))
    return measured, {"tierers": tierers, **phases, **figures_of(measured, deadlines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--tierers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds-per-second", type=float, default=50.0, help="of the steady load")
    parser.add_argument("--steady", type=float, default=60.0, help="seconds of it")
    parser.add_argument("--work", type=Path, help="folder for the stores; default: a temporary one")
    arguments = parser.parse_args()
    before = os.getloadavg()[0]
    all_figures = []
    for tierers in arguments.tierers:
        measured, figures = measure(arguments, tierers)
        all_figures.append(figures)
        for error in dict.fromkeys(measured.errors[:5]):
            print(f"a call failed: {error}")
    table = Table("figure", *(f"{tierers} x 4" for tierers in arguments.tierers))
    for name in list(all_figures[0])[1:]:
        table.add_row(name.replace("_", " "), *(f"{figures[name]:,.2f}" for figures in all_figures))
    Console().print(table)
    kept = all(
        figures["assignment_p99_ms"] < ASSIGNMENT_TARGET_MS and figures["given_out_late_seconds"] <= ORDER_SECONDS
        for figures in all_figures
    )
    print(f"targets {'met' if kept else 'MISSED'}; load before {before:.1f}, after {os.getloadavg()[0]:.1f} (1 min)")
    rounded = [{name: round(value, 3) for name, value in figures.items()} for figures in all_figures]
    print(json.dumps({"bench": "many_tierers", "tables": arguments.tables, "runs": rounded}))


if __name__ == "__main__":
    main()
