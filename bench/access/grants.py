"""How long it takes to filter many tables by grants, and how many decisions the engine makes for it.

    .venv/bin/python bench/access/grants.py --tables 100000 --databases 500

No service: the filter that a view of the coordinator applies, over Arrow columns of databases and names. **first** is the first read of
somebody after a change of the policies (the engine is asked once for each combination of name tests), **filter** any read after a table
came or went, **kept** a read when nothing has changed. Medians; prints a table, and one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tiering.access.engine import CedarEngine
from tiering.access.grants import Access
from tiering.access.identity import Authentication, Identity
from tiering.access.privileges import Privilege, Resource

REPEATS = 30

USER = Identity("ana", Authentication.TOKEN, frozenset({"analysts"}))

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
    "100 patterns": "\n".join(
        f'permit (principal, action, resource is Table) when {{ resource.name like "*{n:02}_x*" }};' for n in range(100)
    ),
}


class CountingEngine(CedarEngine):
    """Counts what it decides."""

    decisions = 0

    def allows(self, identity: Identity, privilege: Privilege, resource: Resource) -> bool:
        self.decisions += 1
        return super().allows(identity, privilege, resource)


def milliseconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The median."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1_000)
    return statistics.median(times)


def measure(text: str, databases: Any, names: Any) -> dict[str, float | int]:
    """The figures of one policy file."""
    engine = CountingEngine(text)
    first = milliseconds(lambda: Access(USER, engine).visible(databases, names), 3)
    engine.decisions = 0
    access = Access(USER, engine)
    mask = access.visible(databases, names)
    decisions = engine.decisions
    again = milliseconds(lambda: access.visible(databases, names))
    paths = list(zip(databases.to_pylist()[:1_000], names.to_pylist()[:1_000], strict=True))
    single = milliseconds(lambda: [access.sees_name(*path) for path in paths])
    return {
        "visible": int(mask.sum()),
        "decisions": decisions,
        "first_ms": round(first, 1),
        "filter_ms": round(again, 2),
        "name_us": round(single, 2),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--databases", type=int, default=500)
    arguments = parser.parse_args()
    databases = pa.array([f"db{n % arguments.databases:04}" for n in range(arguments.tables)])
    names = pa.array([f"t{n:06}{'_public' if n % 3 == 0 else ''}" for n in range(arguments.tables)])
    figures = {name: measure(text, databases, names) for name, text in POLICIES.items()}
    table = Table(title=f"{arguments.tables:,} tables in {arguments.databases} databases, load {os.getloadavg()[0]:.1f}")
    for title in ("policies", "visible", "decisions", "first, ms", "filter, ms", "one name, us"):
        table.add_column(title, justify="left" if title == "policies" else "right")
    for name, row in figures.items():
        table.add_row(name, *(f"{value:,}" for value in row.values()))
    Console(width=120).print(table)
    print(json.dumps({"tables": arguments.tables, "databases": arguments.databases, "policies": figures}))


if __name__ == "__main__":
    main()
