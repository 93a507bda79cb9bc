"""Measures the cost of the checksum of rows in a clean lake table, beside the Parquet that its round writes: in seconds of one core.

    PYTHONPATH=bench .venv/bin/python bench/validation/row_checksum.py [--rows 600000] [--table flights --table lineitem] [--columns]

A core's seconds count, not those on the clock, so other work on the machine matters less. They are for 20,000,000 rows, from the fastest of
some runs. `--columns` adds each column alone, including the mix of the whole row. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rounds.ceiling import BucketFile, ParquetStyle
from rounds.sources import SOURCES
from running.figures import finish, parse

from tiering.lake.layouts import Layout
from tiering.lake.proof.row_checksum import row_checksum

PER_ROWS = 20_000_000
RUNS = 5


def core_seconds(work: Callable[[], object], rows: int) -> float:
    """For `PER_ROWS` rows, of `work` that does `rows`."""
    fastest = float("inf")
    for _ in range(RUNS):
        start = time.process_time()
        work()
        fastest = min(fastest, time.process_time() - start)
    return fastest * PER_ROWS / rows


def written(rows: pa.Table, folder: Path) -> int:
    """How many rows a Parquet file has as a round of a clean Iceberg table writes it."""
    file = BucketFile(0, str(folder / "rows.parquet"), ParquetStyle("iceberg", Layout.CLEAN))
    file.add(rows)
    return file.close()


def measure(name: str, count: int, by_column: bool, folder: Path) -> dict[str, float]:
    """Core seconds of the checksum and of the Parquet, and of the checksum of each column."""
    rows = pa.Table.from_batches(list(SOURCES[name].batches(count, folder)))
    seconds = {"checksum": core_seconds(lambda: row_checksum(rows), rows.num_rows)}
    seconds["parquet"] = core_seconds(lambda: written(rows, folder), rows.num_rows)
    for column in rows.column_names if by_column else ():
        alone = rows.select([column])
        seconds[column] = core_seconds(lambda alone=alone: row_checksum(alone), rows.num_rows)  # type: ignore[misc]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--table", choices=sorted(SOURCES), action="append", help="repeat it for several; default: all")
    parser.add_argument("--columns", action="store_true", help="each column, too")
    arguments = parse(parser, rows=20_000, table=["flights"])
    table, figures = Table("table", "what", "core seconds", title=f"For {PER_ROWS:,} rows"), {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.table or sorted(SOURCES):
            figures[name] = measure(name, arguments.rows, arguments.columns, Path(folder))
            for work, seconds in figures[name].items():
                table.add_row(name, work, f"{seconds:.2f}")
    rounded = {name: {work: round(seconds, 3) for work, seconds in of_table.items()} for name, of_table in figures.items()}
    finish({"bench": "row_checksum", "rows": PER_ROWS, "core_seconds": rounded}, lambda: Console(width=100).print(table))


if __name__ == "__main__":
    main()
