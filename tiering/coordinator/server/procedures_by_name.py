"""Procedures as `TieringControl.CallProcedure` has them: by name, with arguments and result as JSON."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tiering.coordinator import calls
from tiering.coordinator.calls.effects import request_class
from tiering.coordinator.requests import CallRequest
from tiering.errors import InvalidArgument, UnknownProcedure, cut_message
from tiering.model.names import NAME_LIMIT, parse_table_path

PIECE_BYTES = 1 << 20
"""Of a result in one message: a quarter of what gRPC takes (DESIGN 4)."""

_OPTIONS = frozenset({"caller", "dry_run", "idempotency_key"})


def request_of(procedure: str, arguments_json: str, options: Mapping[str, Any]) -> CallRequest[Any]:
    """The request with these arguments. Raises UnknownProcedure, InvalidArgument, InvalidName."""
    shown = cut_message(procedure, NAME_LIMIT)
    _load_procedures()
    wanted: Any = request_class(procedure)
    if wanted is None:
        raise UnknownProcedure(f"there is no procedure {shown!r}", hint="SELECT procedure_name FROM sys.procedures lists them.")
    values = _arguments(procedure, arguments_json)
    known = {field.name for field in fields(wanted)}
    if "path" in known and isinstance(values.get("table"), str):
        values["path"] = parse_table_path(values.pop("table"))
    unknown = sorted(values.keys() - (known - _OPTIONS))
    if unknown:
        raise InvalidArgument(f"{shown} has no argument {cut_message(unknown[0], NAME_LIMIT)!r}")
    try:
        request: CallRequest[Any] = _adapter(wanted).validate_python(values | {name: options[name] for name in _OPTIONS & known})
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise InvalidArgument(f"{shown}: the argument {where!r} cannot be: {problem['msg']}") from error
    for field in fields(wanted):
        value = getattr(request, field.name)
        if isinstance(value, datetime) and value.tzinfo is None:
            raise InvalidArgument(f"{shown}: the argument {field.name!r} has no time zone")
    return request


def result_pieces(request: CallRequest[Any], result: object) -> Iterator[bytes]:
    """The result as JSON, in pieces that fit a message."""
    text: bytes = _adapter(request.result_class).dump_json(result)
    for start in range(0, len(text), PIECE_BYTES):
        yield text[start : start + PIECE_BYTES]


@cache
def _load_procedures() -> None:
    """Each module of `calls` declares its own."""
    for module in pkgutil.walk_packages(calls.__path__, f"{calls.__name__}."):
        importlib.import_module(module.name)


def _arguments(procedure: str, text: str) -> dict[str, Any]:
    try:
        values = json.loads(text or "{}")
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise InvalidArgument(f"the arguments of {cut_message(procedure, NAME_LIMIT)} are no JSON object")
    return values


@cache
def _adapter(declared: Any) -> TypeAdapter[Any]:
    return TypeAdapter(declared)
