"""Pages of the console over 10,000 tables, from the request to the last byte of the page.

    .venv/bin/python bench/console_pages.py --tables 10000

A real coordinator process and a real `lakeward console`; the pages are read over HTTP, one after the other, in turn; medians. The target is
300 ms for the first page, in service and console together. The first page is also timed before all others: that read makes its columns.
`shipped_bytes` is the size of the files that a browser gets besides the page. Prints a table; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import httpx2
import running.tests_path  # noqa: F401  # what is imported next needs it
from rich.console import Console as Terminal
from rich.table import Table
from running.figures import finish, parse, verdict
from sys_query import coordinator

from support.console.browser import console

TARGET_MS = 300.0
FIRST = "first page"
STATIC = Path(__file__).parents[1] / "sys_tables" / "console" / "static"


def pages(tables: int) -> dict[str, str]:
    """Returns the measured pages by their names."""
    return {
        FIRST: "/",
        "last page": f"/?sort=name&page={max(tables // 50, 1)}",
        "search": "/?q=t00000",
        "sorted by lag": "/?sort=lag",
        "tables with a broken promise": f"/?promise={quote('broken')}",
        "page of a table": "/tables/idle/t00000",
        "events": "/system/tiering_events",
    }


def milliseconds(browser: httpx2.Client, address: str) -> float:
    """Reads a page to its last byte."""
    start = time.perf_counter()
    browser.get(address).raise_for_status()
    return (time.perf_counter() - start) * 1_000


def measure(browser: httpx2.Client, addresses: dict[str, str], times: int) -> dict[str, float]:
    """Returns the median of each page, in milliseconds."""
    taken: dict[str, list[float]] = {name: [] for name in addresses}
    for _ in range(times):
        for name, address in addresses.items():
            taken[name].append(milliseconds(browser, address))
    return {name: round(statistics.median(values), 1) for name, values in taken.items()}


def main() -> None:
    """Runs the bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=20, help="reads of each page")
    options = parse(parser, tables=60, times=2)
    with (
        tempfile.TemporaryDirectory() as folder,
        coordinator(Path(folder), options.tables) as uri,
        console(uri, Path(folder) / "console.log") as running,
        httpx2.Client(base_url=running.root, timeout=120) as browser,
    ):
        browser.post(running.link)
        cold_ms = milliseconds(browser, "/")
        medians = measure(browser, pages(options.tables), options.times)
    figures = {
        "bench": "console_pages",
        "tables": options.tables,
        "cold_first_page_ms": round(cold_ms, 1),
        "pages_ms": medians,
        "shipped_bytes": sum(file.stat().st_size for file in STATIC.rglob("*.*") if file.suffix in (".js", ".css", ".svg")),
        "load": os.getloadavg()[0],
    }

    def show() -> None:
        table = Table("page", "ms", title=f"{options.tables:,} tables")
        for name, value in {f"{FIRST}, cold": round(cold_ms, 1), **medians}.items():
            table.add_row(name, f"{value:,.1f}")
        Terminal().print(table)
        print(f"target of {TARGET_MS:.0f} ms for the first page: {verdict(medians[FIRST], TARGET_MS)}")

    finish(figures, show)


if __name__ == "__main__":
    main()
