"""Declares a procedure of a test: any dataclasses of parameters and rows, and the coroutine that performs it."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any

from sys_tables.declare.procedure import Procedure
from tiering.access.requirements import PrivilegeTarget, Requirement
from tiering.procedures.base import CallRequest, Mutation


def procedure(name: str, input_class: type, row_class: type, *, comment: str, mutates: bool) -> Callable[[Any], Procedure]:
    """A decorator for an async generator `run(call, request)`. The request has the fields of `input_class`."""
    hints = typing.get_type_hints(input_class)
    fields: list[tuple[str, Any, Any]] = [
        (declared.name, hints[declared.name], dataclasses.field(default=declared.default, metadata=declared.metadata))
        for declared in dataclasses.fields(input_class)
    ]
    declaration = {"procedure": name, "comment": comment, "requirement": Requirement(None, PrivilegeTarget.NOTHING), "row_class": row_class}
    base: Any = Mutation if mutates else CallRequest
    request_class: Any = dataclasses.make_dataclass(input_class.__name__, fields, bases=(base,), namespace=declaration, frozen=True)
    return lambda run: Procedure(request_class, run)
