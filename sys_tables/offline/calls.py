"""CALL with nothing running: procedures that only read work, as far as they ask the coordinator for nothing but a look.

One that changes something is refused, `dry_run` included: it needs the service, which alone may write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NoReturn, cast

import duckdb

from sys_tables.declare.procedure import Call, Procedure, is_row
from sys_tables.offline.allowed_sources import check_statement
from sys_tables.offline.answers import Answer, answer_of, queried
from sys_tables.offline.parsing import Argument, CallStatement
from sys_tables.offline.relations import CATALOG
from sys_tables.offline.translate import expression_sql
from sys_tables.registry import Registry
from tiering.coordinator.interface import CheckResult, NamesView, OpenCalls
from tiering.errors import InvalidArgument, StatementFailed, UnknownProcedure
from tiering.library_guards.duckdb_guard import lock
from tiering.model.declare import Parameter
from tiering.model.names import SYSTEM_DATABASE
from tiering.model.sql_types import ArgumentValue, Instant
from tiering.procedures.arguments import FLUSS_SESSION, ProcedureInput, SessionNames
from tiering.procedures.base import CallRequest, Progress, ResultT
from tiering.procedures.validate_table import ValidateTable
from tiering.validate.results import level_of

Validate = Callable[[ValidateTable], Sequence[CheckResult]]
"""Blocks until the proof is done."""


class OfflineControl:
    """A `CoordinatorControl` that can validate; whatever else it is asked for needs the service."""

    def __init__(self, validate: Validate, procedure: str, start_command: str | None) -> None:
        self._validate = validate
        self._procedure = procedure
        self._start_command = start_command

    async def perform(self, request: CallRequest[ResultT]) -> ResultT:
        """Raises StatementFailed."""
        self.refuse()

    async def perform_with_progress(self, request: CallRequest[ResultT]) -> AsyncGenerator[Progress | ResultT, None]:
        """The proof's results. Raises InvalidArgument; StatementFailed for anything but a validation."""
        if not isinstance(request, ValidateTable):
            self.refuse()
        level_of(request.level)
        yield cast(ResultT, tuple(await asyncio.to_thread(self._validate, request)))

    async def knows(self, idempotency_key: str, caller: str) -> bool:
        """Raises StatementFailed."""
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raises StatementFailed."""
        if self._start_command is None:
            raise StatementFailed(f"CALL {SYSTEM_DATABASE}.{self._procedure} is not answered by --engine duckdb", hint="Leave it out.")
        raise StatementFailed(
            f"CALL {SYSTEM_DATABASE}.{self._procedure} needs a running service: offline nothing is changed",
            hint=f"Start `{self._start_command}`, then call it with `lakeward sql` without --engine.",
        )


@dataclass(frozen=True)
class OfflineHandle:
    """A `CallHandle` without a coordinator."""

    control: OfflineControl
    open_calls: OpenCalls
    names: NamesView

    def view(self) -> NamesView:
        """Returns the moment of the statement."""
        return self.names


def call(
    statement: CallStatement,
    names: NamesView,
    registry: Registry,
    validate: Validate,
    start_command: str | None,
    caller: str,
    session: SessionNames = FLUSS_SESSION,
) -> Answer:
    """The procedure's rows. Raises UnknownProcedure, InvalidArgument, StatementFailed (it needs the service), and its own errors.

    The arguments are read first: what is wrong with them is reported also where there is no service.
    """
    procedure = _procedure(statement.name, registry)
    arguments = _arguments(procedure.parameters, statement.arguments)
    request = replace(ProcedureInput(procedure.name, procedure.parameters, arguments, session).read(procedure.request_class), caller=caller)
    control = OfflineControl(validate, procedure.name, start_command)
    if procedure.mutates:
        control.refuse()
    handle = OfflineHandle(control, OpenCalls(lambda: names.now), names)
    rows = _rows(procedure, Call(handle, registry.procedures), request)
    return answer_of(asyncio.run(rows), procedure.output_schema)


async def _rows(procedure: Procedure, call: Call, request: CallRequest[Any]) -> list[object]:
    return [step async for step in procedure.run(call, request) if is_row(step)]


def _procedure(name: Sequence[str], registry: Registry) -> Procedure:
    match [part.lower() for part in name]:
        case [database, _] if database == SYSTEM_DATABASE:
            return registry.procedure(name[-1])
        case [catalog, database, _] if catalog == CATALOG and database == SYSTEM_DATABASE:
            return registry.procedure(name[-1])
    raise UnknownProcedure(
        f"there is no procedure {'.'.join(name)}", hint=f"All procedures are in {SYSTEM_DATABASE}: CALL {SYSTEM_DATABASE}.help()"
    )


def _arguments(parameters: Sequence[Parameter], arguments: Sequence[Argument]) -> list[tuple[str, ArgumentValue]]:
    """Returns the arguments by name: positional ones first, then named ones, as in Spark. Raises InvalidArgument."""
    values: list[tuple[str, ArgumentValue]] = []
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        lock(connection)
        for place, argument in enumerate(arguments):
            name = argument.name
            if name is None:
                if any(earlier.name is not None for earlier in arguments[:place]):
                    raise InvalidArgument("a positional argument stands behind a named one", hint="Positional arguments come first.")
                if place >= len(parameters):
                    raise InvalidArgument(f"{len(arguments)} arguments are given, there are {len(parameters)}")
                name = parameters[place].name
            sql = expression_sql(argument.value)
            check_statement(connection, sql)
            values.append((name, _value(queried(connection, sql).rows[0][0], name)))
    return values


def _value(value: object, name: str) -> ArgumentValue:
    match value:
        case None | bool() | int() | str() | float():
            return value
        case Decimal():
            return float(value)
        case datetime():
            return Instant.of(value)
        case date():
            return value.isoformat()
        case dict() if all(isinstance(key, str) and type(number) is int for key, number in value.items()):
            return value
    raise InvalidArgument(f"the argument {name!r} cannot be a value like {value!r}")
