"""The chart of an answer whose first column is a time: a line for each column of numbers, or for each value of its text columns. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import UTC, date, datetime
from typing import Any

from sys_tables.console.cells import is_number
from sys_tables.console.charts.time_chart import Line, TimeChart
from sys_tables.console.sql.runner import SqlAnswer

MAX_LINES = 6
"""Lines with different colours and dashes in console.css."""

Series = tuple[Hashable, ...]
"""The values of the text columns, which rows of one line have in common."""


def line_chart(answer: SqlAnswer) -> TimeChart | None:
    """Returns the chart; None for an answer without a time in its first column, without two times, or without numbers."""
    times = [_time(row[0]) for row in answer.rows]
    if any(time is None and row[0] is not None for time, row in zip(times, answer.rows, strict=True)):
        return None
    timed = sorted(((time, row) for time, row in zip(times, answer.rows, strict=True) if time is not None), key=lambda pair: pair[0])
    rows = [row for _, row in timed]
    numbers = [place for place in range(1, len(answer.columns)) if _is_numeric([row[place] for row in rows])]
    if len({time for time, _ in timed}) < 2 or not numbers:
        return None
    texts = [place for place in range(1, len(answer.columns)) if _names_lines([row[place] for row in rows])]
    series = [tuple(row[place] for place in texts) for row in rows]
    named = [(values, place) for values, _ in Counter(series).most_common() for place in numbers]
    lines = [
        Line(
            _name(values, answer.columns[place] if len(numbers) > 1 or not texts else ""),
            [row[place] if of_row == values else None for of_row, row in zip(series, rows, strict=True)],
            f"series-{number}",
        )
        for number, (values, place) in enumerate(named[:MAX_LINES], start=1)
    ]
    unit = "ms" if all(answer.columns[place].endswith("_ms") for place in numbers) else ""
    label = _label(lines, len(rows), len(named) - len(lines), len(answer.rows) - len(rows))
    return TimeChart(label, unit, [time for time, _ in timed], lines, joins_gaps=bool(texts))


def _time(value: Any) -> datetime | None:
    """Returns a time, or the beginning of a day in UTC; None for anything else."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or len(value) != len("2026-11-30"):
        return None
    try:
        return datetime.combine(date.fromisoformat(value), datetime.min.time(), UTC)
    except ValueError:
        return None


def _is_numeric(values: Sequence[Any]) -> bool:
    return any(value is not None for value in values) and all(value is None or is_number(value) for value in values)


def _names_lines(values: Sequence[Any]) -> bool:
    """Returns whether a column has texts that several rows have in common. An id of each row names no line."""
    return all(value is None or isinstance(value, str | bool) for value in values) and len(set(values)) <= max(len(values) // 2, 1)


def _name(series: Series, column: str) -> str:
    return ", ".join([*("NULL" if value is None else str(value) for value in series), *([column] if column else [])])


def _label(lines: Sequence[Line], rows: int, lines_left_out: int, rows_left_out: int) -> str:
    label = f"{rows:,} rows over time: {'; '.join(line.name for line in lines)}"
    label += f". {lines_left_out} further lines are left out" if lines_left_out else ""
    return label + (f". {rows_left_out} rows without a time are left out" if rows_left_out else "")
