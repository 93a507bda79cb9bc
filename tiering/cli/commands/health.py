"""`lakeward health`: shows how well the lake tables can be read, the worst first."""

from __future__ import annotations

from typing import Any

from sys_tables.catalog_client import SystemCatalog
from tiering.cli.terminal.options import DEFAULT_URI, AnyTableArgument, FormatOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.errors import UnknownTable
from tiering.lake.health.score import ILL_SCORE, POOR_SCORE
from tiering.model.names import parse_table_path

COLUMNS = (
    "table",
    "score",
    "reason",
    "data_files",
    "small_files",
    "delete_files",
    "dead_row_share",
    "snapshots",
    "metadata_bytes",
    "rewrite_bytes",
    "last_upkeep_time",
    "next_upkeep_time",
    "upkeep_waits_for",
)
LEFT_OUT_FIRST = (
    "upkeep_waits_for",
    "next_upkeep_time",
    "last_upkeep_time",
    "snapshots",
    "delete_files",
    "dead_row_share",
    "metadata_bytes",
    "rewrite_bytes",
    "small_files",
    "data_files",
)
"""Columns that a narrow terminal leaves out, in this order."""


def health(table: AnyTableArgument = None, uri: UriOption = DEFAULT_URI, output: FormatOption = OutputFormat.TABLE) -> None:
    """Show how well the lake tables can be read, as a score from 0 to 100 with the reasons. The worst table comes first.

    Example: lakeward health sales.orders
    """
    path = None if table is None else parse_table_path(table)
    database_name, table_name = (None, None) if path is None else (path.database_name, path.table_name)
    with SystemCatalog(uri) as catalog:
        rows = catalog.read("lake_table_health", database_name=database_name, table_name=table_name)
    if path is not None and not rows:
        raise UnknownTable(
            f"there is no lake table {path}", hint="`lakeward tables` lists the tables, and shows which of them have a lake table."
        )
    shown = [{"table": f"{row['database_name']}.{row['table_name']}", **row} for row in sorted(rows, key=_worst_first)]
    columns = COLUMNS if output is OutputFormat.TABLE else ("table",)
    print_rows(shown, output, columns, {"score": _score_style}, left_out_first=LEFT_OUT_FIRST)


def _worst_first(row: dict[str, Any]) -> tuple[bool, int, str, str]:
    """Returns a sort key. Tables without a score come last."""
    return row["score"] is None, row["score"] or 0, row["database_name"], row["table_name"]


def _score_style(score: Any) -> str:
    if not isinstance(score, int) or score >= POOR_SCORE:
        return ""
    return "red" if score < ILL_SCORE else "yellow"
