"""How commands print: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.markup import escape
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


def print_rows(rows: Sequence[Mapping[str, Any]], output: OutputFormat, columns: Sequence[str] | None = None) -> None:
    """All rows in the wanted form: `columns` of them (all if None) for people, everything as JSON.

    A table that is wider than the terminal is shown row by row instead, a line a value, so that nothing is cut.
    """
    if output is OutputFormat.JSON:
        print(as_json(rows))
        return
    shown = list(columns or (rows[0].keys() if rows else ()))
    cells = [[as_text(row[name]) for name in shown] for row in rows]
    console = Console(soft_wrap=True)
    width = sum(max([len(name), *(len(line[index]) for line in cells)]) + 3 for index, name in enumerate(shown)) + 1
    if rows and console.is_terminal and width > console.width:
        _print_row_by_row(console, shown, cells)
    else:
        _print_table(Console(width=max(width, 1)), shown, cells)


def _print_table(console: Console, shown: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    table = Table(*shown, header_style="bold")
    for line in cells:
        table.add_row(*map(escape, line))
    console.print(table)


def _print_row_by_row(console: Console, shown: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    pad = max(map(len, shown))
    for number, line in enumerate(cells, 1):
        console.print(f"[bold]- {number} " + "-" * pad, highlight=False)
        for name, cell in zip(shown, line, strict=True):
            if cell:
                console.print(f"  {name:<{pad}}  {escape(cell)}", highlight=False)
