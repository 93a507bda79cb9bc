"""`lakeward export-status`: writes all system tables, redacted, into one file for support."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tiering.cli.terminal.new_file import ForceOption
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows

COLUMNS = ("table", "rows", "error")


def export_status(
    file: Annotated[Path, typer.Argument(help="File to write. Its ending chooses the format: .parquet, .csv or .json.")],
    uri: UriOption = DEFAULT_URI,
    force: ForceOption = False,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Write all system tables of one moment, without secrets, into a file that you can send to support.

    The file names tables that could not be read. The exit status is then 1.

    Example: lakeward export-status status.json

    Example: lakeward export-status status.parquet --force
    """
    from sys_tables.catalog_client import SystemCatalog
    from tiering.cli.status.bundle import Contents, redacted, write_bundle

    outcomes: list[dict[str, object]] = []

    def contents(catalog: SystemCatalog) -> Iterator[Contents]:
        for table in map(redacted, catalog.read_all()):
            error, rows = (None, len(table.rows)) if table.error is None else (str(table.error), None)
            outcomes.append({"table": f"sys.{table.name}", "rows": rows, "error": error})
            yield table

    with SystemCatalog(uri) as catalog:
        write_bundle(file, uri, contents(catalog), force=force)
    print_rows(outcomes, output, COLUMNS, {"error": lambda _: "red"})
    if any(outcome["error"] for outcome in outcomes):
        raise typer.Exit(1)
