"""Whether the time of an answer tells that a hidden table exists: every call that names a table, of a hidden and of an unknown one.

    PYTHONPATH=bench .venv/bin/python bench/access/hidden_tables.py --calls 1000
    PYTHONPATH=bench .venv/bin/python bench/access/hidden_tables.py --calls 1000 --only GetTable,pause_tiering

A real coordinator, called over gRPC by a user who may do everything with the database `sales` but for one table in it, and nothing with
the database `hr`. What the console reads for its pages is among the calls (`--only console`). Calls alternate, so that what else the
machine does meets both alike: hidden and unknown in a database that the caller knows, then the same in a database that is hidden and in one
that is not there. Prints the medians in microseconds, with the differences in per cent, and one JSON object as its last line. Also checks
that both answers have the same text.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import running.tests_path  # noqa: F401  # what is imported next needs it
import structlog
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse

from support.services.guarded_service import guarded_service
from support.services.naming_calls import NO_TABLE_ID, PAIRS, POLICIES, Call, Named, naming_calls, without_names
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console import overview
from sys_tables.console.overview import Search, table_names
from sys_tables.console.query import Query, newest_first
from sys_tables.console.reader import Reader
from sys_tables.console.views.table_page import table_page
from sys_tables.registry import default_registry
from tiering.errors import UnknownTable
from tiering.model.tables import TablePath

WARM_UP = 20


def compare(call: Call, hidden: Named, unknown: Named, repeats: int) -> dict[str, Any]:
    """Medians of both in microseconds, and whether the answers are the same but for the names asked for."""
    times: dict[Named, list[int]] = {hidden: [], unknown: []}
    texts: dict[Named, set[str]] = {hidden: set(), unknown: set()}
    for number in range(WARM_UP + repeats):
        for named in (hidden, unknown) if number % 2 else (unknown, hidden):
            start = time.perf_counter_ns()
            text = call(named)
            times[named].append(time.perf_counter_ns() - start)
            texts[named].add(without_names(text, named))
    medians = [statistics.median(times[named][WARM_UP:]) / 1_000 for named in (hidden, unknown)]
    return {
        "hidden_us": round(medians[0]),
        "unknown_us": round(medians[1]),
        "difference_percent": round((medians[0] / medians[1] - 1) * 100, 1),
        "same_text": texts[hidden] == texts[unknown],
        "text": sorted(texts[hidden])[0][:200],
    }


def console_pages(reader: Reader) -> Iterator[tuple[str, Call]]:
    """Yields what the console reads for a page about a table, for a search, for suggestions and for a list of events."""
    events = Query("tiering_events", tuple(reader.all_columns("tiering_events")), (), newest_first("event_id"), 100)

    def page(named_table: Named) -> str:
        try:
            return str(table_page(reader, named_table[0].database_name, named_table[0].table_name))
        except UnknownTable as error:
            return f"{error.message} {error.hint}"

    yield "console table", page
    yield "console search", lambda table: str(reader.rows(Search(text=str(table[0])).query()))
    yield "console suggestions", lambda table: str(table_names(reader, str(table[0]), "OPERATE"))
    yield "console events", lambda table: str(reader.rows(replace(events, conditions=(overview.named(str(table[0])),))))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--only", default="")
    arguments = parse(parser, calls=3)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # a line a refusal is not what is measured
    only = set(filter(None, arguments.only.split(",")))
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, guarded_service(Path(folder), POLICIES, {"ana": ()}) as service:
        for path in (TablePath("sales", "orders"), *(pair[0] for pair in PAIRS.values())):
            service.ensure_table(path)
        with (
            grpc.insecure_channel(service.running.uri) as channel,
            SystemCatalog(service.running.uri, access=service.access("ana", Path(folder))) as catalog,
        ):
            pages = list(console_pages(Reader(catalog, default_registry())))
            for where, (hidden, unknown) in PAIRS.items():
                pair = (hidden, service.ensure_table(hidden).table_id), (unknown, NO_TABLE_ID)
                for name, call in (*naming_calls(service, channel, where), *pages):
                    if not only or only & {
                        name,
                        name.partition(" ")[0],
                        name.partition("/")[2],
                        name.removeprefix("CALL ").removesuffix(" (SQL)"),
                    }:
                        figures.append({"call": name, "where": where, **compare(call, *pair, arguments.calls)})
    table = Table(title=f"medians of {arguments.calls:,} calls, in microseconds")
    for title in ("call", "where", "hidden", "unknown", "difference", "same text"):
        table.add_column(title, justify="left" if title in ("call", "where") else "right")
    for row in figures:
        difference = f"{row['difference_percent']:+} %"
        table.add_row(row["call"], row["where"], str(row["hidden_us"]), str(row["unknown_us"]), difference, str(row["same_text"]))
    largest = max(abs(row["difference_percent"]) for row in figures)
    report = {"bench": "hidden_tables", "calls": arguments.calls, "largest_difference_percent": largest, "figures": figures}
    finish(report, lambda: Console(width=120).print(table))


if __name__ == "__main__":
    main()
