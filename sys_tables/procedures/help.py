"""CALL sys.help: the procedures and their parameters, one row each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, Procedure, procedure
from sys_tables.query.lookup import near_hint
from tiering.errors import UnknownProcedure
from tiering.model.names import NAME_LIMIT

NAME = "help"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    procedure: str | None = parameter("The procedure to explain; NULL = all of them.", default=None)


@dataclass(frozen=True)
class Output:
    """First a row for the procedure itself, with its description; then a row for each parameter."""

    procedure: str = column("Name of the procedure.")
    parameter: str | None = column("Name of the parameter; NULL in the row of the procedure itself.")
    type: str | None = column("Its Spark SQL type.")
    required: bool | None = column("Whether it must be given.")
    default: str | None = column("What it is if it is not given, as a literal.")
    comment: str = column("What the parameter means, or what the procedure does.")


@procedure(NAME, Parameters, Output, comment="Explains the procedures and their parameters.", mutates=False)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    wanted = [p for p in call.procedures if arguments.procedure is None or p.name == arguments.procedure.lower()]
    if not wanted and arguments.procedure is not None:
        raise UnknownProcedure(
            f"there is no procedure {arguments.procedure[:NAME_LIMIT]!r}", hint=_hint(arguments.procedure, call.procedures)
        )
    for explained in wanted:
        for row in _rows(explained):
            yield row


def _hint(text: str, procedures: Sequence[Procedure]) -> str:
    """Those whose name begins with the text, or else the nearest."""
    names = [explained.name for explained in procedures]
    if matching := [name for name in names if text.strip() and name.startswith(text.strip().lower())]:
        return f"Did you mean {' or '.join(matching)}?"
    return near_hint(text, names, "procedures")


def _rows(explained: Procedure) -> Iterator[Output]:
    yield Output(explained.name, None, None, None, None, explained.comment)
    for p in explained.parameters:
        yield Output(explained.name, p.name, p.type, p.required, p.default, p.comment)
