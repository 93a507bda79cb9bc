"""One bad table slows no other, in real time: 1,000 tables, of which 50 are poisoned in ten ways, a hanging catalog among them.

    .venv/bin/python bench/blast_radius.py --tables 1000 --minutes 15 [--upkeep --poisoned 0]

A real coordinator process (`scripted_service.py`) and real tierer processes (`poisoned_tierer.py`), cluster and lake in memory.
Freshness is 2 minutes, each table gets a row every 10 seconds. Two kinds of poison ask REST catalogs that accept a connection and never
answer, or answer a byte now and then; another keeps commits for two minutes, another lets the coordinator's own look at the lake hang.

A table's freshness is measured at each of its commits: the age of the oldest row that it brings. That of the healthy tables' p99 has to be
within the promise. `--poisoned 0` is the same without poison.

With `--upkeep` the same tierers also serve `--large-tables` tables of `--large-rows` rows each in 40 files of a real Iceberg lake,
whose health makes the coordinator give out upkeep rounds. Printed of them: files before and after, and upkeep rounds that committed.

Prints a table; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import idle
import poisoned_tierer
import pyarrow as pa
import scripted_service as service
from load import quantile
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse, rounded, shown, verdict
from running.processes import python_process
from upkeep.large_tables import LargeTables

from support.running.silent_servers import silent_server
from sys_tables.rpc.v1 import sys_catalog_pb2
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogStub
from tiering.wire.channel import Connection

ROW_SECONDS = 10.0
LOOK_SECONDS = 5.0
GIVE_UP_SECONDS = 300.0
"""How much longer a short run waits for its first commits."""


@dataclass(frozen=True)
class Upkept:
    """The large tables together: files, and snapshots by upkeep rounds."""

    files_before: int
    files_after: int
    rewrites: int


class LargeTablesBeside:
    """The large tables of one run; they are written when it begins."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self._tables = LargeTables(folder / "large", arguments.large_tables, arguments.large_rows)
        self._infos = self._tables.infos(arguments.tables, arguments.freshness, datetime.now(UTC))
        self._tables.write(self._infos, service.TickingCluster.cluster_id)
        self._before = sum(view.files or 0 for view in self._tables.views(self._infos))
        rows = ("--large-tables", str(arguments.large_tables), "--large-rows", str(arguments.large_rows))
        self.options = ("--large-lake", str(folder / "large"), *rows)

    def look(self) -> Upkept:
        """Raises SystemExit if rows are missing: a benchmark of a wrong answer is worth nothing."""
        views = self._tables.views(self._infos)
        if any(view.records != self._tables.rows for view in views):
            raise SystemExit("a large table has not the rows that were written")
        rewrites = sum(snapshot.operation == "replace" for view in views for snapshot in view.snapshots.values())
        return Upkept(self._before, sum(view.files or 0 for view in views), rewrites)


def run(arguments: argparse.Namespace, folder: Path) -> tuple[list[tuple[int, float]], Counter[str], Upkept | None]:
    """The peaks of all tables, how many tables fail with which error at the end, and the large tables then."""
    large = LargeTablesBeside(arguments, folder) if arguments.upkeep else None
    poisons = poisoned_tierer.poisons(arguments.tables, arguments.poisoned)
    hanging = [str(table_id) for table_id, kind in poisons.items() if kind == poisoned_tierer.ACK_HANGS]
    common = ["--tables", str(arguments.tables), "--freshness", str(arguments.freshness), "--row-seconds", str(ROW_SECONDS)]
    common += ["--start", str(time.time()), *(() if large is None else large.options)]
    with ExitStack() as stack:
        ports = [stack.enter_context(silent_server(drip)) for drip in (b"", b" ")]
        log = folder / "service.log"
        stack.enter_context(service.process(["--store", str(folder), *common, "--hanging", *hanging], log))
        uri = idle.wait_for_line(log, "lakeward is ready: ", seconds=300).split(": ")[1].strip()
        for number in range(arguments.tierers):
            own = ["--uri", uri, "--name", f"tierer-{number}", "--slots", str(arguments.slots), "--poisoned", str(arguments.poisoned)]
            hangs = ["--silent-port", str(ports[0]), "--dripping-port", str(ports[1])]
            command = [poisoned_tierer.__file__, *own, *common, *hangs]
            stack.enter_context(python_process(*command, log=folder / f"tierer-{number}.log"))
        connection = stack.enter_context(Connection(uri))
        peaks, end = list[tuple[int, float]](), time.monotonic() + arguments.minutes * 60
        while time.monotonic() < end or (_is_early(peaks, large) and time.monotonic() < end + GIVE_UP_SECONDS):
            time.sleep(LOOK_SECONDS)
            peaks += service.ask_lake(connection.channel, "Peaks")
        return peaks, failing(SysCatalogStub(connection.channel)), None if large is None else large.look()


def _is_early(peaks: Sequence[tuple[int, float]], large: LargeTablesBeside | None) -> bool:
    """Whether a run that is over has not shown anything yet."""
    return len(peaks) < 2 or (large is not None and large.look().rewrites == 0)


def failing(stub: Any) -> Counter[str]:
    """Tables by the class of their latest error."""
    request = sys_catalog_pb2.ReadTableRequest(namespace="sys", name="lake_tiering_status", columns=["error_class"], null_columns=True)
    rows = pa.ipc.open_stream(b"".join(answer.arrow for answer in stub.ReadTable(request))).read_all().column("error_class").to_pylist()
    return Counter(error_class for error_class in rows if error_class is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--poisoned", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--freshness", type=float, default=120.0, help="seconds; a row comes every ten")
    parser.add_argument("--tierers", type=int, default=2)
    parser.add_argument("--slots", type=int, default=4, help="of each tierer")
    parser.add_argument("--work", type=Path, help="folder for the store; default: a temporary one")
    parser.add_argument("--upkeep", action="store_true", help="also large tables that need upkeep")
    parser.add_argument("--large-tables", type=int, default=4)
    parser.add_argument("--large-rows", type=int, default=10_000_000, help="of each")
    smoke = {"tables": 20, "poisoned": 10, "minutes": 0.3, "freshness": 5.0, "tierers": 1}
    arguments = parse(parser, **smoke, upkeep=True, large_tables=1, large_rows=2_000)
    poisoned = poisoned_tierer.poisons(arguments.tables, arguments.poisoned).keys()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        peaks, errors, upkept = run(arguments, Path(folder))
    healthy = [age for table_id, age in peaks if table_id not in poisoned]
    figures: dict[str, float | None] = {
        "commits": len(healthy),
        "tables_that_committed": len({table_id for table_id, _ in peaks if table_id not in poisoned}),
        **{f"freshness_p{percent}_s": quantile(healthy, percent) for percent in (50, 95, 99)},
        "freshness_max_s": max(healthy, default=None),
        "commits_beyond_the_promise": sum(age > arguments.freshness for age in healthy),
    }
    report = {name: rounded(value) for name, value in figures.items()}
    report = {"bench": "blast_radius", "tables": arguments.tables, "poisoned": arguments.poisoned, **report, "errors": errors}
    if upkept is not None:
        report |= {"large_tables": arguments.large_tables, "large_rows": arguments.large_rows, "upkeep": asdict(upkept)}
    finish(report, lambda: show(figures, errors, upkept, arguments.freshness, before))


def show(figures: dict[str, float | None], errors: Counter[str], upkept: Upkept | None, freshness: float, load_before: float) -> None:
    """The figures of the healthy tables, the errors of the poisoned ones, and the large tables."""
    table = Table("of healthy tables", "value")
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), shown(value))
    Console().print(table)
    print("tables that fail, by error: " + ", ".join(f"{name} {count}" for name, count in sorted(errors.items())))
    if upkept is not None:
        files = f"{upkept.files_before} files before, {upkept.files_after} after"
        print(f"upkeep of the large tables: {files}; {upkept.rewrites} upkeep rounds committed")
    print(f"the promise of {freshness:g} s is {verdict(figures['freshness_p99_s'], freshness)}")
    print(f"load before {load_before:.1f}, after {os.getloadavg()[0]:.1f} (1 min)")


if __name__ == "__main__":
    main()
