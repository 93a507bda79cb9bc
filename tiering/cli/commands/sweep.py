"""`lakeward sweep`: asks the coordinator to delete the files that dead rounds left in lake tables."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.options import DEFAULT_URI, AnyTableArgument, FormatOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.durations import parse_duration_ms
from tiering.model.names import parse_table_path


def sweep(
    table: AnyTableArgument = None,
    uri: UriOption = DEFAULT_URI,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what the command would delete, and delete nothing.")] = False,
    older_than: Annotated[str, typer.Option(metavar="DURATION", help="Delete only files that are at least this old.")] = "1 d",
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Delete files that dead rounds left in lake tables. No snapshot names them, and no round can still commit them.

    Example: lakeward sweep sales.orders --dry-run --older-than "6 h"
    """
    path = None if table is None else parse_table_path(table)
    guard_ms = parse_duration_ms(older_than, "--older-than")
    with LakewardClient(uri) as client:
        results = client.sweep_lake(path, older_than_ms=guard_ms, dry_run=dry_run)
    rows = [
        {
            "table": str(result.path),
            "files": result.files,
            "would_remove" if dry_run else "removed": result.removed,
            "bytes": result.removed_bytes,
            "kept": ", ".join(f"{count} {reason}" for reason, count in sorted(result.kept.items())),
            "error": result.error,
        }
        for result in results
    ]
    print_rows(rows, output, ("table", "files", "would_remove" if dry_run else "removed", "bytes", "kept", "error"))
