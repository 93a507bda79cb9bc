"""Policies that differ in nothing but the names in them are asked together.

Where a condition says no more than which database and table it is, the name is taken into the scope, which is the same to Cedar (a table's
id and parent are made of its names, in which there is no dot): a thousand such conditions are then one question, as a thousand scopes are.
Policies in Cedar's JSON format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

RESOURCE: Mapping[str, str] = {"Var": "resource"}
ATTRIBUTES = ("database", "name")
"""Of a table; a database has the first alone."""


def groups_of_alike(policies: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The policies by their ids, with names in their scopes where that is the same, in groups that differ in nothing but these or in a
    sole name.
    """
    groups: dict[str, dict[str, Any]] = {}
    for policy_id, policy in policies.items():
        named = _with_names_in_scope(policy)
        groups.setdefault(_without_names(named), {})[policy_id] = named
    return list(groups.values())


def sole_name(policy: Mapping[str, Any]) -> str | None:
    """The name of a table, in any database, if the policy asks nothing else of `resource` than to have it."""
    names = None if list(entities_in(policy["resource"])) else _names_of_condition(policy)
    return names["name"] if names is not None and names.keys() == {"name"} else None


def attribute_of(node: Any) -> str | None:
    """`database` of `resource.database`."""
    inner = node.get(".") if isinstance(node, Mapping) else None
    if isinstance(inner, Mapping) and inner.get("left") == RESOURCE and inner.get("attr") in ATTRIBUTES:
        return str(inner["attr"])
    return None


def entities_in(node: Any) -> Iterator[tuple[str, str]]:
    """Type and id of each entity in a part of a policy."""
    if isinstance(node, Mapping):
        if isinstance(node.get("type"), str) and isinstance(node.get("id"), str):
            yield node["type"], node["id"]
        else:
            for value in node.values():
                yield from entities_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from entities_in(value)


def _without_names(policy: Mapping[str, Any]) -> str:
    scope = policy["resource"]
    kinds = sorted(kind for kind, _ in entities_in(scope))
    shape = [scope["op"], scope.get("entity_type"), "in" in scope, kinds]
    conditions = policy["conditions"] if sole_name(policy) is None else "a name"
    return json.dumps([policy["effect"], policy["principal"], policy["action"], shape, conditions], sort_keys=True)


def _with_names_in_scope(policy: Mapping[str, Any]) -> Mapping[str, Any]:
    """The policy with the database, and the table, in its scope that its condition names; as it is where that would not be the same."""
    names = _names_of_condition(policy)
    scope = policy["resource"]
    if names is None or scope["op"] != "is" or scope["entity_type"] != "Table":
        return policy
    databases = [entity_id if kind == "Database" else "" for kind, entity_id in entities_in(scope)]
    if "database" in names:
        databases.append(names["database"])
    if len(databases) != 1:
        return policy
    [database] = databases
    name = names.get("name")
    if not database or "." in database or name == "":  # such ids would tell of other tables, or of none
        return policy
    if name is None:
        named = {"op": "is", "entity_type": "Table", "in": {"entity": {"type": "Database", "id": database}}}
    else:
        named = {"op": "==", "entity": {"type": "Table", "id": f"{database}.{name}"}}
    return {**policy, "resource": named, "conditions": []}


def _names_of_condition(policy: Mapping[str, Any]) -> Mapping[str, str] | None:
    """By attribute the name that it must have; None if the conditions of the policy are anything else, or it has none."""
    conditions = policy["conditions"]
    return _equalities(conditions[0]["body"]) if len(conditions) == 1 and conditions[0]["kind"] == "when" else None


def _equalities(node: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Of `resource.database == "a" && resource.name == "b"` the names by their attributes; of anything else None."""
    if "&&" in node:
        left, right = _equalities(node["&&"]["left"]), _equalities(node["&&"]["right"])
        return None if left is None or right is None or left.keys() & right.keys() else {**left, **right}
    if "==" not in node:
        return None
    left, right = node["=="]["left"], node["=="]["right"]
    for side, other in ((left, right), (right, left)):
        attribute, text = attribute_of(side), other.get("Value")
        if attribute is not None and isinstance(text, str):
            return {attribute: text}
    return None
