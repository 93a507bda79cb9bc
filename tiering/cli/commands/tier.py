"""`lakeward tier`: tiers a table now, and shows the progress of the round on a terminal."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from tiering.cli.terminal.completion import PROGRAM
from tiering.cli.terminal.consoles import end_orderly_on_sigterm, message_console, printable
from tiering.cli.terminal.exit_status import ExitStatus
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.model.declare import row_in_sql
from tiering.model.names import parse_table_path
from tiering.model.rounds import RoundState
from tiering.procedures.base import Progress
from tiering.procedures.tier_table import TierTableResult


def tier(
    table: TableArgument,
    uri: UriOption = DEFAULT_URI,
    wait: Annotated[bool, typer.Option(help="Wait until the lake has all rows that the log has now.")] = True,
    timeout_ms: Annotated[int, typer.Option(metavar="MS", help="Longest time to wait, including the wait for a tierer.")] = 300_000,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Tier a table now, without waiting for its schedule.

    Example: lakeward tier sales.orders
    """
    path = parse_table_path(table)
    latest = Progress("the wait is over")
    with LakewardClient(uri) as client, round_bar(str(path)) as show:

        def follow(progress: Progress) -> None:
            nonlocal latest
            latest = progress
            show(progress)

        result = client.tier_table(
            path, wait=wait, timeout_ms=timeout_ms, caller=getpass.getuser(), wait_for_tierer=True, on_progress=follow
        )
    print_rows([row_in_sql(result)], output)
    if wait and not is_reached(result):
        why = printable(latest.message)
        print(f"{PROGRAM}: {path} is not tiered yet, its state is {result.state}: {why}", file=sys.stderr)
        raise typer.Exit(ExitStatus.NOT_YET)


def is_reached(result: TierTableResult) -> bool:
    """Returns whether the lake has all rows that the log had at the call. If not, the row shows the state of the table or of its round."""
    return result.state in [state for state in RoundState if state.is_final]


@contextmanager
def round_bar(table: str, doing: str = "tiering") -> Iterator[Callable[[Progress], None]]:
    """Yields a function that shows the progress of a waiting call: as a bar on a terminal, and not at all elsewhere."""
    console = message_console()
    if not console.is_terminal:
        yield lambda progress: None
        return
    end_orderly_on_sigterm()
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"{doing} {table}", total=None)

        def show(progress: Progress) -> None:
            fraction = None if progress.round is None else progress.round.fraction
            total = None if fraction is None else 1.0
            bar.update(task, description=printable(progress.message), completed=fraction or 0.0, total=total)

        yield show
