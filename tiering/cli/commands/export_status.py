"""`lakeward export-status`: all system tables at one moment, redacted, in one file for a support bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows

COLUMNS = ("table", "rows", "error")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("export-status")(export_status)


def export_status(
    file: Annotated[Path, typer.Argument(help="Ends with .parquet, .csv or .json, which chooses the format.")],
    uri: UriOption = DEFAULT_URI,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Write all system tables of one moment into a file, without secrets: what somebody who helps you needs to see.

    A table that cannot be read is named in the file; the exit status is then 1.

    Example: lakeward export-status status.json

    Example: lakeward export-status status.parquet --force
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.status.bundle import new_bundle, redacted
    from tiering.cli.system_catalog import SystemCatalog

    outcomes: list[dict[str, object]] = []
    with new_bundle(file, uri, force=force) as bundle, SystemCatalog(uri) as catalog:
        for read in catalog.read_all():
            contents = redacted(read)
            bundle.add(contents)
            failed = contents.error
            counted = None if failed else len(contents.rows)
            outcomes.append({"table": f"sys.{contents.name}", "rows": counted, "error": None if failed is None else str(failed)})
    print_rows(outcomes, output, COLUMNS, {"error": lambda _: "red"})
    if any(outcome["error"] for outcome in outcomes):
        raise typer.Exit(1)
