"""Policies for a user whose groups are unknown: a user for whom a service acts, which sends only the user's name.

Such a user may be in any group. So a policy that forbids applies if it would for some set of groups. A policy that permits applies only if
it would for every set. Each test whether the principal is in a group gets the answer that is worse for the user. Policies are in Cedar's
JSON format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiering.access.policies.name_tests import entities_in


def for_unknown_groups(policies: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the policies by their ids, changed so that their result for a principal without groups holds for one with unknown groups."""
    return {policy_id: _policy(policy) if _asks_for_a_group(policy) else policy for policy_id, policy in policies.items()}


def _policy(policy: Mapping[str, Any]) -> Mapping[str, Any]:
    forbids = policy["effect"] == "forbid"
    conditions = [
        {**condition, "body": _assumed(condition["body"], forbids == (condition["kind"] == "when"))} for condition in policy["conditions"]
    ]
    return {**policy, "principal": _any_group(policy["principal"]) if forbids else policy["principal"], "conditions": conditions}


def _any_group(scope: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the scope of a forbidding policy without its group. A permitting policy keeps it: a principal without groups is not in it."""
    if not _asks_for_a_group(scope):
        return scope
    return {"op": "is", "entity_type": scope["entity_type"]} if scope["op"] == "is" else {"op": "All"}


def _assumed(node: Mapping[str, Any], answer: bool) -> Mapping[str, Any]:
    """Returns the expression with `answer` for each group test, and the opposite behind a `!`.

    An operator whose result does not grow with its operands gets the answer as a whole.
    """
    if not _asks_for_a_group(node):
        return node
    [(operator, operands)] = node.items()
    if operator == "!":
        return {"!": {"arg": _assumed(operands["arg"], not answer)}}
    if operator in ("&&", "||"):
        return {operator: {side: _assumed(operands[side], answer) for side in ("left", "right")}}
    return {"Value": answer}


def _asks_for_a_group(node: Any) -> bool:
    return any(kind == "Group" for kind, _ in entities_in(node))
