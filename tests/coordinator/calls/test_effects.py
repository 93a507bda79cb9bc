"""A mutating procedure is two modules of one name, and its request leads to its effect: held for every procedure that there is."""

from __future__ import annotations

import typing
from importlib import import_module

import pytest

from sys_tables.declare.procedure import Procedure
from sys_tables.registry import default_registry
from tiering.coordinator.calls.effects import BlockingEffect, effect_of
from tiering.coordinator.requests import Mutation

MUTATING = [procedure for procedure in default_registry().procedures if procedure.mutates]


def request_class(procedure: Procedure) -> type[Mutation[object]]:
    """The one request of the module in `calls/` that has the procedure's name."""
    module = import_module(procedure.run.__module__.replace("sys_tables.procedures", "tiering.coordinator.calls"))
    [requested] = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Mutation) and value.__module__ == module.__name__
    ]
    return requested


@pytest.mark.parametrize("procedure", MUTATING, ids=lambda procedure: procedure.name)
def test_a_request_names_its_procedure_and_leads_to_its_effect(procedure: Procedure) -> None:
    requested = request_class(procedure)
    assert procedure.run.__module__.rsplit(".", 1)[1] == procedure.name == requested.procedure
    effect = effect_of(object.__new__(requested))
    hints = typing.get_type_hints(effect.run)
    assert hints["request"] is requested
    if isinstance(effect, BlockingEffect):
        assert hints["return"] is requested.result_class
    else:
        assert requested.result_class in typing.get_args(typing.get_args(hints["return"])[0])
