"""`lakeward skip-record`: excludes a record that cannot be tiered, like `CALL sys.skip_record`."""

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
    bucket_id: Annotated[int, typer.Argument(metavar="BUCKET", help="Id of the stopped bucket.")],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="Offset of the record, from the error.")],
    partition: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the bucket's partition, in a partitioned table.")] = None,
    reason: Annotated[str | None, typer.Option(help="Reason, for the events.")] = None,
    uri: UriOption = DEFAULT_URI,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Exclude permanently the record at which a bucket has stopped.

    Example: lakeward skip-record sales.customers 0 1187 --reason 'a map with a key twice'
    """
    with LakewardClient(uri) as client:
        result = client.skip_record(
            table, bucket_id, offset, partition=partition, reason=reason, dry_run=dry_run, idempotency_key=idempotency_key
        )
    row = {name: getattr(result, name) for name in ("bucket_id", "offset", "value", "outcome")}
    print_rows([{"table": str(result.path)} | row], output)
