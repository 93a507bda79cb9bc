"""The search finds nothing with all rules of the commit protocol in force, and something as soon as one of them is taken out."""

from __future__ import annotations

from typing import Any

import pytest
from faults.model.exclusive import ExclusiveModel
from faults.model.exclusive_world import Size
from faults.model.rules import ALL_RULES, Rule

SMALLEST_SIZES: dict[Rule, dict[str, Any]] = {
    Rule.FENCE: {"users": 1, "faults": 1},
    Rule.HEAD: {"users": 1, "faults": 0},
    Rule.TAG: {"rounds": 2, "users": 1, "faults": 1},
    Rule.UUID: {"rounds": 2, "users": 2, "faults": 0, "begins_tiered": False},
    Rule.IDENTITY: {},
    Rule.UNKNOWN: {},
    Rule.KEEP_FILES: {},
    Rule.PREFIX: {"begins_tiered": False, "rows": 2},
    Rule.ADOPT: {},
    Rule.ACKS: {"rounds": 2, "users": 2, "faults": 1},
    Rule.SWEEP_TAG: {},
    Rule.SWEEP_UUID: {"rounds": 2, "users": 3, "faults": 1},
}


@pytest.mark.parametrize("rule", Rule, ids=lambda rule: rule.name.lower())
def test_each_rule_is_needed(rule: Rule) -> None:
    model = ExclusiveModel(Size(rules=ALL_RULES - {rule}, **SMALLEST_SIZES[rule]))
    assert model.search(40, 150_000, ways_out=rule is Rule.ADOPT).violation is not None


@pytest.mark.parametrize("size", [Size(rounds=2, users=1, faults=2), Size(rounds=2, users=1, faults=1, begins_tiered=False, rows=2)])
def test_with_all_rules_every_interleaving_keeps_every_row(size: Size) -> None:
    result = ExclusiveModel(size).search(60, 300_000)
    assert result.violation is None
    assert result.complete
