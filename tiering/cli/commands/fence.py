"""`lakeward fence`: takes all tables away from a tierer, like `CALL sys.fence_tierer`."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.model.declare import row_in_sql


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("fence")(fence)


def fence(
    tierer_id: Annotated[str, typer.Argument(metavar="TIERER", help="Id of the tierer, from sys.tierers.")],
    reason: Annotated[str | None, typer.Option(help="Reason, for the events.")] = None,
    uri: UriOption = DEFAULT_URI,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Take all tables away from a tierer and give it no new ones. Other tierers continue with the tables.

    Example: lakeward fence tierer-7 --reason 'its machine is going away'
    """
    with LakewardClient(uri) as client:
        result = client.fence_tierer(tierer_id, reason=reason, dry_run=dry_run, idempotency_key=idempotency_key)
    print_rows([row_in_sql(result)], output)
