"""`lakeward tier`: brings one table's lake copy up to now, and shows on a terminal how far the round is."""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tiering.cli.terminal.completion import PROGRAM
from tiering.cli.terminal.consoles import end_orderly_on_sigterm, message_console, printable
from tiering.cli.terminal.exit_status import ExitStatus
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.model.call_results import TierTableResult
from tiering.model.names import parse_table_path
from tiering.model.rounds import RoundState

_SPLITS = re.compile(r"(?<!\d)(?P<done>\d{1,9}) of (?P<total>\d{1,9}) splits")
"""As the coordinator's progress lines say it; without it the bar only shows that something goes on."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("tier")(tier)


def tier(
    table: TableArgument,
    uri: UriOption = DEFAULT_URI,
    wait: Annotated[bool, typer.Option(help="Wait until the lake has what the log has now.")] = True,
    timeout_ms: Annotated[int, typer.Option(help="How long to wait.")] = 300_000,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Tier a table now.

    Example: lakeward tier sales.orders
    """
    path = parse_table_path(table)
    lines: list[str] = []
    with LakewardClient(uri) as client, round_progress(str(path)) as show:

        def heed(line: str) -> None:
            lines[:] = [line]
            show(line)

        result = client.tier_table(path, wait=wait, timeout_ms=timeout_ms, caller=getpass.getuser(), on_progress=heed)
    print_rows([_row(result)], output)
    if wait and not is_reached(result):
        why = printable(lines[0]) if lines else "the wait is over"
        print(f"{PROGRAM}: {path} is not tiered yet, its state is {result.state}: {why}", file=sys.stderr)
        raise typer.Exit(ExitStatus.NOT_YET)


def is_reached(result: TierTableResult) -> bool:
    """Whether the lake has what the log had at the call: otherwise the row shows the state of the table, or of a round that runs."""
    return result.state in [state for state in RoundState if state.is_final]


@contextmanager
def round_progress(table: str) -> Iterator[Callable[[str], None]]:
    """Takes the lines that a waiting call sends: a bar on a terminal, gone at the end; nothing elsewhere."""
    console = message_console()
    if not console.is_terminal:
        yield lambda line: None
        return
    end_orderly_on_sigterm()
    columns = (SpinnerColumn(), BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"tiering {table}", total=None)

        def tell(line: str) -> None:
            done, total = splits_of(line)
            bar.update(task, description=printable(line), completed=done, total=total)

        yield tell


def splits_of(line: str) -> tuple[int, int | None]:
    """Splits done and in all, as a progress line says; (0, None) if it does not."""
    match = _SPLITS.search(line)
    return (int(match["done"]), int(match["total"])) if match else (0, None)


def _row(result: TierTableResult) -> dict[str, Any]:
    row = asdict(result)
    row.pop("path")
    return {"table": str(result.path), **row}
