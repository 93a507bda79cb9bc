"""The commands that are one CALL and print its row: `pause`, `resume`, `cancel`, `retry`, `reconcile`, `skip-record`, `fence`."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.terminal.call_options import CallOptions
from tiering.cli.terminal.option_groups import with_options
from tiering.cli.terminal.options import TableArgument, parse_end
from tiering.errors import InvalidArgument
from tiering.model.names import parse_table_path
from tiering.procedures.cancel_tiering import CancelOutcome, CancelTiering
from tiering.procedures.fence_tierer import FenceTierer
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.resume_tiering import ResumeTiering
from tiering.procedures.retry_tiering import RetryTiering
from tiering.procedures.skip_record import SkipRecord

ReasonOption = Annotated[str | None, typer.Option(help="Reason, for the events.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (pause, resume, cancel, retry, reconcile, skip_record, fence):
        app.command(command.__name__.replace("_", "-"))(command)


@with_options(CallOptions, "call")
def pause(
    table: TableArgument,
    *,
    reason: ReasonOption = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End of the pause: a time (ISO 8601, UTC unless it has a zone), or a duration from now such as '2 h'. Default: the pause "
            "lasts until `lakeward resume`.",
        ),
    ] = None,
    call: CallOptions,
) -> None:
    """Pause the tiering of a table. A running round ends normally.

    Example: lakeward pause sales.orders --reason 'the lake is moved'
    """
    call.print_row(call.perform(PauseTiering(parse_table_path(table), reason, parse_end(until, "--until"))))


@with_options(CallOptions, "call")
def resume(table: TableArgument, *, reason: ReasonOption = None, call: CallOptions) -> None:
    """End the pause of a table.

    Example: lakeward resume sales.orders
    """
    call.print_row(call.perform(ResumeTiering(parse_table_path(table), reason)))


@with_options(CallOptions, "call")
def cancel(
    round_id: Annotated[str, typer.Argument(metavar="ROUND", help="Id of the round, from sys.tiering_rounds.")],
    *,
    message: Annotated[str | None, typer.Option(help="Reason, for the log of the tierer and for the history.")] = None,
    call: CallOptions,
) -> None:
    """End a running round without a commit. Its rows stay in the log. A round whose commit was granted already is not cancelled.

    Example: lakeward cancel 0198c1f2-7a30-7cc1-8e4b-2f6a51d0a9b3 --message 'wrong lake'
    """
    result = call.perform(CancelTiering(round_id, message))
    if result.outcome is CancelOutcome.UNKNOWN:
        raise InvalidArgument(
            f"there is no round {round_id[:60]!r}",
            hint="lakeward status DATABASE.TABLE shows the table's running round, and sys.tiering_rounds has all of them.",
        )
    call.print_row(result)


@with_options(CallOptions, "call")
def retry(table: TableArgument, *, call: CallOptions) -> None:
    """Retry a failed table now, also after a permanent error.

    Example: lakeward retry sales.orders
    """
    call.print_row(call.perform(RetryTiering(parse_table_path(table))))


@with_options(CallOptions, "call")
def reconcile(
    table: TableArgument,
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help="adopt, accept, retier or deduplicate. docs/lake-repair.md tells when to use which.")
    ],
    *,
    call: CallOptions,
) -> None:
    """Make a lake table usable for tiering again after a rollback, a replacement or commits of other programs.

    Example: lakeward reconcile sales.orders retier --dry-run
    """
    call.print_row(call.perform(ReconcileLake(parse_table_path(table), action)))


@with_options(CallOptions, "call")
def skip_record(
    table: TableArgument,
    bucket_id: Annotated[int, typer.Argument(metavar="BUCKET", help="Id of the stopped bucket.")],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="Offset of the record, from the error.")],
    *,
    partition: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the bucket's partition, in a partitioned table.")] = None,
    reason: ReasonOption = None,
    call: CallOptions,
) -> None:
    """Exclude permanently the record at which a bucket has stopped.

    Example: lakeward skip-record sales.customers 0 1187 --reason 'a map with a key twice'
    """
    result = call.perform(SkipRecord(parse_table_path(table), bucket_id, offset, partition, reason))
    call.print_row(result, left_out=("partition_name",))


@with_options(CallOptions, "call")
def fence(
    tierer_id: Annotated[str, typer.Argument(metavar="TIERER", help="Id of the tierer, from sys.tierers.")],
    *,
    reason: ReasonOption = None,
    call: CallOptions,
) -> None:
    """Take all tables away from a tierer and give it no new ones. Other tierers continue with the tables.

    Example: lakeward fence tierer-7 --reason 'its machine is going away'
    """
    call.print_row(call.perform(FenceTierer(tierer_id, reason)))
