"""A table that gets a commit every 10 s, round after round: what it costs to write, to keep and to read, the older it gets.

    .venv/bin/python bench/aging.py --rounds 2000 [--format iceberg] [--layout clean] [--kind log] [--rows 100] [--buckets 4] [--with-spark]

Each kind of table (format, layout, log or primary key) has its own embedded cluster, coordinator and lake, all in this process. Rounds are
those of a tierer and run inline. The clock skips the time between them, so 8,640 rounds are a day of snapshots; rows are written and the
coordinator's background work is done outside of the time of a round: it looks at the table's health after each round, gives out upkeep
rounds when it wants any, and sweeps every 10 minutes. A round of a log table adds --rows rows; one of a primary-key table
updates so many of its --keys keys and deletes 5 % of these instead.

Printed at rounds 50, 100, 200, 500, ...
- medians of the last 50 rounds, and their ratio to the first line's: time, and CPU time of the process. The ratio of CPU times counts them
  in units of a fixed loop that runs before and after each round: the speed of a virtual machine changes by half within seconds. Of the
  time, reading the cluster's own log, which grows as well; a SELECT on sys.lake_tiering_status
- files, delete files and manifests of the head, and snapshots, as the format's library tells them; a data file below 0.75 of the target
  size is small; metadata files (metadata.json, snapshots), and the bytes of all metadata on disk
- bytes of data and delete files that were written, by rounds with rows and in all, and `upkeep`: those beyond the bytes of the rows
  themselves, in units of the latter, which are plain Parquet files, one a round and bucket
- `share`: of the CPU time of all rounds so far, that of upkeep rounds, and what rounds that also rewrite files take beyond the others

At the end: full scans beside a compacted copy, which the format's library writes. The lake must hold exactly the rows that were written.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import running.tests_path  # noqa: F401  # what is imported next needs it
import structlog
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse
from upkeep.checkpoints import MB, AgedTable, Aging, Checkpoint, say_progress
from upkeep.copies import write_copy
from upkeep.rows import SCHEMA, KeyWorkload, LogWorkload, Workload, check_rows
from upkeep.scans import read, readers, scan_seconds
from upkeep.spark_scans import spark_scan_seconds
from upkeep.targets import targets_of
from upkeep.world import FRESHNESS_S, AgingWorld

from support.lake_kinds.kinds import LakeKind
from tiering.lake.layouts import Layout
from tiering.model.tables import TableInfo

BOTH = "both"
LOG, PRIMARY_KEY = "log", "primary-key"
CORES = os.cpu_count() or 1
TIME_COLUMNS = ("rounds", "ms", "ratio", "CPU ms", "CPU ratio", "log ms", "sys ms")
FILE_COLUMNS = ("data files", "small", "deletes", "manifests", "snapshots", "meta files", "meta MB")
WRITTEN_COLUMNS = ("round MB", "all MB", "upkeep", "share")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--format", choices=("iceberg", "paimon", BOTH), default=BOTH)
    parser.add_argument("--layout", choices=("clean", "system-columns", BOTH), default=BOTH)
    parser.add_argument("--kind", choices=(LOG, PRIMARY_KEY, BOTH), default=BOTH)
    parser.add_argument("--rows", type=int, default=100, help="of a round")
    parser.add_argument("--keys", type=int, default=10_000, help="of a primary-key table")
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--every", type=float, default=FRESHNESS_S, help="simulated seconds between two rounds, at least the freshness")
    parser.add_argument("--appends", type=int, default=1, help="in which a round's rows of a log table come; each goes to the next bucket")
    parser.add_argument("--times", type=int, default=3, help="scans of each table; their median counts")
    parser.add_argument("--with-spark", action="store_true", help="also scans by Spark, which reads Iceberg tables alone")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parse(parser, rounds=4, rows=20, keys=100, buckets=2, times=1, layout="clean")
    if min(arguments.rounds, arguments.rows, arguments.keys, arguments.buckets, arguments.appends, arguments.times) < 1:
        parser.error("rounds, rows, keys, buckets, appends and times are at least 1")
    if arguments.every < FRESHNESS_S:
        parser.error(f"rounds are at least {FRESHNESS_S} s apart")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))  # as a service, no line a step
    tables = [measure(kind, lake, arguments) for kind, lake in kinds(arguments)]
    report = {"bench": "aging", "cores": CORES, "freshness_s": FRESHNESS_S, "rounds": arguments.rounds, "rows": arguments.rows}
    report["every_s"] = arguments.every
    finish({**report, "load": os.getloadavg()[0], "tables": [as_json(table) for table in tables]}, lambda: show(tables, arguments))


def kinds(arguments: argparse.Namespace) -> Iterator[tuple[str, LakeKind]]:
    """The kinds of tables that the command line names."""

    def named(value: str, all_values: Sequence[str]) -> Sequence[str]:
        return all_values if value == BOTH else (value,)

    formats, layouts = named(arguments.format, ("iceberg", "paimon")), named(arguments.layout, ("clean", "system-columns"))
    for lake_format, layout, kind in itertools.product(formats, layouts, named(arguments.kind, (LOG, PRIMARY_KEY))):
        yield kind, LakeKind(lake_format, Layout(layout))


def measure(kind: str, lake: LakeKind, arguments: argparse.Namespace) -> AgedTable:
    """Ages a new table of this kind, checks its rows and scans it."""
    name = f"{lake.format}, {lake.layout}, {kind}"
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        world = AgingWorld(Path(folder) / "data", lake)
        try:
            table, workload = make_table(world, kind, arguments)
            aging = Aging(world, table, workload, arguments.every)
            aging.run(arguments.rounds, say_progress(name))
            aged = AgedTable(name, arguments.buckets, aging.checkpoints, aging.late_rounds, aging.upkeep_rounds)
            return with_scans(aged, world, table, workload, arguments)
        finally:
            world.close()


def make_table(world: AgingWorld, kind: str, arguments: argparse.Namespace) -> tuple[TableInfo, Workload]:
    """A new table in the cluster, and what writes its rows."""
    freshness = {"datalake_freshness": f"{FRESHNESS_S} s"}
    if kind == LOG:
        table = world.table("aging", arguments.buckets, schema=SCHEMA, **freshness)
        return table, LogWorkload(arguments.rows, arguments.appends, world.kind.format)
    table = world.primary_key_table("aging", arguments.buckets, schema=SCHEMA, key=("id",), **freshness)
    return table, KeyWorkload(arguments.keys, arguments.rows, arguments.buckets, world.kind.format)


def with_scans(aged: AgedTable, world: AgingWorld, table: TableInfo, workload: Workload, arguments: argparse.Namespace) -> AgedTable:
    """Compares the table with the rows that were written, and scans it beside its compacted copy."""
    expected, path = workload.expected(), table.path
    copy = write_copy(world, path)
    for reader, which in itertools.product(readers(world), (path, copy)):
        check_rows(read(world, which, reader), expected, f"{which}, read by {reader},")
    aged.rows = expected.num_rows
    aged.scans = scan_seconds(world, path, copy, arguments.times)
    if arguments.with_spark and world.kind.format == "iceberg":
        aged.scans["spark"] = spark_scan_seconds(world, path, copy, arguments.times)
    return aged


def as_json(table: AgedTable) -> dict[str, object]:
    """The figures of one table."""
    return {
        "kind": table.kind,
        "rows_at_the_end": table.rows,
        "upkeep_rounds": table.upkeep_rounds,
        "late_rounds": table.late_rounds,
        "checkpoints": [point.as_json() for point in table.checkpoints],
        "scans": {reader: {name: round(value, 4) for name, value in seconds.items()} for reader, seconds in table.scans.items()},
        "targets": {target.name: target.verdict for target in targets_of(table)},
    }


def show(tables: Sequence[AgedTable], arguments: argparse.Namespace) -> None:
    """Prints a table, its scans and its targets for each kind."""
    console = Console(width=180)
    for aged in tables:
        title = f"{aged.kind}: {arguments.rows} rows a round, {aged.buckets} buckets, a round every {arguments.every:g} s, {CORES} cores"
        table = Table(*TIME_COLUMNS, *FILE_COLUMNS, *WRITTEN_COLUMNS, title=title)
        for point in aged.checkpoints:
            table.add_row(*cells(point))
        console.print(table)
        for reader, seconds in aged.scans.items():
            figures = f"{seconds['aged']:.3f} s, of the compacted copy {seconds['compacted']:.3f} s, ratio {seconds['ratio']:.2f}"
            if "cpu_ratio" in seconds:
                figures += f"; of CPU time {seconds['cpu_ratio']:.2f}"
            console.print(f"scan of {aged.rows:,} rows by {reader}: {figures}", highlight=False)
        share = aged.checkpoints[-1].upkeep_share
        console.print(f"{aged.upkeep_rounds} upkeep rounds; upkeep takes {share:.0%} of the CPU time of all rounds", highlight=False)
        for target in targets_of(aged):
            console.print(target.line, highlight=False)


def cells(point: Checkpoint) -> Iterator[str]:
    """A line of the table."""
    health = point.health
    yield f"{point.round:,}"
    yield f"{point.round_ms:.0f}"
    yield f"{point.round_ratio:.2f}"
    yield f"{point.cpu_ms:.0f}"
    yield f"{point.cpu_ratio:.2f}"
    yield f"{point.log_ms:.0f}"
    yield f"{point.sys_ms:.1f}"
    for count in (health.data_files, health.small_files, health.delete_files, health.manifests, health.snapshots, point.metadata_files):
        yield f"{count:,}"
    for size in (point.metadata_bytes, point.written_by_rounds, point.written):
        yield f"{size / MB:.2f}"
    yield f"{point.upkeep_ratio:.2f}"
    yield f"{point.upkeep_share:.2f}"


if __name__ == "__main__":
    main()
