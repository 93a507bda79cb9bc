"""`lakeward set-freshness`: changes the freshness of a table, like `CALL sys.set_freshness`."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.consoles import warn
from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.model.names import parse_table_path


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("set-freshness")(set_freshness)


def set_freshness(
    table: TableArgument,
    freshness: Annotated[str, typer.Argument(metavar="FRESHNESS", help="How old the lake copy may be: '30 s', '5 min'.")],
    uri: UriOption = DEFAULT_URI,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Change the freshness of a table: how old its lake copy may be. The change takes effect at once.

    Example: lakeward set-freshness sales.orders '5 min'
    """
    path = parse_table_path(table)
    with LakewardClient(uri) as client:
        result = client.set_freshness(path, freshness, dry_run=dry_run, idempotency_key=idempotency_key)
    print_rows([{"table": str(result.path), "previous_ms": result.previous_ms, "freshness_ms": result.freshness_ms}], output)
    warn(result.warning)
