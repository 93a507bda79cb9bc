"""`lakeward retry`: retries a failed table now, like `CALL sys.retry_tiering`."""

from __future__ import annotations

import typer

from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.model.declare import row_in_sql


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("retry")(retry)


def retry(
    table: TableArgument,
    uri: UriOption = DEFAULT_URI,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Retry a failed table now, also after a permanent error.

    Example: lakeward retry sales.orders
    """
    with LakewardClient(uri) as client:
        result = client.retry_tiering(table, dry_run=dry_run, idempotency_key=idempotency_key)
    print_rows([row_in_sql(result)], output)
