"""Groups policies that differ only in the names in them, so that they are evaluated together.

If a condition only states the database and table, its names are moved into the scope. To Cedar that is the same, because a table's id and
parent consist of its names, which have no dot. A thousand such conditions are then one question, like a thousand scopes. Policies are in
Cedar's JSON format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

RESOURCE: Mapping[str, str] = {"Var": "resource"}
ATTRIBUTES = ("database", "name")
"""Attributes of a table. A database has only the first one."""


def groups_of_alike(policies: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the policies by their ids, in groups that differ only in names of their scopes, or in a sole name.

    Names in conditions are moved into the scope where that is equivalent.
    """
    groups: dict[str, dict[str, Any]] = {}
    for policy_id, policy in policies.items():
        named = _with_names_in_scope(policy)
        groups.setdefault(_without_names(named), {})[policy_id] = named
    return list(groups.values())


def sole_name(policy: Mapping[str, Any]) -> str | None:
    """Returns the table name, in any database, if having this name is all that the policy requires of `resource`."""
    names = None if list(entities_in(policy["resource"])) else _names_of_condition(policy)
    return names["name"] if names is not None and names.keys() == {"name"} else None


def attribute_of(node: Any) -> str | None:
    """Returns the attribute's name, such as `database` for `resource.database`; None for another node."""
    inner = node.get(".") if isinstance(node, Mapping) else None
    if isinstance(inner, Mapping) and inner.get("left") == RESOURCE and inner.get("attr") in ATTRIBUTES:
        return str(inner["attr"])
    return None


def entities_in(node: Any) -> Iterator[tuple[str, str]]:
    """Yields type and id of each entity in a part of a policy."""
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
    """Returns the policy with its condition's database and table in its scope; unchanged where that would not be equivalent."""
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
    if not database or "." in database or name == "":  # such ids would mean other tables, or none
        return policy
    if name is None:
        named = {"op": "is", "entity_type": "Table", "in": {"entity": {"type": "Database", "id": database}}}
    else:
        named = {"op": "==", "entity": {"type": "Table", "id": f"{database}.{name}"}}
    return {**policy, "resource": named, "conditions": []}


def _names_of_condition(policy: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Returns the required name by attribute; None if the policy has other conditions, or none."""
    conditions = policy["conditions"]
    return _equalities(conditions[0]["body"]) if len(conditions) == 1 and conditions[0]["kind"] == "when" else None


def _equalities(node: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Returns the names by attribute for `resource.database == "a" && resource.name == "b"`; None for another expression."""
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
