"""A procedure is two modules of one name: its declaration, and its effect, which takes its request and returns its result."""

from __future__ import annotations

import inspect
import typing
from importlib import import_module
from typing import Any

import pytest

from tiering.procedures.base import CallRequest
from tiering.procedures.registry import declarations

WITH_EFFECTS = [request for name, request in declarations().items() if name != "help"]


@pytest.mark.parametrize("request_class", WITH_EFFECTS, ids=lambda request: request.procedure)
def test_a_declaration_leads_to_its_effect(request_class: type[CallRequest[Any]]) -> None:
    name = request_class.procedure
    assert request_class.__module__ == f"tiering.procedures.{name}"
    effect = getattr(import_module(f"tiering.coordinator.calls.{name}"), name)
    hints = typing.get_type_hints(effect)
    assert hints["request"] is request_class
    assert inspect.isasyncgenfunction(effect) is (request_class.pool is None)
    if request_class.pool is None:
        assert request_class.result_class in typing.get_args(typing.get_args(hints["return"])[0])
    else:
        assert hints["return"] == request_class.result_class
