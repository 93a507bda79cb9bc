"""The search finds nothing with all rules of the commit protocol in force, and something as soon as one of them is taken out."""

from __future__ import annotations

import pytest
from faults.model.exclusive.model import ExclusiveModel
from faults.model.exclusive.rules import Rule
from faults.model.exclusive.sizes import WHOLE_SIZES, without


@pytest.mark.parametrize("rule", Rule, ids=lambda rule: rule.name.lower())
def test_each_rule_is_needed(rule: Rule) -> None:
    assert without(rule).violation is not None


@pytest.mark.parametrize("name", WHOLE_SIZES)
def test_with_all_rules_every_interleaving_keeps_every_row(name: str) -> None:
    result = ExclusiveModel(WHOLE_SIZES[name]).search(60, 300_000)
    assert result.violation is None, f"\n{result.violation}"
    assert result.complete
