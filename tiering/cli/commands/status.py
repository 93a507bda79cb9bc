"""`lakeward status`: shows the state of tiering, once or until Ctrl-C.

`--watch` redraws one screen in place on a terminal, with the last rounds of each table as sparklines, and prints one block per refresh
elsewhere. If the service stops answering, the last answer stays with the reason, until the service answers again.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from sys_tables.catalog_client import SystemCatalog
from tiering.cli.status.detail import READ_ROUNDS, ROUND_COLUMNS, LastRounds, StatusPage
from tiering.cli.status.view import StatusScreen, status_style
from tiering.cli.terminal.consoles import end_orderly_on_sigterm, output_console, printable
from tiering.cli.terminal.options import DEFAULT_URI, AnyTableArgument, FormatOption, UriOption
from tiering.cli.terminal.output import OutputFormat, as_json, print_csv, print_rows
from tiering.client import LakewardClient
from tiering.durations import parse_duration_ms
from tiering.errors import InvalidArgument, LakewardError, ServiceBusy, ServiceUnreachable
from tiering.model.names import parse_table_path
from tiering.model.rounds import RoundState
from tiering.model.status import TableStatus
from tiering.model.tables import TablePath
from tiering.round_history import WAIT_COLUMNS, Round

COLUMNS = (
    "table",
    "status",
    "status_reason",
    "last_tiered_time",
    "lag_ms",
    "pending_records",
    "lake_records",
    "error_class",
    "last_error",
)
LEFT_OUT_FIRST = ("last_error", "status_reason", "lake_records", "last_tiered_time", "pending_records", "error_class", "lag_ms")
"""Columns that a narrow terminal leaves out, in this order. docs/cli.md has the same order."""
STYLES = {"status": status_style, "error_class": lambda value: "red", "last_error": lambda value: "red"}
HISTORY_ROUNDS = 1_000
"""Rounds of all tables together that a refresh of `--watch` reads for its sparklines."""
SHORTEST_INTERVAL_MS = 100
"""Shorter than people can read, and still a small load for a coordinator."""


def status(
    table: AnyTableArgument = None,
    uri: UriOption = DEFAULT_URI,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="With --watch: time between two refreshes.")] = "2 s",
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Show the state of tiering: one row per lake table, or a page about one table.

    Example: lakeward status sales.orders --format json

    Example: lakeward status --watch --interval "5 s"
    """
    path = None if table is None else parse_table_path(table)
    interval_ms = parse_duration_ms(interval, "--interval")
    if interval_ms < SHORTEST_INTERVAL_MS:
        raise InvalidArgument(f"--interval {interval!r} is too short", hint=f"The shortest is {SHORTEST_INTERVAL_MS} ms.")
    with LakewardClient(uri) as client, SystemCatalog(uri) as catalog:
        if watch:
            reads = (lambda: client.list_tiering_statuses(table_path=path), lambda: _history(catalog, path))
            _watch(Watch(*reads, uri, interval_ms / 1_000), output)
        elif path is not None and output is OutputFormat.TABLE:
            for table_status in client.list_tiering_statuses(table_path=path):
                output_console().print(StatusPage(table_status, _last_rounds(catalog, table_status)))
        else:
            _print(client.list_tiering_statuses(table_path=path), output)


def _last_rounds(catalog: SystemCatalog, status: TableStatus) -> LastRounds:
    """Returns the last rounds, or the error of a service that cannot report them: its status of the table is shown all the same."""
    table = {"database_name": status.database_name, "table_name": status.table_name}
    try:
        rows = catalog.read("tiering_rounds", ROUND_COLUMNS, newest_by="pending_time", limit=READ_ROUNDS, **table)
    except LakewardError as error:
        return error
    return [row for row in rows if row["table_id"] == status.table_id]


def _history(catalog: SystemCatalog, path: TablePath | None) -> Sequence[Round]:
    """Returns the last rounds of one table or of all tables that brought rows to the lake."""
    table = {} if path is None else {"database_name": path.database_name, "table_name": path.table_name}
    succeeded = {"state": str(RoundState.SUCCEEDED), **table}
    return catalog.read("tiering_rounds", WAIT_COLUMNS, newest_by="pending_time", limit=HISTORY_ROUNDS, **succeeded)


def _print(statuses: Sequence[TableStatus], output: OutputFormat) -> None:
    columns = COLUMNS if output is OutputFormat.TABLE else ("table",)
    print_rows([_row(status) for status in statuses], output, columns, STYLES, left_out_first=LEFT_OUT_FIRST)


def _row(status: TableStatus) -> dict[str, Any]:
    return {"table": f"{status.database_name}.{status.table_name}", **asdict(status)}


def _watch(watching: Watch, output: OutputFormat) -> None:
    console = output_console()
    if output is OutputFormat.TABLE and console.is_terminal and not console.is_dumb_terminal:
        end_orderly_on_sigterm()
        watching.on_terminal(console)
    else:
        watching.elsewhere(_Blocks(output).show, lambda text: print(printable(text), file=sys.stderr, flush=True))


class _Blocks:
    """Prints each refresh for a file or a pipe: as a table, as a JSON array on one line, or as CSV rows under one header."""

    def __init__(self, output: OutputFormat) -> None:
        self._output = output
        self._headed = False

    def show(self, statuses: Sequence[TableStatus]) -> None:
        rows = [_row(status) for status in statuses]
        match self._output:
            case OutputFormat.JSON:
                print(as_json(rows, indent=None))
            case OutputFormat.CSV:
                if rows:
                    print_csv(list(rows[0]), [list(row.values()) for row in rows], header=not self._headed)
                    self._headed = True
            case OutputFormat.TABLE:
                _print(statuses, self._output)
        sys.stdout.flush()


@dataclass
class Watch:
    """One run of the command. `read_statuses` and `read_rounds` ask the service.

    `pause` waits for the next refresh and may raise KeyboardInterrupt.
    """

    read_statuses: Callable[[], Sequence[TableStatus]]
    read_rounds: Callable[[], Sequence[Round]]
    uri: str
    interval_seconds: float
    pause: Callable[[float], object] = threading.Event().wait
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def on_terminal(self, console: Console) -> None:
        """Draws on a terminal until Ctrl-C; the last screen stays. Raises ServiceUnreachable if no service answers at the start."""
        screen = self._screen()
        try:
            # Redrawn only after each refresh: a thread of rich would redraw an unchanged screen.
            with Live(screen, console=console, auto_refresh=False, vertical_overflow="crop") as live:
                while True:
                    self.pause(self.interval_seconds)
                    screen = self._again(screen)
                    live.update(screen, refresh=True)
        except KeyboardInterrupt:
            return

    def elsewhere(self, show: Callable[[Sequence[TableStatus]], None], complain: Callable[[str], None]) -> None:
        """Shows every answer until Ctrl-C or a broken pipe, and reports every failed refresh to `complain`."""
        show(self.read_statuses())
        try:
            while True:
                self.pause(self.interval_seconds)
                try:
                    statuses = self.read_statuses()
                except (ServiceUnreachable, ServiceBusy) as error:
                    complain(error.message)
                else:
                    show(statuses)
        except KeyboardInterrupt:
            return

    def _again(self, screen: StatusScreen) -> StatusScreen:
        try:
            return self._screen()
        except (ServiceUnreachable, ServiceBusy) as error:
            return replace(screen, trouble=f"{self.now():%H:%M:%S} {error.message}")

    def _screen(self) -> StatusScreen:
        screen = StatusScreen(self.read_statuses(), self.uri, self.now())
        try:
            return replace(screen, rounds=_by_table(self.read_rounds()))
        except LakewardError as error:
            return replace(screen, trouble=f"without the history of rounds: {error.message}")


def _by_table(rounds: Sequence[Round]) -> Mapping[int, Sequence[Round]]:
    grouped: dict[int, list[Round]] = defaultdict(list)
    for row in rounds:
        grouped[row["table_id"]].append(row)
    return grouped
