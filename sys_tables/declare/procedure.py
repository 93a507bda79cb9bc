"""A procedure: its name, the dataclasses of its parameters and of its output rows, and the coroutine that does it.

    @procedure("reset_errors", Parameters, Output, comment="Forgets a table's past errors.", mutates=True)
    async def run(call: Call, parameters: Parameters) -> AsyncIterator[str | Output]:
        ...

`sys_tables.registry` finds whatever the modules of `sys_tables/procedures` define.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from sys_tables.declare.columns import schema_of
from sys_tables.declare.parameters import CallOptions, Parameter, parameters_of
from tiering.access.requirements import PROCEDURES
from tiering.coordinator.interface import CallHandle
from tiering.coordinator.requests import CallRequest, Mutation, ResultT
from tiering.model.call_results import Progress

RowT = TypeVar("RowT")
InputT = TypeVar("InputT")


@dataclass(frozen=True)
class Call:
    """One CALL, without its own arguments. `caller` is the Spark user's name, unauthenticated (DESIGN 12).

    `options` are the defaults for a procedure that only reads. `procedures` are those being served.
    """

    handle: CallHandle
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
    """A procedure of `sys`.

    `run` yields progress (a line as text, or a `Progress`) and output rows, in any order; it is closed at once when the caller has gone.
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
        """What a caller needs, and on what; `NONE` where it is enough to be known."""
        requirement = PROCEDURES.get(self.name)
        if requirement is None:
            return "no line in the table of privileges: refused"
        return "NONE" if requirement.privilege is None else f"{requirement.privilege} on {requirement.on}"


def procedure(
    name: str, input_class: type[InputT], output_class: type[RowT], *, comment: str, mutates: bool
) -> Callable[[Callable[[Call, InputT], AsyncIterator[Progress | str | RowT]]], Procedure]:
    """A decorator for an async generator: the procedure `sys.<name>`. One that changes something gets `dry_run` and
    `idempotency_key`."""

    def define(run: Callable[[Call, InputT], AsyncIterator[Progress | str | RowT]]) -> Procedure:
        return Procedure(name, input_class, output_class, comment, mutates, run)  # type: ignore[arg-type]  # an async generator

    return define
