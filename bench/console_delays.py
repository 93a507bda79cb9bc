"""Measures how soon the console of a service shows something: its first page after `lakeward up`, and a commit on the page of its table.

    .venv/bin/python bench/console_delays.py

A real `lakeward up` with one table. The browser is an HTTP client: it follows the stream of the page, and reads the page again at each
change, as the console's script does. A commit is on the page when the page has the id of its lake snapshot; the delay counts from the time
at which the lake had the commit. Prints a table; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse, verdict
from running.processes import python_process

from sys_tables.catalog_client import SystemCatalog
from tiering.cli.service_cluster import writable_cluster
from tiering.client import LakewardClient
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
ROWS = pa.table({"id": pa.array(range(100), pa.int64())})
TARGET_SECONDS = 1.0
GIVE_UP_SECONDS = 300.0


class LivePage:
    """A page that is read again at each change."""

    def __init__(self, browser: httpx2.Client, path: str) -> None:
        self._browser = browser
        self._path = path
        self.reads: list[tuple[datetime, str]] = []
        threading.Thread(target=self._follow, daemon=True).start()

    def shown_at(self, text: str) -> datetime:
        """When the page had the text first; waits for it."""
        end = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < end:
            for moment, page in list(self.reads):
                if text in page:
                    return moment
            time.sleep(0.01)
        raise SystemExit(f"the page never had {text!r}")

    def _follow(self) -> None:
        # The client is closed at the end of the bench.
        with suppress(RuntimeError, httpx2.HTTPError), self._browser.stream("GET", "changes", timeout=None) as stream:
            for line in stream.iter_lines():
                if line == "event: changed":
                    page = self._browser.get(self._path).text
                    self.reads.append((datetime.now(UTC), page))


@contextmanager
def service(folder: Path) -> Iterator[tuple[str, str, float, float]]:
    """Runs `lakeward up`; its uri, a sign-in link, and the seconds from the start to the link and to readiness."""
    log, start = folder / "up.out", time.monotonic()
    arguments = ("-m", "tiering.cli.main", "up", "--data", str(folder / "data"), "--port", "0", "--master", "local[1]")
    with python_process(*arguments, log=log):
        ready = None
        while ready is None:
            if time.monotonic() - start > GIVE_UP_SECONDS:
                raise SystemExit(log.read_text()[-2_000:])
            time.sleep(0.02)
            ready = re.search(r"^lakeward is ready: (\S+)$", log.read_text(), re.MULTILINE)
        ready_seconds = time.monotonic() - start
        with SystemCatalog(ready[1]) as catalog:
            link = catalog.console_link()
        assert link is not None
        yield ready[1], link, ready_seconds, start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=20)
    arguments = parse(parser, commits=2)
    with (
        tempfile.TemporaryDirectory(prefix="lakeward-console-") as folder,
        service(Path(folder)) as (uri, link, ready_seconds, start),
        httpx2.Client(base_url=link.partition("/sign-in")[0] + "/", timeout=60) as browser,
    ):
        browser.post(link)
        page_start = time.monotonic()
        browser.get("").raise_for_status()
        first_page_seconds, page_seconds = time.monotonic() - start, time.monotonic() - page_start
        delays = commit_delays(uri, browser, arguments.commits)
    figures = {
        "bench": "console_delays",
        "ready_seconds": round(ready_seconds, 2),
        "first_page_seconds": round(first_page_seconds, 2),
        "first_page_request_seconds": round(page_seconds, 3),
        "commits": len(delays),
        "commit_to_page_median_seconds": round(statistics.median(delays), 3),
        "commit_to_page_max_seconds": round(max(delays), 3),
    }
    finish(figures, lambda: show(figures, max(delays)))


def commit_delays(uri: str, browser: httpx2.Client, commits: int) -> list[float]:
    """Seconds from each commit to the page of the table with it."""
    with writable_cluster(uri) as cluster, LakewardClient(uri) as client, SystemCatalog(uri) as catalog:
        cluster.create_database(ORDERS.database_name, ignore_if_exists=True)
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 h"}
        cluster.create_table(ORDERS, TableSpec(ROWS.schema, 1, properties=properties))
        writer = LogWriter(cluster, ORDERS, "bench")
        live = LivePage(browser, f"tables/{ORDERS.database_name}/{ORDERS.table_name}")
        for _ in range(commits):
            writer.append(ROWS)
            client.tier_table(ORDERS)
        rows = catalog.read("lake_commits", ["lake_snapshot_id", "lake_committed_at"], newest_by="lake_committed_at", limit=commits)
        shown = [live.shown_at(str(row["lake_snapshot_id"])) - row["lake_committed_at"] for row in rows]
    return [delay.total_seconds() for delay in shown]


def show(figures: dict[str, object], slowest: float) -> None:
    table = Table("figure", "value")
    for name, value in figures.items():
        table.add_row(name, str(value))
    table.add_row(f"a commit is on its page within {TARGET_SECONDS:g} s", verdict(slowest, TARGET_SECONDS))
    Console().print(table)


if __name__ == "__main__":
    main()
