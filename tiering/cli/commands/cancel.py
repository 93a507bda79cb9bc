"""`lakeward cancel`: ends a running round without a commit, like `CALL sys.cancel_tiering`."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.errors import InvalidArgument
from tiering.model.declare import row_in_sql
from tiering.procedures.cancel_tiering import CancelOutcome


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("cancel")(cancel)


def cancel(
    round_id: Annotated[str, typer.Argument(metavar="ROUND", help="Id of the round, from sys.tiering_rounds.")],
    message: Annotated[str | None, typer.Option(help="Reason, for the log of the tierer and for the history.")] = None,
    uri: UriOption = DEFAULT_URI,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """End a running round without a commit. Its rows stay in the log. A round whose commit was granted already is not cancelled.

    Example: lakeward cancel 0198c1f2-7a30-7cc1-8e4b-2f6a51d0a9b3 --message 'wrong lake'
    """
    with LakewardClient(uri) as client:
        result = client.cancel_tiering(round_id, message=message, dry_run=dry_run, idempotency_key=idempotency_key)
    if result.outcome is CancelOutcome.UNKNOWN:
        raise InvalidArgument(
            f"there is no round {round_id[:60]!r}",
            hint="lakeward status DATABASE.TABLE shows the table's running round, and sys.tiering_rounds has all of them.",
        )
    print_rows([row_in_sql(result)], output)
