"""How commands print: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table


class OutputFormat(StrEnum):
    """`--format`."""

    TABLE = "table"
    JSON = "json"


def as_text(value: Any) -> str:
    """One cell for people: NULL shows as an empty cell, times to the second."""
    match value:
        case None:
            return ""
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.3g}"
        case _:
            return str(value)


def as_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """A JSON array; times in ISO 8601."""
    return json.dumps(list(rows), default=lambda value: value.isoformat() if isinstance(value, datetime) else str(value), indent=2)


def print_rows(
    rows: Sequence[Mapping[str, Any]], output: OutputFormat, columns: Sequence[str] | None = None, title: str | None = None
) -> None:
    """All rows in the wanted form. A table shows `columns` (all if None) and wraps long text instead of cutting it."""
    console = Console(soft_wrap=False)
    if output is OutputFormat.JSON:
        print(as_json(rows))
        return
    shown = list(columns or (rows[0].keys() if rows else ()))
    table = Table(title=title, title_justify="left", header_style="bold")
    for name in shown:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(as_text(row[name]) for name in shown))
    console.print(table)
