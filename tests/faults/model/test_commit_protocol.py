"""The search finds nothing with all rules of the commit protocol in force, and something as soon as one of them is taken out."""

from __future__ import annotations

import pytest
from faults.model.exclusive.model import ExclusiveModel
from faults.model.exclusive.rules import ALL_RULES, Rule
from faults.model.exclusive.sizes import CAUGHT_AT_THE_LAST_GATE, SMALLEST_SIZES, WHOLE_SIZES, without
from faults.model.exclusive.world import Size


@pytest.mark.parametrize("rule", Rule, ids=lambda rule: rule.name.lower())
def test_each_rule_is_needed(rule: Rule) -> None:
    assert without(rule).violation is not None


def test_an_ack_that_is_believed_is_one_that_comes_late() -> None:
    violation = without(Rule.ACKS).violation
    assert violation is not None
    assert violation.steps[-2].startswith("a late copy of the ack of round 3 arrives")


@pytest.mark.parametrize("rule", CAUGHT_AT_THE_LAST_GATE, ids=lambda rule: rule.name.lower())
def test_the_last_gate_catches_what_lacks_a_rule(rule: Rule) -> None:
    result = without(rule, last_gate=True)
    assert result.violation is None, f"\n{result.violation}"
    assert result.complete


@pytest.mark.parametrize("rule", [Rule.UUID, Rule.KEEP_FILES, Rule.ADOPT], ids=lambda rule: rule.name.lower())
def test_a_story_that_is_drawn_shows_a_rule_that_is_missing(rule: Rule) -> None:
    """An invariant that a step violates, and a state at a story's end that nothing heals."""
    model = ExclusiveModel(Size(rules=ALL_RULES - {rule}, **SMALLEST_SIZES[rule]))
    assert model.walk(60, 60).violation is not None


@pytest.mark.parametrize("name", WHOLE_SIZES)
def test_with_all_rules_every_interleaving_keeps_every_row(name: str) -> None:
    result = ExclusiveModel(WHOLE_SIZES[name]).search(60, 300_000)
    assert result.violation is None, f"\n{result.violation}"
    assert result.complete
