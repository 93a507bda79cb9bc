"""Requests and whole results of procedures survive the way through their messages, whatever the declaration."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

import pytest

from sys_tables.query.arrow_stream import arrow_pieces
from tiering.errors import InvalidAnswer
from tiering.model.rounds import RoundProgress
from tiering.model.tables import TablePath
from tiering.procedures.base import CallRequest, Progress
from tiering.procedures.registry import declarations
from tiering.procedures.tier_table import TierTable
from tiering.wire.procedure_calls import (
    RESULT,
    literal_from_pb,
    literal_to_pb,
    pieces_of,
    progress_to_pb,
    request_from_pb,
    request_to_pb,
    result_from_pieces,
    result_schema,
)

NOON = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
SCALARS: dict[Any, Any] = {str: "a text", int: 2**62, float: 0.5, bool: True, datetime: NOON, TablePath: TablePath("sales", "orders")}
ALL = [declared for name, declared in declarations().items() if name != "help"]


def example(annotation: Any, *, absent: bool) -> Any:
    """A value of a type, with everything set, or with everything absent that may be."""
    arguments = typing.get_args(annotation)
    if types.NoneType in arguments:
        return None if absent else example(next(kind for kind in arguments if kind is not types.NoneType), absent=absent)
    if annotation in SCALARS:
        return SCALARS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return next(iter(annotation))
    if dataclasses.is_dataclass(annotation):
        hints = typing.get_type_hints(annotation)
        return annotation(**{field.name: example(hints[field.name], absent=absent) for field in dataclasses.fields(annotation)})  # type: ignore[operator]
    if typing.get_origin(annotation) is tuple:
        return () if absent else (example(arguments[0], absent=False), example(arguments[0], absent=True))
    assert issubclass(typing.get_origin(annotation), Mapping), annotation  # type: ignore[arg-type]
    return {} if absent else {"a": 1, "b": 2}


def request_of(declared: type[CallRequest[Any]], *, absent: bool) -> CallRequest[Any]:
    hints = typing.get_type_hints(declared)
    small = {"level": "rows", "action": "accept", "freshness": "5 min"}
    values = {
        field.name: small.get(field.name, 5 if hints[field.name] in (int, int | None) else example(hints[field.name], absent=absent))
        for field in dataclasses.fields(declared)
        if field.name != "on_progress" and not (absent and field.default is not dataclasses.MISSING)
    }
    return declared(**values)


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("declared", ALL, ids=lambda declared: declared.procedure)
def test_a_request_survives(declared: type[CallRequest[Any]], absent: bool) -> None:
    request = dataclasses.replace(request_of(declared, absent=absent), caller="ann")
    assert request_from_pb(request_to_pb(request), declared) == request


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("declared", ALL, ids=lambda declared: declared.procedure)
def test_a_whole_result_survives(declared: type[CallRequest[Any]], absent: bool) -> None:
    result = example(declared.result_class, absent=absent)
    pieces = list(arrow_pieces([SimpleNamespace(**{RESULT: result})], result_schema(declared)))
    assert result_from_pieces(request_of(declared, absent=True), pieces, "test") == result


@pytest.mark.parametrize(
    "progress", [Progress("half"), Progress("half", RoundProgress(1, 2, 3, 4)), Progress("half", RoundProgress(0, 0, 0, 0))]
)
def test_progress_survives(progress: Progress) -> None:
    heard: list[Progress] = []
    assert pieces_of(progress_to_pb(progress), heard.append) == ()
    assert heard == [progress]


@pytest.mark.parametrize("value", ["", "a", 0, -(2**63), 0.5, True, False, {"0": 1}, {}])
def test_a_literal_survives(value: Any) -> None:
    literal = literal_to_pb(value)
    assert literal is not None
    assert (literal_from_pb(literal), type(literal_from_pb(literal))) == (value, type(value))


def test_an_answer_that_is_no_result_is_refused() -> None:
    declared = declarations()["pause_tiering"]
    pieces = list(arrow_pieces([SimpleNamespace(**{RESULT: example(declared.result_class, absent=False)})], result_schema(declared)))
    for wrong in (pieces, [b"noise"], [b""]):
        with pytest.raises(InvalidAnswer, match="the answer to tier_table cannot be read"):
            result_from_pieces(TierTable(TablePath("a", "b")), wrong, "test")
