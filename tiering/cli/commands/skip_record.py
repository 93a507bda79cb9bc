"""`lakeward skip-record`: leaves out a record that cannot be tiered, as `CALL sys.skip_record` does."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("skip-record")(skip_record)


def skip_record(
    table: TableArgument,
    bucket_id: Annotated[int, typer.Argument(metavar="BUCKET", help="The bucket that stands at it.")],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="The record's offset, as the error names it.")],
    partition: Annotated[str | None, typer.Option(help="Name of the bucket's partition.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why, for the events.")] = None,
    uri: UriOption = DEFAULT_URI,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Leave out, for good, the record at which a bucket stands.

    Example: lakeward skip-record sales.customers 0 1187 --reason 'a map with a key twice'
    """
    with LakewardClient(uri) as client:
        result = client.skip_record(
            table, bucket_id, offset, partition=partition, reason=reason, dry_run=dry_run, idempotency_key=idempotency_key
        )
    row = {name: getattr(result, name) for name in ("bucket_id", "offset", "value", "outcome")}
    print_rows([{"table": str(result.path)} | row], output)
