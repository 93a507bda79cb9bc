"""`lakeward expire`: removes old snapshots of a lake table now, like `CALL sys.expire_snapshots`."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from tiering.cli.commands.compact import check_done
from tiering.cli.commands.tier import round_bar
from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, TableArgument, UriOption, parse_moment
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.durations import parse_duration_ms
from tiering.errors import InvalidArgument
from tiering.model.names import parse_table_path
from tiering.procedures.base import UpkeepResult


def expire(
    table: TableArgument,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Remove only snapshots from before this time (ISO 8601, UTC unless it has a zone), or older than a duration such as "
            "'6 h'. Default: the table's option table.datalake.snapshot.max-age.",
            show_default=False,
        ),
    ] = None,
    retain_last: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT",
            help="How many of the newest snapshots stay. Default: the table's option table.datalake.snapshot.min-count.",
            show_default=False,
        ),
    ] = None,
    uri: UriOption = DEFAULT_URI,
    wait: Annotated[bool, typer.Option(help="Wait until the snapshots are removed.")] = True,
    timeout_ms: Annotated[int, typer.Option(metavar="MS", help="Longest time to wait, including the wait for a tierer.")] = 300_000,
    dry_run: DryRunOption = False,
    idempotency_key: KeyOption = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Remove old snapshots of a lake table now, and show why the other snapshots stay.

    Example: lakeward expire sales.orders --older-than "6 h" --retain-last 5
    """
    path, before = parse_table_path(table), parse_age(older_than, "--older-than")
    with LakewardClient(uri) as client, round_bar(str(path), "expiring snapshots of") as show:
        result = client.expire_snapshots(
            path,
            older_than=before,
            retain_last=retain_last,
            wait=wait,
            timeout_ms=timeout_ms,
            wait_for_tierer=True,
            on_progress=show,
            dry_run=dry_run,
            idempotency_key=idempotency_key,
            caller=getpass.getuser(),
        )
    print_rows([_row(result)], output, left_out_first=("round_id",))
    check_done(result, wait=wait)


def parse_age(text: str | None, option: str) -> datetime | None:
    """Returns a time such as `2026-03-01T08:00:00Z`, or the time that is a duration such as `6 h` ago. Raises InvalidArgument."""
    try:
        return parse_moment(text, option)
    except InvalidArgument:
        assert text is not None
        try:
            return datetime.now(UTC) - timedelta(milliseconds=parse_duration_ms(text, option))
        except InvalidArgument:
            hint = "Write it as 2026-03-01T08:00:00Z, or as an age: '6 h'."
            raise InvalidArgument(f"{option} {text[:60]!r} is neither a time nor a duration", hint=hint) from None


def _row(result: UpkeepResult) -> dict[str, Any]:
    """Returns the row to print."""
    return {
        "table": str(result.path),
        "outcome": result.outcome.value,
        "deleted_snapshots": result.stats.snapshots_expired,
        "kept_snapshots": sum(result.kept.values()) if result.kept else None,
        "kept_because": "; ".join(f"{number}: {reason}" for reason, number in result.kept.items()) or None,
        "round_id": result.round_id,
        "reason": result.reason,
    }
