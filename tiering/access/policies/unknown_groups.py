"""Policies for a user whose groups are not known: one for whom a service acts, which gives the user's name alone.

Such a user may be in any group. So a policy that forbids applies if it would for some set of groups, and one that permits applies only if
it would for every set. Each question whether the principal is in a group is answered by what is worse for the user. Policies in Cedar's
JSON format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiering.access.policies.policies_alike import entities_in


def for_unknown_groups(policies: Mapping[str, Any]) -> dict[str, Any]:
    """The policies by their ids. What they say of a principal without groups holds for one with unknown groups."""
    return {policy_id: _policy(policy) if _asks_for_a_group(policy) else policy for policy_id, policy in policies.items()}


def _policy(policy: Mapping[str, Any]) -> Mapping[str, Any]:
    forbids = policy["effect"] == "forbid"
    conditions = [
        {**condition, "body": _assumed(condition["body"], forbids == (condition["kind"] == "when"))} for condition in policy["conditions"]
    ]
    return {**policy, "principal": _any_group(policy["principal"]) if forbids else policy["principal"], "conditions": conditions}


def _any_group(scope: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scope of a policy that forbids, without its group. One that permits has its own: a principal without groups is not in it."""
    if not _asks_for_a_group(scope):
        return scope
    return {"op": "is", "entity_type": scope["entity_type"]} if scope["op"] == "is" else {"op": "All"}


def _assumed(node: Mapping[str, Any], answer: bool) -> Mapping[str, Any]:
    """The expression with `answer` for each question for a group, and the other one behind a `!`. An operator whose result does not grow
    with its operands is answered as a whole.
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
