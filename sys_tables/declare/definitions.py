"""What a system table and a procedure are, as plain values. `registry` collects them, `service` serves them.

A module of `sys_tables/tables` or `sys_tables/procedures` defines one with `@system_table` or `@procedure`; nothing else
has to be told about it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from sys_tables.declare.columns import schema_of
from sys_tables.declare.parameters import CallOptions, Parameter, parameters_of
from sys_tables.query.scan import ScanRequest
from tiering.coordinator.interface import Columns, CoordinatorHandle, CoordinatorView
from tiering.coordinator.requests import CallRequest, Mutation, Progress, ResultT

RowT = TypeVar("RowT")
InputT = TypeVar("InputT")


@dataclass(frozen=True)
class SystemTable:
    """A table of `sys`: its row dataclass says the schema, `rows` makes them from one moment of the coordinator.

    `rows` runs in a thread and may take its time; what it yields passes the scan's conditions and limit afterwards. It may
    also give them by column, for a table with very many rows.
    """

    name: str
    row_class: type
    comment: str
    rows: Callable[[CoordinatorView, ScanRequest], Iterable[object] | Columns]

    @property
    def schema(self) -> pa.Schema:
        """Its columns, with comments."""
        return schema_of(self.row_class)


@dataclass(frozen=True)
class Call:
    """One CALL, beside its own arguments. `caller` is the Spark user's name, unauthenticated (DESIGN 12).

    `options` are the defaults for a procedure that only reads. `procedures` are those being served.
    """

    handle: CoordinatorHandle
    caller: str
    options: CallOptions = field(default_factory=CallOptions)
    procedures: tuple[Procedure, ...] = ()

    async def perform(self, request: CallRequest[ResultT]) -> ResultT:
        """Has the coordinator do what the request asks for, in the name of the caller and with the options of this call."""
        return await self.handle.control.perform(self._signed(request))

    def perform_with_progress(self, request: CallRequest[ResultT]) -> AsyncGenerator[Progress | ResultT, None]:
        """The same, with lines of progress before the result."""
        return self.handle.control.perform_with_progress(self._signed(request))

    def _signed(self, request: CallRequest[ResultT]) -> CallRequest[ResultT]:
        if isinstance(request, Mutation):
            request = replace(request, dry_run=self.options.dry_run, idempotency_key=self.options.idempotency_key)
        return replace(request, caller=self.caller)


@dataclass(frozen=True)
class Procedure:
    """A procedure of `sys`: input and output dataclasses, and the coroutine that does it.

    `run` yields lines of progress (str) and output rows, in any order; it is closed at once when the caller has gone.
    """

    name: str
    input_class: type
    output_class: type
    comment: str
    mutates: bool
    run: Callable[[Call, Any], AsyncGenerator[object, None]]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its own, in order, then `dry_run` and `idempotency_key` if it changes something."""
        return parameters_of(self.input_class) + (parameters_of(CallOptions) if self.mutates else ())

    @property
    def output_schema(self) -> pa.Schema:
        """The columns of its rows, with comments."""
        return schema_of(self.output_class)

    @property
    def privilege(self) -> str:
        """What a caller needs: `READ`, or `OPERATE` to change something."""
        return "OPERATE" if self.mutates else "READ"


def system_table(
    name: str, row_class: type[RowT], *, comment: str
) -> Callable[[Callable[[CoordinatorView, ScanRequest], Iterable[RowT] | Columns]], SystemTable]:
    """Makes a function that yields rows, or has columns of the same names, a system table `sys.<name>`."""

    def define(rows: Callable[[CoordinatorView, ScanRequest], Iterable[RowT] | Columns]) -> SystemTable:
        return SystemTable(name, row_class, comment, rows)

    return define


def procedure(
    name: str, input_class: type[InputT], output_class: type[RowT], *, comment: str, mutates: bool
) -> Callable[[Callable[[Call, InputT], AsyncIterator[str | RowT]]], Procedure]:
    """Makes an async generator a procedure `sys.<name>`. One that changes something gets `dry_run` and `idempotency_key`."""

    def define(run: Callable[[Call, InputT], AsyncIterator[str | RowT]]) -> Procedure:
        return Procedure(name, input_class, output_class, comment, mutates, run)  # type: ignore[arg-type]  # an async generator

    return define
