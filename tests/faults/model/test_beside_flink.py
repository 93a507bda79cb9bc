"""The search beside Flink finds nothing with all rules in force, and something as soon as one of them is taken out."""

from __future__ import annotations

import pytest
from faults.model.shared.model import SharedModel
from faults.model.shared.rules import SharedRule
from faults.model.shared.sizes import WHOLE_SIZES, without

LONGEST_STORY = 25
"""Steps of the search to a violation; the continuation that shows it comes behind."""


@pytest.mark.parametrize("rule", SharedRule, ids=lambda rule: rule.name.lower())
def test_each_rule_is_needed(rule: SharedRule) -> None:
    result = SharedModel(without(rule)).search(LONGEST_STORY)
    assert result.violation is not None


@pytest.mark.parametrize("name", WHOLE_SIZES)
def test_with_all_rules_every_interleaving_keeps_every_row(name: str) -> None:
    result = SharedModel(WHOLE_SIZES[name]).search(60, 200_000)
    assert result.violation is None, f"\n{result.violation}"
    assert result.complete
