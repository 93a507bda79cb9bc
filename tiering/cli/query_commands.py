"""`lakeward status` and `lakeward tier`: what SQL shows and does, without Spark."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from typing import Annotated, Any

import typer

from tiering.cli.options import DEFAULT_URI, AnyTableArgument, FormatOption, TableArgument, UriOption
from tiering.cli.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.coordinator.api import TableStatus, TierTableResult
from tiering.names import parse_table_path

STATUS_COLUMNS = (
    "table",
    "status",
    "status_reason",
    "last_tiered_time",
    "lag_ms",
    "pending_records",
    "lake_records",
    "error_class",
    "last_error",
)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("status")(status)
    app.command("tier")(tier)


def status(
    table: AnyTableArgument = None,
    uri: UriOption = DEFAULT_URI,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Show how the tiering of each lake table stands.

    Example: lakeward status sales.orders --format json
    """
    path = None if table is None else parse_table_path(table)
    with LakewardClient(uri) as client:
        statuses = client.list_tiering_statuses(table_path=path)
    rows = [_status_row(one) for one in statuses]
    print_rows(rows, output, STATUS_COLUMNS if output is OutputFormat.TABLE else None)


def _status_row(one: TableStatus) -> dict[str, Any]:
    return {"table": f"{one.database_name}.{one.table_name}", **asdict(one)}


def tier(
    table: TableArgument,
    uri: UriOption = DEFAULT_URI,
    wait: Annotated[bool, typer.Option(help="Wait until the lake has what the log has now.")] = True,
    timeout_ms: Annotated[int, typer.Option(help="How long to wait.")] = 300_000,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Tier a table now.

    Example: lakeward tier sales.orders
    """
    with LakewardClient(uri) as client:
        result = client.tier_table(parse_table_path(table), wait=wait, timeout_ms=timeout_ms, caller=getpass.getuser())
    print_rows([_result_row(result)], output)


def _result_row(result: TierTableResult) -> dict[str, Any]:
    row = asdict(result)
    row.pop("path")
    return {"table": str(result.path), **row}
