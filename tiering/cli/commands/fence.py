"""`lakeward fence`: takes a tierer's tables away from it, as `CALL sys.fence_tierer` does."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("fence")(fence)


def fence(
    tierer_id: Annotated[str, typer.Argument(metavar="TIERER", help="The tierer, as sys.tierers names it.")],
    reason: Annotated[str | None, typer.Option(help="Why, for the events.")] = None,
    uri: UriOption = DEFAULT_URI,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Take a tierer's tables away from it, and give it no more; others go on with them.

    Example: lakeward fence tierer-7 --reason 'its machine is going away'
    """
    with LakewardClient(uri) as client:
        result = client.fence_tierer(tierer_id, reason=reason, dry_run=dry_run, idempotency_key=idempotency_key)
    print_rows([{"tierer_id": result.tierer_id, "tables_fenced": result.tables_fenced}], output)
