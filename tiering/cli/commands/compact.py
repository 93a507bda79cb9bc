"""`lakeward compact`: merges small files of a lake table now, like `CALL sys.rewrite_data_files`."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, Any

import typer

from tiering.cli.commands.tier import round_bar
from tiering.cli.terminal.completion import PROGRAM
from tiering.cli.terminal.consoles import printable
from tiering.cli.terminal.exit_status import ExitStatus
from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.model.names import parse_table_path
from tiering.procedures.base import UpkeepCallOutcome, UpkeepResult

LEFT_OUT_FIRST = ("rounds", "dropped_buckets", "round_id", "written_bytes")
"""Columns that a narrow terminal leaves out, in this order."""

UNFINISHED = (UpkeepCallOutcome.WAITING, UpkeepCallOutcome.RUNNING)


def compact(
    table: TableArgument,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION", help="Only partitions for which this condition holds. It compares partition columns with literals."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Rewrite large files, too, in buckets that have more files than they need.")] = False,
    uri: UriOption = DEFAULT_URI,
    wait: Annotated[bool, typer.Option(help="Wait until no file is left to rewrite.")] = True,
    timeout_ms: Annotated[int, typer.Option(metavar="MS", help="Longest time to wait, including the wait for a tierer.")] = 300_000,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Merge the small data files of a lake table now, and apply its deletes.

    Example: lakeward compact sales.orders --where "day < '2026-03-01'"
    """
    path = parse_table_path(table)
    with LakewardClient(uri) as client, round_bar(str(path), "compacting") as show:
        result = client.rewrite_data_files(
            path,
            where=where,
            full=full,
            wait=wait,
            timeout_ms=timeout_ms,
            wait_for_tierer=True,
            on_progress=show,
            dry_run=dry_run,
            idempotency_key=idempotency_key,
            caller=getpass.getuser(),
        )
    print_rows([_row(result)], output, left_out_first=LEFT_OUT_FIRST)
    check_done(result, wait=wait)


def _row(result: UpkeepResult) -> dict[str, Any]:
    """Returns the row to print."""
    stats = result.stats
    return {
        "table": str(result.path),
        "outcome": result.outcome.value,
        "rewritten_files": stats.files_before,
        "added_files": stats.files_after,
        "rewritten_bytes": stats.bytes_read,
        "written_bytes": stats.bytes_written,
        "dropped_buckets": stats.dropped,
        "bytes_left": stats.bytes_left,
        "rounds": result.rounds,
        "round_id": result.round_id,
        "reason": result.reason,
    }


def check_done(result: UpkeepResult, *, wait: bool) -> None:
    """Ends the program with the exit status NOT_YET if the call stopped waiting before the upkeep was done."""
    if wait and result.outcome in UNFINISHED:
        why = printable(result.reason or "")
        print(f"{PROGRAM}: the upkeep of {result.path} is not done yet and continues: {why}", file=sys.stderr)
        raise typer.Exit(ExitStatus.NOT_YET)
