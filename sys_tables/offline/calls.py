"""CALL with nothing running: procedures that only read work, as far as they ask the coordinator for nothing but a look.

One that changes something is refused, `dry_run` included: it needs the service, which alone may write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NoReturn, cast

import duckdb

from sys_tables.declare.parameters import Parameter, ProcedureInput
from sys_tables.declare.procedure import Call, Procedure
from sys_tables.declare.sql_types import Instant, Value
from sys_tables.offline.allowed_sources import check_statement
from sys_tables.offline.answers import Answer, answer_of, queried
from sys_tables.offline.parsing import Argument, CallStatement
from sys_tables.offline.relations import CATALOG
from sys_tables.offline.translate import expression_sql
from sys_tables.registry import Registry
from tiering.coordinator.calls.open_calls import OpenCalls
from tiering.coordinator.calls.validate_table import level_of
from tiering.coordinator.interface import CheckResult, CoordinatorControl, CoordinatorView, ValidateTable
from tiering.errors import InvalidArgument, StatementFailed, UnknownProcedure
from tiering.library_guards.duckdb_guard import lock
from tiering.model.names import SYSTEM_DATABASE

Validate = Callable[[ValidateTable], Sequence[CheckResult]]
"""Blocks until the proof is done."""


@dataclass(frozen=True)
class OfflineHandle:
    """A `CoordinatorHandle` without a coordinator."""

    control: CoordinatorControl
    open_calls: OpenCalls
    look: CoordinatorView

    def view(self) -> CoordinatorView:
        """The moment of the statement."""
        return self.look


class _Control:
    """A `CoordinatorControl` that can validate; whatever else is asked of it needs the service."""

    def __init__(self, validate: Validate, refuse: Callable[[], NoReturn]) -> None:
        self._validate = validate
        self._refuse = refuse

    async def validate_table(self, call: ValidateTable) -> AsyncGenerator[str | CheckResult, None]:
        level_of(call.level)
        for one in await asyncio.to_thread(self._validate, call):
            yield one

    def __getattr__(self, name: str) -> Any:
        self._refuse()


def call(
    statement: CallStatement, view: CoordinatorView, registry: Registry, validate: Validate, start_command: str, caller: str
) -> Answer:
    """The procedure's rows. Raises UnknownProcedure, InvalidArgument, StatementFailed (it needs the service), and its own errors.

    Arguments are looked at first: what is wrong with them is said also where there is no service.
    """
    procedure = _procedure(statement.name, registry)
    given = ProcedureInput(procedure.name, procedure.parameters, _arguments(procedure.parameters, statement.arguments))
    asked: object = given.read(procedure.input_class)

    def refuse() -> NoReturn:
        raise StatementFailed(
            f"CALL {SYSTEM_DATABASE}.{procedure.name} needs a running service: offline nothing is changed",
            hint=f"Start `{start_command}`, then call it with `lakeward sql` without --engine.",
        )

    if procedure.mutates:
        refuse()
    control = cast(CoordinatorControl, _Control(validate, refuse))
    handle = OfflineHandle(control, OpenCalls(lambda: view.now), view)
    return answer_of(asyncio.run(_rows(procedure, Call(handle, caller, procedures=registry.procedures), asked)), procedure.output_schema)


async def _rows(procedure: Procedure, made: Call, asked: object) -> list[object]:
    return [step async for step in procedure.run(made, asked) if isinstance(step, procedure.output_class)]


def _procedure(name: Sequence[str], registry: Registry) -> Procedure:
    match [part.lower() for part in name]:
        case [database, _] if database == SYSTEM_DATABASE:
            return registry.procedure(name[-1])
        case [catalog, database, _] if catalog == CATALOG and database == SYSTEM_DATABASE:
            return registry.procedure(name[-1])
    raise UnknownProcedure(
        f"there is no procedure {'.'.join(name)}", hint=f"All procedures are in {SYSTEM_DATABASE}: CALL {SYSTEM_DATABASE}.help()"
    )


def _arguments(parameters: Sequence[Parameter], arguments: Sequence[Argument]) -> list[tuple[str, Value]]:
    """By name: positional ones first, then named ones, as in Spark. Raises InvalidArgument."""
    found: list[tuple[str, Value]] = []
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
            found.append((name, _value(queried(connection, sql).rows[0][0], name)))
    return found


def _value(value: object, name: str) -> Value:
    match value:
        case None | bool() | int() | str() | float():
            return value
        case Decimal():
            return float(value)
        case datetime():
            return Instant.of(value)
        case date():
            return value.isoformat()
    raise InvalidArgument(f"the argument {name!r} cannot be a value like {value!r}")
