"""Measures what TLS, a token and policies add to a heartbeat that the coordinator answers at once.

    PYTHONPATH=bench .venv/bin/python bench/access/heartbeat.py

Two real coordinator processes, one plain and one secured, and a connection to each; heartbeats go to them in turn, every other time in the
opposite order (A B, B A). Medians and 99th percentiles of 1,500 each, after some that warm all up. Prints a table; the last line is one
JSON object. Target: at most 10 % at the median.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import idle
import running.tests_path  # noqa: F401  # what is imported next needs it
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse
from running.secured_service import overhead, secured_service

from tiering.access.client_access import ClientAccess
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorStub
from tiering.wire.channel import Connection

WARM_UP = 200


def tierer(stack: ExitStack, folder: Path, options: tuple[str, ...], access: ClientAccess | None) -> Callable[[int], float]:
    """Milliseconds of a heartbeat with that number to a coordinator of its own."""
    folder.mkdir()
    log = folder / "coordinator.out"
    arguments = ("--data", str(folder / "data"), "--port", "0", "--log-level", "warning", *options)
    stack.enter_context(idle.process("coordinator", *arguments, log=log))
    uri = idle.wait_for_line(log, "lakeward is ready: ").split(": ")[1].strip()
    connection = stack.enter_context(Connection(uri, access))
    return partial(beat, TieringCoordinatorStub(connection.channel))


def beat(stub: Any, number: int) -> float:
    """Heartbeat of a tierer without work: it requests a table, and does not wait for one."""
    known = pb.PbTierer(tierer_id="bench", sequence=number, started_at_ms=1, incarnation="bench", slots=4)
    request = pb.LakeTieringHeartbeatRequest(tierer=known, request_table=True, max_wait_ms=0)
    start = time.perf_counter()
    stub.LakeTieringHeartbeat(request)
    return (time.perf_counter() - start) * 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1_500, help="heartbeats to each that count")
    arguments = parse(parser, times=20)
    taken: dict[str, list[float]] = {"plain": [], "secured": []}
    with tempfile.TemporaryDirectory() as work, ExitStack() as stack:
        secured = secured_service(Path(work))
        tierers = {
            "plain": tierer(stack, Path(work, "plain"), (), None),
            "secured": tierer(stack, Path(work, "secured"), secured.options, secured.access),
        }
        for number in range(1, WARM_UP + arguments.times + 1):
            for name in reversed(tierers) if number % 2 else tierers:
                spent = tierers[name](number)
                if number > WARM_UP:
                    taken[name].append(spent)
    p50 = {name: statistics.median(times) for name, times in taken.items()}
    p99 = {name: sorted(times)[-(-len(times) * 99 // 100) - 1] for name, times in taken.items()}
    added = {"p50": overhead(p50["plain"], p50["secured"]), "p99": overhead(p99["plain"], p99["secured"])}
    table = Table("heartbeat", "plain ms", "secured ms", "overhead")
    for name, quantile in (("p50", p50), ("p99", p99)):
        table.add_row(name, f"{quantile['plain']:.2f}", f"{quantile['secured']:.2f}", f"{added[name]:+.1f} %")
    figures = {f"{service}_{name}_ms": round(quantile[service], 3) for name, quantile in (("p50", p50), ("p99", p99)) for service in taken}
    overheads = {f"{name}_overhead": round(percent, 1) for name, percent in added.items()}
    finish({"bench": "heartbeat", "times": arguments.times, **figures, **overheads}, lambda: Console().print(table))


if __name__ == "__main__":
    sys.exit(main())
