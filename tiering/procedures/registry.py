"""Finds the declarations of the procedures."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from tiering import procedures
from tiering.access.requirements import Requirement
from tiering.procedures.base import CallRequest

NOT_PROCEDURES = frozenset({"base", "registry", "arguments"})
"""The modules of `tiering/procedures` that declare no procedure."""


@cache
def declarations() -> Mapping[str, type[CallRequest[Any]]]:
    """Returns the request classes of all procedures by name, sorted. It includes those that only programs can call."""
    names = sorted(module.name for module in pkgutil.iter_modules(procedures.__path__) if module.name not in NOT_PROCEDURES)
    return {name: _request_class(name) for name in names}


@cache
def requirements() -> Mapping[str, Requirement]:
    """Returns the privilege that each procedure needs, by its name."""
    return {name: request_class.requirement for name, request_class in declarations().items()}


def _request_class(name: str) -> type[CallRequest[Any]]:
    """Returns the class that declares the procedure; its name is that of the module in camel case."""
    module = importlib.import_module(f"{procedures.__name__}.{name}")
    declared: type[CallRequest[Any]] = getattr(module, "".join(word.capitalize() for word in name.split("_")))
    return declared
