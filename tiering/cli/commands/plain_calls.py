"""The commands that are one CALL and print its row: `pause`, `resume`, `cancel`, `retry`, `reconcile`, `skip-record`, `fence`.

The arguments of a command are the fields of the procedure's declaration, so a new argument needs no line here.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any

import pyarrow as pa
import typer

from tiering.cli.terminal.call_options import CallOptions
from tiering.cli.terminal.option_groups import Command, as_command, built, parameters_of
from tiering.cli.terminal.options import TableArgument, parse_end
from tiering.errors import InvalidArgument
from tiering.model import declare
from tiering.model.names import parse_table_path
from tiering.procedures.base import Mutation
from tiering.procedures.cancel_tiering import CancelOutcome, CancelTiering, CancelTieringResult
from tiering.procedures.fence_tierer import FenceTierer
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.resume_tiering import ResumeTiering
from tiering.procedures.retry_tiering import RetryTiering
from tiering.procedures.skip_record import SkipRecord

_TIME = declare.SCALARS[datetime]
_TYPES: Mapping[pa.DataType, type] = {pa.string(): str, pa.int32(): int, pa.int64(): int, pa.bool_(): bool, pa.float64(): float, _TIME: str}
"""The type of a value on the command line, by its type in SQL."""

_OF_CALL_OPTIONS = {declared.name for declared in dataclasses.fields(CallOptions)}

ReasonOption = Annotated[str | None, typer.Option(help="Reason, for the events.")]


def plain_call(
    request_class: type[Mutation[Any]], *, left_out: tuple[str, ...] = (), check: Callable[[Any, Any], None] | None = None, **shown: Any
) -> Callable[[Command], Command]:
    """Decorates the name and the help of a command that performs a request and prints the result as its row in SQL.

    A required argument is a word, another one is an option of its name, and the comment of the declaration is its help. `shown` has the
    annotations of arguments of another form. `left_out`: columns that are not printed. `check` gets the request and its result, and raises
    if the result is an error on the command line.
    """
    arguments = [argument for argument in declare.parameters_of(request_class) if argument.attribute not in _OF_CALL_OPTIONS]
    shown |= {"table": TableArgument}

    def decorate(command: Command) -> Command:
        def run(**values: Any) -> None:
            call = built(CallOptions, values)
            request = request_class(**{argument.attribute: _typed(argument, values[_name(argument)]) for argument in arguments})
            result = call.perform(request)
            if check is not None:
                check(request, result)
            call.print_row(result, left_out)

        parameters = [_parameter(request_class, argument, shown.get(_name(argument))) for argument in arguments]
        return as_command(run, command, [*parameters, *parameters_of(CallOptions)])

    return decorate


def _parameter(request_class: type[Mutation[Any]], argument: declare.Parameter, shown: Any) -> inspect.Parameter:
    kind: Any = _TYPES[argument.arrow_type]
    default: Any
    if argument.required:
        default, annotation = inspect.Parameter.empty, Annotated[kind, typer.Argument(help=argument.comment)]
    else:
        default = next(declared.default for declared in dataclasses.fields(request_class) if declared.name == argument.attribute)
        annotation = Annotated[kind | None, typer.Option(help=argument.comment)]
    return inspect.Parameter(_name(argument), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown or annotation)


def _name(argument: declare.Parameter) -> str:
    """Returns the name of an argument on the command line."""
    return argument.name if argument.table_path else argument.attribute


def _typed(argument: declare.Parameter, value: Any) -> Any:
    """Returns the value that the declaration takes. Raises InvalidArgument."""
    if argument.table_path:
        return parse_table_path(value)
    return parse_end(value, f"--{_name(argument)}") if argument.arrow_type == _TIME else value


@plain_call(
    PauseTiering,
    reason=ReasonOption,
    until=Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End of the pause: a time (ISO 8601, UTC unless it has a zone), or a duration from now such as '2 h'. Default: the pause "
            "lasts until `lakeward resume`.",
        ),
    ],
)
def pause() -> None:
    """Pause the tiering of a table. A running round ends normally.

    Example: lakeward pause sales.orders --reason 'the lake is moved'
    """


@plain_call(ResumeTiering, reason=ReasonOption)
def resume() -> None:
    """End the pause of a table.

    Example: lakeward resume sales.orders
    """


def _check_cancelled(request: CancelTiering, result: CancelTieringResult) -> None:
    if result.outcome is CancelOutcome.UNKNOWN:
        raise InvalidArgument(
            f"there is no round {request.round_id[:60]!r}",
            hint="lakeward status DATABASE.TABLE shows the table's running round, and sys.tiering_rounds has all of them.",
        )


@plain_call(
    CancelTiering,
    check=_check_cancelled,
    round_id=Annotated[str, typer.Argument(metavar="ROUND", help="Id of the round, from sys.tiering_rounds.")],
    message=Annotated[str | None, typer.Option(help="Reason, for the log of the tierer and for the history.")],
)
def cancel() -> None:
    """End a running round without a commit. Its rows stay in the log. A round whose commit was granted already is not cancelled.

    Example: lakeward cancel 0198c1f2-7a30-7cc1-8e4b-2f6a51d0a9b3 --message 'wrong lake'
    """


@plain_call(RetryTiering)
def retry() -> None:
    """Retry a failed table now, also after a permanent error.

    Example: lakeward retry sales.orders
    """


@plain_call(
    ReconcileLake,
    action=Annotated[
        str, typer.Argument(metavar="ACTION", help="adopt, accept, retier or deduplicate. docs/lake-repair.md tells when to use which.")
    ],
)
def reconcile() -> None:
    """Make a lake table usable for tiering again after a rollback, a replacement or commits of other programs.

    Example: lakeward reconcile sales.orders retier --dry-run
    """


@plain_call(
    SkipRecord,
    left_out=("partition_name",),
    bucket_id=Annotated[int, typer.Argument(metavar="BUCKET", help="Id of the stopped bucket.")],
    offset=Annotated[int, typer.Argument(metavar="OFFSET", help="Offset of the record, from the error.")],
    partition=Annotated[str | None, typer.Option(metavar="NAME", help="Name of the bucket's partition, in a partitioned table.")],
    reason=ReasonOption,
)
def skip_record() -> None:
    """Exclude permanently the record at which a bucket has stopped.

    Example: lakeward skip-record sales.customers 0 1187 --reason 'a map with a key twice'
    """


@plain_call(
    FenceTierer,
    tierer_id=Annotated[str, typer.Argument(metavar="TIERER", help="Id of the tierer, from sys.tierers.")],
    reason=ReasonOption,
)
def fence() -> None:
    """Take all tables away from a tierer and give it no new ones. Other tierers continue with the tables.

    Example: lakeward fence tierer-7 --reason 'its machine is going away'
    """


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (pause, resume, cancel, retry, reconcile, skip_record, fence):
        app.command(command.__name__.replace("_", "-"))(command)
