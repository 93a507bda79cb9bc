"""`lakeward reconcile`: makes a lake table usable for tiering again after a failed check, like `CALL sys.reconcile_lake`."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.model.declare import row_in_sql


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("reconcile")(reconcile)


def reconcile(
    table: TableArgument,
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help="adopt, accept, retier or deduplicate. docs/lake-repair.md tells when to use which.")
    ],
    uri: UriOption = DEFAULT_URI,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Make a lake table usable for tiering again after a rollback, a replacement or commits of other programs.

    Example: lakeward reconcile sales.orders retier --dry-run
    """
    with LakewardClient(uri) as client:
        result = client.reconcile_lake(table, action, dry_run=dry_run, idempotency_key=idempotency_key)
    print_rows([row_in_sql(result)], output)
