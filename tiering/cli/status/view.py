"""Draws the state of tiering for one screen: a summary, one row per table, and the errors. Pure.

Tables that need an action come first, so that only healthy tables can be cut off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tiering.cli.status.sparklines import BLOCKS, CELLS, lag_sparkline, levels_for, throughput_sparkline
from tiering.cli.terminal.consoles import printable
from tiering.durations import short_duration
from tiering.model.status import Promise, TableStatus
from tiering.round_history import Round

STATUS_STYLES = {
    "New": "dim",
    "Initialized": "dim",
    "Scheduled": "green",
    "Pending": "yellow",
    "Tiering": "cyan",
    "Tiered": "green",
    "Failed": "bold red",
}
_FIRST = ("Failed", "Tiering", "Pending")
_BAR_CELLS = 10
_ERROR_LINES = 3
"""Most lines of one table's error on the screen. `lakeward status db.table` shows the complete error."""
_FRAME_LINES = 6
"""Lines for the summary, an empty line, the header and frame of the table, and the line about tables that are left out."""
_SCREEN_SHARE = 0.5
"""Largest share of the screen for errors."""

Cell = Text | ProgressBar


@dataclass(frozen=True)
class TableRow:
    """The values of one row: the table, its rounds, and the characters of sparklines."""

    status: TableStatus
    rounds: Sequence[Round] = ()
    levels: str = BLOCKS


@dataclass(frozen=True)
class Column:
    """One column. A narrow screen leaves out the columns with the highest `rank` first."""

    name: str
    rank: int
    width: int
    cell: Callable[[TableRow], Cell]
    right: bool = False


@dataclass(frozen=True)
class StatusScreen:
    """The content of one screen. `trouble` says why it is not current. `rounds` are the last rounds, by id of the table."""

    statuses: Sequence[TableStatus]
    uri: str
    looked_at: datetime
    trouble: str = ""
    rounds: Mapping[int, Sequence[Round]] = field(default_factory=dict)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield summary(self)
        if self.trouble:
            yield Text(printable(self.trouble), style="bold red")
        ordered = sorted(self.statuses, key=_urgency)
        errors = [line for status in ordered for line in error_lines(console, options.max_width, status)]
        height = options.height or console.height
        errors = errors[: max(int(height * _SCREEN_SHARE), 1)]
        fitting = max(height - len(errors) - _FRAME_LINES - bool(self.trouble), 1)
        levels = levels_for(console, options)
        rows = [TableRow(status, self.rounds.get(status.table_id, ()), levels) for status in ordered[:fitting]]
        yield _table(rows, options.max_width)
        if len(ordered) > fitting:
            yield Text(f"... and {len(ordered) - fitting} more tables, {_counts(ordered[fitting:])}", style="dim")
        yield from errors


def summary(screen: StatusScreen) -> Text:
    """Returns a line such as `12 lake tables: 2 Failed, 10 Scheduled; 11:20:33 UTC, 127.0.0.1:7707`."""
    count = len(screen.statuses)
    counts = f": {_counts(screen.statuses)}" if count else ""
    tables = f"{count} lake table{'' if count == 1 else 's'}{counts}"
    return Text(tables, style="bold").append(f"; {screen.looked_at:%H:%M:%S} UTC, {screen.uri}", style="not bold dim")


def error_lines(console: Console, width: int, status: TableStatus) -> list[Text]:
    """Returns the last error with its next action or hint, in a few wrapped lines; nothing without an error."""
    if status.last_error is None:
        return []
    where = f" in {status.error_phase}" if status.error_phase else ""
    text = Text(f"{_name(status)}: ", style="bold red")
    text.append(f"{status.error_class}{where}: ", style="not bold red")
    text.append(printable(" ".join(status.last_error.split())), style="not bold default")
    if advice := status.next_action or status.error_hint:
        text.append(f" -> {printable(advice)}", style="not bold green")
    lines = list(text.wrap(console, max(width, 1)))
    if len(lines) > _ERROR_LINES:
        lines = lines[:_ERROR_LINES]
        lines[-1].truncate(max(width - 1, 1))
        lines[-1].append("…")
    return lines


def status_style(status: str) -> str:
    """Returns the style of a state, or none for a state that this version does not know."""
    return STATUS_STYLES.get(status, "")


def lag_style(status: TableStatus) -> str:
    """Returns the style of the lag: red if it breaks the promise."""
    return "red" if status.promise == Promise.BROKEN else ""


def _urgency(status: TableStatus) -> tuple[int, str, str]:
    first = _FIRST.index(status.status) if status.status in _FIRST else len(_FIRST)
    return first - (len(_FIRST) if status.last_error else 0), status.database_name, status.table_name


def _counts(statuses: Sequence[TableStatus]) -> str:
    counts = [f"{count} {status}" for status, count in sorted(Counter(status.status for status in statuses).items())]
    paused = sum(status.paused for status in statuses)
    return ", ".join([*counts, f"{paused} paused"] if paused else counts)


def _name(status: TableStatus) -> str:
    return printable(f"{status.database_name}.{status.table_name}")


def _state(status: TableStatus) -> Text:
    text = Text(status.status, style=status_style(status.status))
    return text.append(" paused", style="magenta") if status.paused else text


def _lag(status: TableStatus) -> Text:
    return Text(short_duration(status.lag_ms), style=lag_style(status))


def _progress(status: TableStatus) -> Cell:
    if status.fraction_completed is None:
        return Text("")
    return ProgressBar(total=1.0, completed=status.fraction_completed, width=_BAR_CELLS)


def _count(value: int | None) -> Text:
    return Text("" if value is None else f"{value:,}")


def _since(status: TableStatus) -> Text:
    if status.last_tiered_time is None:
        return Text("never", style="dim")
    age = status.observed_time - status.last_tiered_time
    return Text(f"{short_duration(max(int(age.total_seconds()), 0) * 1_000)} ago")


_STATUS = Column("status", 0, 10, lambda row: _state(row.status))
COLUMNS = (
    Column("table", 0, 12, lambda row: Text(_name(row.status))),
    _STATUS,
    Column("lag", 1, 7, lambda row: _lag(row.status), right=True),
    Column("last lags", 3, CELLS, lambda row: lag_sparkline(row.rounds, row.status.freshness_ms, row.levels), right=True),
    Column("round", 4, _BAR_CELLS, lambda row: _progress(row.status)),
    Column("pending", 2, 9, lambda row: _count(row.status.pending_records), right=True),
    Column("in lake", 5, 11, lambda row: _count(row.status.lake_records), right=True),
    Column("tiered", 6, 11, lambda row: _since(row.status), right=True),
    Column("rows/s", 7, CELLS, lambda row: throughput_sparkline(row.rounds, row.levels), right=True),
    Column("why", 8, 24, lambda row: Text(printable(row.status.status_reason or ""), style="dim")),
)


def fitting_columns(width: int, names_width: int) -> tuple[Column, ...]:
    """Returns the columns that fit beside the longest name, at least table and status."""
    shown = list(COLUMNS)
    while len(shown) > 2 and names_width + sum(column.width for column in shown[1:]) + 3 * len(shown) + 1 > width:
        shown.remove(max(shown, key=lambda column: column.rank))
    return tuple(shown)


def _table(tables: Sequence[TableRow], width: int) -> Table:
    names = max((cell_len(_name(row.status)) for row in tables), default=0)
    shown = fitting_columns(width, min(names, width // 2))
    rows = [[column.cell(row) for column in shown] for row in tables]
    table = Table(header_style="bold")
    for column, cells in zip(shown, _widths(shown, rows, width), strict=True):
        table.add_column(column.name, justify="right" if column.right else "left", no_wrap=True, overflow="ellipsis", width=cells)
    for row in rows:
        table.add_row(*row)
    return table


def _widths(shown: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """Returns the width of each column. If there is too little room, the last column gets less, then the names, and never the state."""
    needed = [max(cell_len(column.name), *(_cells(row[index]) for row in rows), 0) for index, column in enumerate(shown)]
    room = width - 3 * len(shown) - 1
    for index, least in ((-1, cell_len(shown[-1].name)), (0, 1)):
        if shown[index] is not _STATUS:
            needed[index] = max(needed[index] - max(sum(needed) - room, 0), least)
    return needed


def _cells(cell: Cell) -> int:
    return _BAR_CELLS if isinstance(cell, ProgressBar) else cell.cell_len
