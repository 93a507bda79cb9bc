"""How long it takes to filter many tables by grants, and how often the engine is asked for it.

    PYTHONPATH=bench .venv/bin/python bench/access/grants.py --tables 100000 --databases 500

No service: the filter that a view of the coordinator applies, over Arrow columns of databases and names. **cold** is the first read of
any user after a change of the policies, **first** the first read of another user then, **filter** any read after a table came or went; when
nothing has changed a view keeps what it had. Milliseconds of CPU, medians, but for **cold**, which there is once; **one name** is the check
of a call that names a table. Prints a table, and one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cedarpy
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse

from tiering.access.grants import Access
from tiering.access.identity import Authentication, Identity
from tiering.access.policies.engine import CedarEngine

REPEATS = 30

USER = Identity("ana", Authentication.TOKEN, frozenset({"analysts"}))
OTHER_USER = Identity("ana", Authentication.TOKEN, frozenset({"analysts", "others"}))

POLICIES = {
    "everything": "permit (principal, action, resource);",
    "one database": 'permit (principal, action, resource in Database::"db0007");',
    "patterns": """
        permit (principal, action, resource is Table) when { resource.database like "db00*" && resource.name like "*_public" };
        permit (principal in Group::"analysts", action in Action::"read", resource is Table) when { resource.name like "t00*" };
        forbid (principal, action, resource is Table) when { resource.name like "*secret*" };
    """,
    "1,000 tables by name": "\n".join(
        f'permit (principal == User::"ana", action in Action::"read", resource == Table::"db{n % 500:04}.t{n:06}");' for n in range(1_000)
    ),
    "100 patterns, none fits": "\n".join(
        f'permit (principal, action, resource is Table) when {{ resource.name like "*{n:02}_x*" }};' for n in range(100)
    ),
    "100 patterns": "\n".join(
        f'permit (principal, action, resource is Table) when {{ resource.name like "*{n:02}_p*" }};' for n in range(100)
    ),
    "50 patterns of both": "\n".join(
        f'permit (principal, action, resource is Table) when {{ resource.database like "db{n:03}*" && resource.name like "*_public" }};'
        for n in range(50)
    ),
    "1,000 conditions": "\n".join(
        f'permit (principal, action, resource is Table) when {{ resource.database == "db{n % 500:04}" && resource.name == "t{n:06}" }};'
        for n in range(1_000)
    ),
    "1,000 names": "\n".join(f'permit (principal, action, resource is Table) when {{ resource.name == "t{n:06}" }};' for n in range(1_000)),
}


@contextmanager
def counted_questions() -> Iterator[Counter[str]]:
    """Counts how often Cedar is asked while the context is open, as `questions`."""
    counts: Counter[str] = Counter()
    ask = cedarpy.is_authorized_batch

    def count(*arguments: Any) -> Any:
        counts.update(questions=1)
        return ask(*arguments)

    cedarpy.is_authorized_batch = count  # type: ignore[assignment]  # with the arguments that the engine gives
    try:
        yield counts
    finally:
        cedarpy.is_authorized_batch = ask


def milliseconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The median, of the CPU's time."""
    times = []
    for _ in range(repeats):
        start = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - start) / 1_000_000)
    return statistics.median(times)


def measure(text: str, databases: Any, names: Any) -> dict[str, float | int]:
    """The figures of one policy file."""
    engine = CedarEngine(text)
    with counted_questions() as counts:
        cold = milliseconds(lambda: Access(OTHER_USER, engine).visible(databases, names), 1)
    first = milliseconds(lambda: Access(USER, engine).visible(databases, names), 5)
    access = Access(USER, engine)
    mask = access.visible(databases, names)
    again = milliseconds(lambda: access.visible(databases, names))
    paths = list(zip(databases.to_pylist()[:1_000], names.to_pylist()[:1_000], strict=True))
    single = milliseconds(lambda: [access.sees_name(*path) for path in paths])
    return {
        "visible": int(mask.sum()),
        "questions": counts["questions"],
        "cold_ms": round(cold, 1),
        "first_ms": round(first, 1),
        "filter_ms": round(again, 1),
        "name_us": round(single, 2),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--databases", type=int, default=500)
    arguments = parse(parser, tables=1_000, databases=20)
    databases = pa.array([f"db{n % arguments.databases:04}" for n in range(arguments.tables)])
    names = pa.array([f"t{n:06}{'_public' if n % 3 == 0 else ''}" for n in range(arguments.tables)])
    figures = {name: measure(text, databases, names) for name, text in POLICIES.items()}
    table = Table(title=f"{arguments.tables:,} tables in {arguments.databases} databases, load {os.getloadavg()[0]:.1f}")
    for title in ("policies", "visible", "questions", "cold", "first", "filter", "one name, us"):
        table.add_column(title, justify="left" if title == "policies" else "right")
    for name, row in figures.items():
        table.add_row(name, *(f"{value:,}" for value in row.values()))
    report = {"bench": "grants", "tables": arguments.tables, "databases": arguments.databases, "policies": figures}
    finish(report, lambda: Console(width=120).print(table))


if __name__ == "__main__":
    main()
