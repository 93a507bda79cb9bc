"""`lakeward resume`: ends the pause of a table, like `CALL sys.resume_tiering`."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.model.declare import row_in_sql


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("resume")(resume)


def resume(
    table: TableArgument,
    reason: Annotated[str | None, typer.Option(help="Reason, for the events.")] = None,
    uri: UriOption = DEFAULT_URI,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """End the pause of a table.

    Example: lakeward resume sales.orders
    """
    with LakewardClient(uri) as client:
        result = client.resume_tiering(table, reason=reason, dry_run=dry_run, idempotency_key=idempotency_key)
    print_rows([row_in_sql(result)], output)
