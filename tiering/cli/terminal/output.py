"""Prints rows as a table for people, or as JSON or CSV for programs.

In a table, NULL is an empty cell, and times have seconds. If a table is wider than the terminal, a command can leave out columns in its own
order, and names them; a table that is still too wide is printed row by row. Nothing is cut. JSON and CSV have all columns: times in ISO
8601, bytes as hex, decimals as text. In CSV, NULL is an empty field, and nested values are JSON.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from enum import StrEnum
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tiering.cli.terminal.consoles import output_console, printable
from tiering.redaction.visible_text import json_visible


class OutputFormat(StrEnum):
    """The values of `--format`."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


Row = Sequence[Any]
Styles = Mapping[str, Callable[[Any], str]]
"""Functions from a value to its rich style, by column."""


def as_text(value: Any) -> str:
    """Returns a cell for people: NULL is empty, times have seconds, control characters are escaped."""
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
            return exact_text(value)


def exact_text(value: Any) -> str:
    """Returns a cell as in SQL shells: NULL by name, exact numbers and times, control characters are escaped."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ")
        case Mapping() | list() | tuple():
            return printable(json.dumps(_plain(value), ensure_ascii=False))
        case _:
            return printable(str(_plain(value)))


def as_json(rows: Sequence[Mapping[str, Any]], indent: int | None = 2) -> str:
    """Returns a JSON array. Control characters are escaped as in JSON, so that values stay exact."""
    return json_visible(json.dumps([_plain(row) for row in rows], indent=indent, ensure_ascii=False))


def json_text(value: Any) -> str:
    """Returns one value as JSON on one line, escaped as in `as_json`."""
    return json_visible(json.dumps(_plain(value), ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Returns a value that JSON supports. Other values, also NaN, become text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return {str(name): _plain(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case datetime() | date() | time():
            return value.isoformat()
        case bytes() | bytearray():
            return value.hex()
        case _:
            return str(value)


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    output: OutputFormat,
    columns: Sequence[str] | None = None,
    styles: Styles | None = None,
    *,
    left_out_first: Sequence[str] = (),
) -> None:
    """Prints rows: as a table with `columns` (None: all columns), or as JSON or CSV with all columns.

    Without rows, `columns` are the header of a CSV. `left_out_first` are columns that a narrow terminal leaves out, in this order; a line
    on standard error names them.
    """
    everything = list(rows[0] if rows else columns or ())
    shown = list(columns or everything) if output is OutputFormat.TABLE else everything
    if output is OutputFormat.TABLE:
        shown = _fitting_columns(shown, rows, left_out_first)
    print_result(shown, [[row[name] for name in shown] for row in rows], output, styles=styles)


def _fitting_columns(columns: list[str], rows: Sequence[Mapping[str, Any]], left_out_first: Sequence[str]) -> list[str]:
    """Returns the columns that fit the terminal, without the first ones of `left_out_first`; all columns if that is not enough."""
    console = output_console()
    if not console.is_terminal or not rows:
        return columns
    widths = {name: _width(name, [Text(as_text(row[name]).expandtabs()) for row in rows]) for name in columns}
    left_out: list[str] = []
    for name in (*left_out_first, None):
        shown = [column for column in columns if column not in left_out]
        if _table_width(widths[column] for column in shown) <= console.width:
            if left_out:
                print(f"too narrow for: {', '.join(left_out)}; --format json shows all", file=sys.stderr)
            return shown
        if name is not None:
            left_out.append(name)
    return columns


def _table_width(widths: Iterable[int]) -> int:
    """Returns the width of a table with columns of these widths, with a border and two blanks for each column."""
    return sum(width + 3 for width in widths) + 1


def print_result(
    columns: Sequence[str], rows: Sequence[Row], output: OutputFormat, *, text: Callable[[Any], str] = as_text, styles: Styles | None = None
) -> None:
    """Prints rows by position. Two columns may have the same name; in JSON the second one becomes `name_2`."""
    match output:
        case OutputFormat.JSON:
            names = distinct(columns)
            print(as_json([dict(zip(names, row, strict=True)) for row in rows]))
        case OutputFormat.CSV:
            print_csv(columns, rows)
        case OutputFormat.TABLE:
            _print_for_people(columns, rows, text, styles or {})


def print_csv(columns: Sequence[str], rows: Sequence[Row], header: bool = True) -> None:
    """Prints CSV (RFC 4180), with `\n` as line end."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if header:
        writer.writerow(columns)
    writer.writerows([_csv_field(value) for value in row] for row in rows)


def _csv_field(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Mapping() | list() | tuple():
            return json.dumps(_plain(value), ensure_ascii=False)
        case _:
            return str(_plain(value))


def distinct(names: Sequence[str]) -> list[str]:
    """Returns distinct names: `a, b, a` becomes `a, b, a_2`. A new name never equals an existing one."""
    used_names, counts = set(names), Counter[str]()
    unique: list[str] = []
    for name in names:
        counts[name] += 1
        candidate = name
        while counts[name] > 1 and candidate in used_names:
            candidate = f"{name}_{counts[name]}"
            counts[name] += candidate in used_names
        used_names.add(candidate)
        unique.append(candidate)
    return unique


def _print_for_people(columns: Sequence[str], rows: Sequence[Row], text: Callable[[Any], str], styles: Styles) -> None:
    paint = [styles.get(name, lambda _: "") for name in columns]
    cells = [[Text(text(value).expandtabs(), style=style(value)) for style, value in zip(paint, row, strict=True)] for row in rows]
    console = output_console()
    width = _table_width(_width(printable(name), [line[index] for line in cells]) for index, name in enumerate(columns))
    if rows and console.is_terminal and width > console.width:
        _print_row_by_row(console, columns, cells)
    else:
        _print_table(output_console(max(width, 1)), columns, cells)


def _width(name: str, cells: Sequence[Text]) -> int:
    """Returns the width of a column in terminal cells. A Chinese character takes two cells."""
    return max(cell_len(line) for text in (name, *(cell.plain for cell in cells)) for line in text.split("\n"))


def _print_table(console: Console, columns: Sequence[str], cells: Sequence[Sequence[Text]]) -> None:
    table = Table(*(Column(Text(name)) for name in map(printable, columns)), header_style="bold")
    for line in cells:
        table.add_row(*line)
    console.print(table)


def _print_row_by_row(console: Console, columns: Sequence[str], cells: Sequence[Sequence[Text]]) -> None:
    columns = list(map(printable, columns))
    pad = max(map(cell_len, columns))
    for number, line in enumerate(cells, 1):
        console.print(Text(f"- {number} " + "-" * pad, style="bold"))
        for name, cell in zip(columns, line, strict=True):
            if cell.plain:
                gap = " " * (pad - cell_len(name) + 2)
                console.print(Text(f"  {name}{gap}").append_text(Text("\n" + " " * (pad + 4)).join(cell.split("\n"))))
