"""Declares options once for several commands: each field of a dataclass becomes an option of every command that takes the dataclass."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

Command = Callable[..., None]


def with_options(group: type[Any], parameter: str = "options") -> Callable[[Command], Command]:
    """Decorates a command whose argument `parameter` is a `group`. Typer sees one option per field in the place of that argument."""

    def decorate(command: Command) -> Command:
        names = [field.name for field in dataclasses.fields(group)]

        def run(**arguments: Any) -> None:
            command(**{parameter: group(**{name: arguments.pop(name) for name in names})}, **arguments)

        signature = _signature(command, group, parameter)
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {name: declared.annotation for name, declared in signature.parameters.items()}
        run.__signature__ = signature  # type: ignore[attr-defined]  # typer reads this attribute first
        return run

    return decorate


def _signature(command: Command, group: type[Any], parameter: str) -> inspect.Signature:
    hints, kind = get_type_hints(group, include_extras=True), inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for declared in inspect.signature(command).parameters.values():
        if declared.name != parameter:
            parameters.append(declared.replace(annotation=own[declared.name]))
            continue
        parameters += [
            inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name]) for field in dataclasses.fields(group)
        ]
    return inspect.Signature(parameters)
