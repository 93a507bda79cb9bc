"""The table of transitions, and the diagram that shows it."""

from __future__ import annotations

import re

import pytest

from tiering.errors import LakewardError
from tiering.model import states
from tiering.model.states import TRANSITIONS, TableState, check_transition

ARROW = re.compile(r"^ {4}(\S+) +-> (\S+) +(.+)$", re.MULTILINE)


def named(text: str) -> set[TableState | None]:
    if text == "(any)":
        return set(TableState)
    return {None if text == "(none)" else TableState(text)}


def test_the_diagram_shows_exactly_the_table() -> None:
    arrows = ARROW.findall(states.__doc__ or "")
    shown = {(source, target): why for left, right, why in arrows for source in named(left) for target in named(right)}
    assert shown == dict(TRANSITIONS)


def test_every_state_can_be_reached_and_left() -> None:
    for state in TableState:
        assert any(target is state for _, target in TRANSITIONS)
        assert any(source is state and target is not None for source, target in TRANSITIONS)


@pytest.mark.parametrize(
    ("source", "target"),
    [(TableState.SCHEDULED, TableState.TIERING), (TableState.TIERING, TableState.PENDING), (None, TableState.PENDING)],
)
def test_a_change_outside_the_table_is_refused(source: TableState | None, target: TableState) -> None:
    with pytest.raises(LakewardError, match="cannot go from"):
        check_transition(source, target)
