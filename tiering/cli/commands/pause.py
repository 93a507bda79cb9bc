"""`lakeward pause`: pauses the tiering of a table, like `CALL sys.pause_tiering`."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, TableArgument, UriOption, parse_end
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.model.declare import row_in_sql


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("pause")(pause)


def pause(
    table: TableArgument,
    reason: Annotated[str | None, typer.Option(help="Reason, for the events.")] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End of the pause: a time (ISO 8601, UTC unless it has a zone), or a duration from now such as '2 h'. Default: the pause "
            "lasts until `lakeward resume`.",
        ),
    ] = None,
    uri: UriOption = DEFAULT_URI,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Pause the tiering of a table. A running round ends normally.

    Example: lakeward pause sales.orders --reason 'the lake is moved'
    """
    with LakewardClient(uri) as client:
        result = client.pause_tiering(
            table, reason=reason, until=parse_end(until, "--until"), dry_run=dry_run, idempotency_key=idempotency_key
        )
    print_rows([row_in_sql(result)], output)
