"""`lakeward tier-database`: tiers the tables of a database now, like `CALL sys.tier_database`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tiering.cli.commands.tier import is_reached, round_bar
from tiering.cli.terminal.completion import PROGRAM
from tiering.cli.terminal.exit_status import ExitStatus
from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.counts import counted
from tiering.model.declare import row_in_sql


def tier_database(
    database: Annotated[str, typer.Argument(metavar="DATABASE", help="Name of the database.")],
    include: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Only tables whose name matches this LIKE pattern: % is any text, _ is one character."),
    ] = None,
    exclude: Annotated[str | None, typer.Option(metavar="PATTERN", help="No table whose name matches this LIKE pattern.")] = None,
    only_stale: Annotated[bool, typer.Option(help="Leave out tables whose lake copy has all rows.")] = True,
    uri: UriOption = DEFAULT_URI,
    wait: Annotated[bool, typer.Option(help="Wait until the lake has all rows that the logs have now.")] = True,
    timeout_ms: Annotated[int, typer.Option(metavar="MS", help="Longest time to wait.")] = 300_000,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Tier the tables of a database now, without waiting for their schedule.

    Example: lakeward tier-database sales --exclude 'tmp%'
    """
    with LakewardClient(uri) as client, round_bar(database) as show:
        rows = client.tier_database(
            database,
            include=include,
            exclude=exclude,
            only_stale=only_stale,
            wait=wait,
            timeout_ms=timeout_ms,
            dry_run=dry_run,
            idempotency_key=idempotency_key,
            on_progress=show,
        )
    if not rows and output is OutputFormat.TABLE:
        print(f"{PROGRAM}: no table of {database} has to be tiered", file=sys.stderr)
        return
    print_rows([{**row_in_sql(row.tiered), "error": row.error} for row in rows], output)
    left = [row for row in rows if row.error is not None or not is_reached(row.tiered)]
    if wait and left and not dry_run:
        print(
            f"{PROGRAM}: {len(left)} of {counted(len(rows), 'table')} {'is' if len(left) == 1 else 'are'} not tiered yet", file=sys.stderr
        )
        raise typer.Exit(ExitStatus.NOT_YET)
