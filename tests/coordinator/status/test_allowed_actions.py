"""For a caller without the right, `next_action` names the policy that would allow the action."""

from __future__ import annotations

import pytest

from tiering.access.grants import Access
from tiering.access.identity import Authentication, Identity
from tiering.access.policies.engine import CedarEngine
from tiering.coordinator.status.status_columns import allowed_action
from tiering.procedures.registry import requirements

READER = Identity("ana", Authentication.TOKEN)
POLICIES = 'permit (principal, action == Action::"DESCRIBE", resource in Database::"sales");'


def action(statement: str, policies: str) -> str | None:
    return allowed_action(statement, "sales", "orders", Access(READER, CedarEngine(policies)))


@pytest.mark.parametrize("name", [name for name, line in requirements().items() if line.privilege not in (None, "DESCRIBE")])
def test_the_grant_that_is_named_is_the_one_that_lacks(name: str) -> None:
    statement = f"CALL fluss.sys.{name}('sales.orders')"
    shown = action(statement, POLICIES)
    assert shown is not None
    assert shown.startswith(f"-- ask for {requirements()[name].privilege} on ")
    assert statement in shown
    grant = shown.rpartition(": ")[2]
    assert action(statement, POLICIES + grant) == statement


def test_what_needs_nothing_more_and_what_runs_on_the_lake_is_shown_as_it_is() -> None:
    for statement in ("CALL fluss.sys.explain_tiering('sales.orders')", "ALTER TABLE lake.sales.orders DROP COLUMN x"):
        assert action(statement, POLICIES) == statement
