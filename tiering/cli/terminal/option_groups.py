"""Makes options of a command from dataclasses whose fields are options, so that several commands and processes share them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, get_type_hints

import typer

from tiering.model.option import Option, options_of

Command = Callable[..., Any]


def with_options(group: type[Any], parameter: str = "options") -> Callable[[Command], Command]:
    """Decorates a command whose argument `parameter` is a `group`. Typer sees one option per option of the group in its place.

    A field of the group is an option by `tiering.model.option` or by a type annotated for typer, or it is itself such a group.
    """

    def decorate(command: Command) -> Command:
        def run(**arguments: Any) -> None:
            options = built(group, arguments)
            command(**{parameter: options}, **arguments)

        return as_command(run, command, _parameters(command, group, parameter))

    return decorate


def as_command(run: Command, command: Command, parameters: Sequence[inspect.Parameter]) -> Command:
    """Returns `run` with name and help of `command`, for which typer sees these parameters."""
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    run.__annotations__ = {declared.name: declared.annotation for declared in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads this attribute first
    return run


def _parameters(command: Command, group: type[Any], parameter: str) -> list[inspect.Parameter]:
    own = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for declared in inspect.signature(command).parameters.values():
        if declared.name == parameter:
            parameters += parameters_of(group)
        else:
            parameters.append(declared.replace(annotation=own[declared.name], kind=inspect.Parameter.KEYWORD_ONLY))
    return parameters


def parameters_of(group: type[Any]) -> Iterator[inspect.Parameter]:
    """Yields a parameter of typer for each option of the group."""
    options, hints = options_of(group), get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        kind = hints[field.name]
        if dataclasses.is_dataclass(kind):
            yield from parameters_of(kind)  # type: ignore[arg-type]  # a class, since it is a type hint
        elif (name := _parameter_name(field, kind, options)) is not None:
            annotation = Annotated[kind, _typer_option(options[field.name])] if field.name in options else kind
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation)


def built(group: type[Any], arguments: dict[str, Any]) -> Any:
    """Returns a `group` with its values, which are removed from `arguments`."""
    options, hints = options_of(group), get_type_hints(group, include_extras=True)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(group):
        kind = hints[field.name]
        if dataclasses.is_dataclass(kind):
            values[field.name] = built(kind, arguments)  # type: ignore[arg-type]  # a class, since it is a type hint
        elif (name := _parameter_name(field, kind, options)) is not None:
            values[field.name] = arguments.pop(name)
    return group(**values)


def _parameter_name(field: dataclasses.Field[Any], kind: Any, options: Mapping[str, Option]) -> str | None:
    """Returns the name of typer's parameter, or None for a field that the command line cannot set."""
    if field.name in options:
        flag = options[field.name].flag
        return None if flag is None else flag.partition("/")[0].removeprefix("--").replace("-", "_")
    return field.name if hasattr(kind, "__metadata__") else None


def _typer_option(declared: Option) -> Any:
    assert declared.flag is not None
    return typer.Option(
        declared.flag,
        metavar=declared.unit,
        help=declared.meaning,
        min=declared.least,
        max=declared.most,
        envvar=declared.variable,
        rich_help_panel=declared.group,
    )
