"""Declares an option of a process in one place: as a field of the dataclass that has its value.

Commands, `sys.options`, docs/options.md and the check of its limits come from the field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tiering.errors import InvalidArgument
from tiering.model.declare import column

_OPTION = "option"


@dataclass(frozen=True)
class Option:
    """One option. `flag` None: the command line cannot set it. `unit` is the placeholder of its value on help pages, such as MS."""

    meaning: str
    flag: str | None = None
    unit: str | None = None
    group: str | None = None
    """Title of its group on help pages; None = the common options."""
    least: int | None = None
    most: int | None = None
    variable: str | None = None
    """Environment variable that also sets it."""


def option(
    default: Any,
    meaning: str,
    *,
    flag: str | None = None,
    unit: str | None = None,
    group: str | None = None,
    least: int | None = None,
    most: int | None = None,
    variable: str | None = None,
    is_shown: bool = True,
) -> Any:
    """Returns a field of a dataclass that is an option. `Option` describes the arguments; `is_shown` False: repr() omits the value."""
    return field(default=default, repr=is_shown, metadata={_OPTION: Option(meaning, flag, unit, group, least, most, variable)})


def options_of(kind: type[Any]) -> Mapping[str, Option]:
    """Returns the options of a dataclass by the names of its fields. Fields that are no options are left out."""
    return {declared.name: declared.metadata[_OPTION] for declared in dataclasses.fields(kind) if _OPTION in declared.metadata}


def check_limits(values: Any) -> None:
    """Raises InvalidArgument that names an option of the dataclass `values` below its lower limit."""
    for name, declared in options_of(type(values)).items():
        value = getattr(values, name)
        if declared.least is not None and value is not None and value < declared.least:
            raise InvalidArgument(f"the option {name} must be at least {declared.least}, not {value}")


@dataclass(frozen=True)
class EffectiveOption:
    """An option in effect, as `sys.options` shows it. `value` is None if only a running coordinator knows it.

    `source` tells whether a user set the option.
    """

    scope: str = column("Scope: coordinator; tierer, for settings that the coordinator sends; table, for defaults of table options.")
    name: str = column("Name of the option.")
    value: str | None = column("Redacted value; NULL if only a running coordinator knows it, or if it depends on the lake format.")
    default: str | None = column("The default; NULL if there is none.")
    source: str | None = column("Source of the value: default or set; NULL if unknown.")
    description: str = column("Meaning of the option.")
