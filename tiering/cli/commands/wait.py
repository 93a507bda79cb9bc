"""`lakeward wait`: waits until the lake has certain rows of a table, like `CALL sys.wait_for_tiering`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tiering.cli.commands.tier import round_bar
from tiering.cli.terminal.completion import PROGRAM
from tiering.cli.terminal.consoles import printable
from tiering.cli.terminal.exit_status import ExitStatus
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, TableArgument, UriOption, parse_moment, read_pairs
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.errors import InvalidArgument
from tiering.model.declare import row_in_sql
from tiering.model.names import parse_table_path
from tiering.procedures.base import Progress


def wait(
    table: TableArgument,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="Wait for the rows written until this time (ISO 8601, UTC unless it has a zone).")
    ] = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BUCKET=OFFSET",
            help="Wait for the rows of this bucket below the offset. 17/3 is bucket 3 of partition 17. Can be repeated.",
        ),
    ] = None,
    uri: UriOption = DEFAULT_URI,
    timeout_ms: Annotated[int, typer.Option(metavar="MS", help="Longest time to wait.")] = 300_000,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Wait until the lake has certain rows of a table. Default: all rows that its log has now. The command starts no round.

    Example: lakeward wait sales.orders --timeout-ms 60000

    Example: lakeward wait sales.orders --timestamp 2026-03-01T08:00:00Z
    """
    path = parse_table_path(table)
    until, offsets = parse_moment(timestamp, "--timestamp"), parse_offsets(offset)
    latest = Progress("the wait is over")
    with LakewardClient(uri) as client, round_bar(str(path), "waiting for") as show:

        def follow(progress: Progress) -> None:
            nonlocal latest
            latest = progress
            show(progress)

        result = client.wait_for_tiering(path, timestamp=until, offsets=offsets, timeout_ms=timeout_ms, on_progress=follow)
    print_rows([row_in_sql(result)], output)
    if not result.reached:
        print(f"{PROGRAM}: the lake does not have the rows yet: {printable(latest.message)}", file=sys.stderr)
        raise typer.Exit(ExitStatus.NOT_YET)


def parse_offsets(pairs: list[str] | None) -> dict[str, int] | None:
    """Returns the offsets by bucket, or None without offsets. Raises InvalidArgument."""
    offsets: dict[str, int] = {}
    for bucket, text in read_pairs(pairs or (), "--offset").items():
        if not (text.isascii() and text.isdigit() and int(text) < 2**63):
            raise InvalidArgument(f"--offset {bucket}={text[:60]} is not an offset", hint="Offsets are whole numbers, 0 or greater.")
        offsets[bucket] = int(text)
    return offsets or None
