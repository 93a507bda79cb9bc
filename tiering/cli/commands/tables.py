"""`lakeward tables`: lists the source tables, and which of them are tiered into the lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sys_tables.catalog_client import SystemCatalog
from sys_tables.query.lookup import near_hint, resolve_name
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.cli.terminal.cluster_options import FlussServersOption
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.durations import format_duration
from tiering.errors import UnknownDatabase, UnknownTable
from tiering.model.names import SYSTEM_DATABASE

if TYPE_CHECKING:
    from tiering.cluster.base import TableCatalog
    from tiering.model.tables import TableInfo

SHOWN = ("table", "type", "buckets", "bucket_key", "partitioned_by", "lake", "freshness", "columns")
LEFT_OUT_FIRST = ("columns", "bucket_key", "partitioned_by", "buckets", "freshness")
"""Columns that a narrow terminal leaves out, in this order. docs/cli.md has the same order."""


def tables(
    database: Annotated[
        str | None, typer.Argument(metavar="DATABASE", help="Only this database. `sys` lists the system tables.", show_default=False)
    ] = None,
    uri: UriOption = DEFAULT_URI,
    fluss: FlussServersOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """List the source tables with their type, buckets, keys and columns, and which of them are tiered into the lake.

    Example: lakeward tables sales --format csv
    """
    if fluss is not None:
        rows = _rows_of_fluss(fluss, database)
    else:
        with SystemCatalog(uri) as catalog:
            namespace = None if database is None else _stored_name(database, list(catalog.describe().namespaces))
            if namespace == SYSTEM_DATABASE:
                print_rows([_system_row(table) for table in catalog.describe().system_tables], output, ("table", "comment"))
                return
            rows = catalog.read("tables", database_name=namespace)
    if output is OutputFormat.TABLE:
        print_rows([_for_people(row) for row in rows], output, SHOWN, left_out_first=LEFT_OUT_FIRST)
    else:
        print_rows([_for_programs(row) for row in rows], output, ("table",))


def _rows_of_fluss(servers: str, database: str | None) -> list[dict[str, Any]]:
    """Returns the rows of sys.tables from the cluster itself, without the locations of lake tables, which only a service knows."""
    from sys_tables.tables.tables import table_row
    from tiering.cli.service_cluster import fluss_cluster

    with fluss_cluster(servers) as cluster:
        tables = cluster.tables(None if database is None else _stored_name(database, cluster.databases()))
        counts = {table.table_id: _partition_count(cluster, table) for table in tables if table.partition_keys}
    return [_as_read(asdict(table_row(table, counts.get(table.table_id), None))) for table in tables]


def _partition_count(cluster: TableCatalog, table: TableInfo) -> int | None:
    try:
        return len(cluster.partitions(table))
    except UnknownTable:  # the table was dropped after it was listed
        return None


def _as_read(row: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}


def _stored_name(database: str, databases: Sequence[str]) -> str:
    if (namespace := resolve_name(database, databases)) is None:
        raise UnknownDatabase(f"there is no database {database!r}", hint=near_hint(database, databases, "databases"))
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
