"""The search beside Flink finds nothing with all rules in force, and something as soon as one of them is taken out."""

from __future__ import annotations

import pytest
from faults.model.shared.model import SharedModel
from faults.model.shared.rules import CoveredPart, SharedRule
from faults.model.shared.sizes import COVERED_SIZES, WHOLE_SIZES, without

LONGEST_STORY = 22
"""Steps to a violation, with those of the continuation that shows it."""


@pytest.mark.parametrize("rule", SharedRule, ids=lambda rule: rule.name.lower())
def test_each_rule_is_needed(rule: SharedRule) -> None:
    result = SharedModel(without(rule)).search(LONGEST_STORY)
    assert result.violation is not None
    assert len(result.violation.steps) <= LONGEST_STORY, f"\n{result.violation}"


def test_each_rule_from_r1_to_r9_is_taken_out() -> None:
    assert {rule.number for rule in SharedRule} == {f"R{number}" for number in range(1, 10)}


@pytest.mark.parametrize("part", CoveredPart, ids=lambda part: part.name.lower())
def test_what_other_rules_cover_is_not_missed(part: CoveredPart) -> None:
    result, whole = SharedModel(without(part)).search(60, 50_000), SharedModel(COVERED_SIZES[part]).search(60, 50_000)
    assert result.violation is None, f"\n{result.violation}"
    assert result.complete
    assert result.states != whole.states  # else the part is not asked for there


@pytest.mark.parametrize("name", WHOLE_SIZES)
def test_with_all_rules_every_interleaving_keeps_every_row(name: str) -> None:
    result = SharedModel(WHOLE_SIZES[name]).search(60, 200_000)
    assert result.violation is None, f"\n{result.violation}"
    assert result.complete
