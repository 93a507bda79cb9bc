"""Procedures for `TieringControl.CallProcedure`: by name, with arguments and result as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tiering.errors import InvalidArgument, UnknownProcedure, cut_message
from tiering.model.declare import names_in_sql
from tiering.model.names import NAME_LIMIT, check_length, parse_table_path
from tiering.procedures.base import CallRequest
from tiering.procedures.registry import declarations

PIECE_BYTES = 1 << 20
"""Bytes of a result in one message: a quarter of gRPC's limit (DESIGN 4)."""

_OPTIONS = frozenset({"caller", "dry_run", "idempotency_key"})


def request_of(procedure: str, arguments_json: str, options: Mapping[str, Any]) -> CallRequest[Any]:
    """Returns the request with these arguments. Raises UnknownProcedure, InvalidArgument, InvalidName."""
    shown = cut_message(procedure, NAME_LIMIT)
    declared_class: Any = declarations().get(procedure)
    if declared_class is None or procedure == "help":
        raise UnknownProcedure(f"there is no procedure {shown!r}", hint="SELECT procedure_name FROM sys.procedures lists them.")
    values = _arguments(procedure, arguments_json)
    declared = {field.name for field in fields(declared_class)}
    in_sql = names_in_sql(declared_class)
    by_name = {**{name: name for name in declared - set(in_sql.values())}, **in_sql}
    by_name = {name: attribute for name, attribute in by_name.items() if attribute not in _OPTIONS}
    unknown = sorted(values.keys() - by_name.keys())
    if unknown:
        raise InvalidArgument(f"{shown} has no argument {cut_message(unknown[0], NAME_LIMIT)!r}")
    checked = {by_name[name]: _checked_name(shown, name, value) for name, value in values.items()}
    try:
        request: CallRequest[Any] = _adapter(declared_class).validate_python(
            checked | {name: options[name] for name in _OPTIONS & declared}
        )
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise InvalidArgument(f"{shown}: the argument {where!r} is invalid: {problem['msg']}") from error
    values = {name: getattr(request, name) for name in declared}
    times: dict[str, Any] = {name: _in_utc(shown, name, value) for name, value in values.items() if isinstance(value, datetime)}
    return replace(request, **times) if times else request


def result_pieces(request: CallRequest[Any], result: object) -> Iterator[bytes]:
    """Yields the result as JSON, in pieces that fit into a message."""
    text: bytes = _adapter(request.result_class).dump_json(result)
    for start in range(0, len(text), PIECE_BYTES):
        yield text[start : start + PIECE_BYTES]


def _arguments(procedure: str, text: str) -> dict[str, Any]:
    try:
        values = json.loads(text or "{}")
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise InvalidArgument(f"the arguments of {cut_message(procedure, NAME_LIMIT)} are not a JSON object")
    return values


def _checked_name(procedure: str, argument: str, value: Any) -> Any:
    """Returns the path of a table argument, or the name of a database argument; other values unchanged. Raises InvalidName."""
    if argument not in ("table", "database"):
        return value
    if not isinstance(value, str):
        raise InvalidArgument(f"{procedure}: the argument {argument!r} is invalid: it is not a text")
    return parse_table_path(value) if argument == "table" else check_length(value, argument)


def _in_utc(procedure: str, argument: str, time: datetime) -> datetime:
    """Returns the time in UTC, as lines for people show it."""
    if time.tzinfo is None:
        raise InvalidArgument(f"{procedure}: the argument {argument!r} has no time zone")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise InvalidArgument(f"{procedure}: the argument {argument!r} is not a time in the years 1 to 9999 in UTC") from None


@cache
def _adapter(declared: Any) -> TypeAdapter[Any]:
    return TypeAdapter(declared)
