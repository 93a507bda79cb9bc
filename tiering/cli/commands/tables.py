"""`lakeward tables`: which tables there are, and which of them go to the lake."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sys_tables.query.lookup import near_hint, resolve_name
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.cli.system_catalog import SystemCatalog
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.durations import format_duration
from tiering.errors import UnknownDatabase
from tiering.model.names import SYSTEM_DATABASE

SHOWN = ("table", "type", "buckets", "bucket_key", "partitioned_by", "lake", "freshness", "columns")
LEFT_OUT_FIRST = ("columns", "bucket_key", "partitioned_by", "buckets", "freshness")
"""Of SHOWN, on a terminal too narrow for them; docs/cli.md has the same order."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("tables")(tables)


def tables(
    database: Annotated[str | None, typer.Argument(help="Only this database; `sys` lists the system tables.", show_default=False)] = None,
    uri: UriOption = DEFAULT_URI,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """List the source tables, their shape, and which of them go to the lake.

    Example: lakeward tables sales --format csv
    """
    with SystemCatalog(uri) as catalog:
        namespace = None if database is None else _spelled(catalog, database)
        if namespace == SYSTEM_DATABASE:
            print_rows([_system_row(table) for table in catalog.describe().system_tables], output, ("table", "comment"))
            return
        rows = catalog.read("tables", **({} if namespace is None else {"database_name": namespace}))
    if output is OutputFormat.TABLE:
        print_rows([_for_people(row) for row in rows], output, SHOWN, left_out_first=LEFT_OUT_FIRST)
    else:
        print_rows([_for_programs(row) for row in rows], output, ("table",))


def _spelled(catalog: SystemCatalog, database: str) -> str:
    known = list(catalog.describe().namespaces)
    if (namespace := resolve_name(database, known)) is None:
        raise UnknownDatabase(f"there is no database {database!r}", hint=near_hint(database, known, "databases"))
    return namespace


def _system_row(table: pb.SystemTable) -> dict[str, Any]:
    return {"table": f"{table.namespace}.{table.name}", "comment": table.comment}


def _for_programs(row: dict[str, Any]) -> dict[str, Any]:
    return {"table": f"{row['database_name']}.{row['table_name']}", **row}


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "table": f"{row['database_name']}.{row['table_name']}",
        "type": row["table_type"],
        "buckets": row["bucket_count"],
        "bucket_key": ", ".join(row["bucket_keys"]) or None,
        "partitioned_by": ", ".join(row["partition_keys"]) or None,
        "lake": row["lake_format"],
        "freshness": None if row["freshness_ms"] is None else format_duration(row["freshness_ms"]),
        "columns": row["schema"],
    }
