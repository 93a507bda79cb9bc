"""A procedure as SQL sees it: its declaration (`tiering.procedures`), and the coroutine that performs a request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tiering.coordinator.interface import CallHandle
from tiering.model.declare import Parameter, parameters_of, schema_of
from tiering.procedures.base import CallRequest, Mutation, Progress


@dataclass(frozen=True)
class Call:
    """The parts that a CALL uses. `procedures` are those that the service has."""

    handle: CallHandle
    procedures: tuple[Procedure, ...] = ()


@dataclass(frozen=True)
class Procedure:
    """A procedure of `sys`.

    `run` yields progress (a line as text, or a `Progress`) and rows, in any order. It is closed at once when the caller has disconnected.
    """

    request_class: type[CallRequest[Any]]
    run: Callable[[Call, Any], AsyncGenerator[object, None]]

    @property
    def name(self) -> str:
        """Name of the procedure without `sys.`."""
        return self.request_class.procedure

    @property
    def comment(self) -> str:
        """A sentence about its effect."""
        return self.request_class.comment

    @property
    def mutates(self) -> bool:
        """Whether it changes something, so that it has `dry_run` and `idempotency_key`."""
        return issubclass(self.request_class, Mutation)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The procedure's own parameters in order, then `dry_run` and `idempotency_key` if it changes something."""
        return parameters_of(self.request_class)

    @property
    def output_schema(self) -> pa.Schema:
        """The columns of its rows, with comments."""
        return schema_of(self.request_class.row_class)

    @property
    def privilege(self) -> str:
        """The privilege that a caller needs, and on what; `NONE` if every identified caller may call it."""
        requirement = self.request_class.requirement
        return "NONE" if requirement.privilege is None else f"{requirement.privilege} on {requirement.on}"


def is_row(step: object) -> bool:
    """Returns whether a step of `Procedure.run` is a row, and not progress."""
    return not isinstance(step, str | Progress)
