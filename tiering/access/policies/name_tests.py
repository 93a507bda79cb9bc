"""The tests of names in a policy: the few comparisons by which the policy can distinguish two tables.

A policy depends on a table only by the outcomes of its tests; `name_tests` refuses any other use of `resource`. So the engine is asked once
per combination of outcomes that occurs, and never once per table. Policies are in Cedar's JSON format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from tiering.errors import InvalidArgument

_RESOURCE = {"Var": "resource"}
_ATTRIBUTES = {"Database": "database", "Table": "id"}
"""The attribute of a resource that has the id of an entity, by the entity's type."""
_COMPARISONS = ("==", "!=", "contains", "in")
_ENTITY_LOOKUPS = (".", "has", "in", "is")

Texts = tuple[str, ...]
"""The texts of a pattern in order, with a wildcard between two of them: `("sales_", "")` is `sales_*`."""


class NameTest(NamedTuple):
    """Whether the `database`, the `name` or the `id` of a resource matches a pattern, or is in a set."""

    attribute: str
    expected: Texts | frozenset[str]


def name_tests(group: Mapping[str, Any]) -> frozenset[NameTest]:
    """Returns the tests of policies, by their ids, that differ only in the resources of their scopes.

    Each of these resources has the same result, so together they are one test. Raises InvalidArgument for a use of `resource` that is not a
    test.
    """
    policy_id, policy = next(iter(group.items()))
    tests = {test for condition in policy["conditions"] for test in _tests(_label(policy_id, policy), condition["body"])}
    scopes = [entity for member in group.items() for entity in _resources_in(_label(*member), member[1]["resource"])]
    return frozenset(tests.union(_tests_of_entities(scopes)))


def entities_in(node: Any) -> Iterator[tuple[str, str]]:
    """Yields type and id of each entity in a part of a policy."""
    if isinstance(node, Mapping) and isinstance(node.get("type"), str) and isinstance(node.get("id"), str):
        yield node["type"], node["id"]
    else:
        for part in _parts(node):
            yield from entities_in(part)


def number_of(policy_id: str) -> int:
    """Returns the number in a policy id: 12 for policy12. Cedar numbers policies in the order of the text."""
    digits = policy_id.removeprefix("policy")
    return int(digits) if digits.isdecimal() else 0


def _label(policy_id: str, policy: Mapping[str, Any]) -> str:
    """Returns the policy's name for users."""
    return str(policy.get("annotations", {}).get("id") or f"number {number_of(policy_id) + 1}")


def _parts(node: Any) -> Sequence[Any]:
    return list(node.values()) if isinstance(node, Mapping) else node if isinstance(node, list) else ()


def _tests(policy: str, node: Any) -> Iterator[NameTest]:
    """Yields the tests in an expression."""
    if node == _RESOURCE or (isinstance(node, Mapping) and "Value" in node and _names_a_resource(node)):
        raise _not_a_test(policy)
    for operator, operands in node.items() if isinstance(node, Mapping) else enumerate(_parts(node)):
        left, right = (operands.get(side) for side in ("left", "right")) if isinstance(operands, Mapping) else (None, None)
        compared, other = (left, right) if _attribute(left) is not None else (right, left)
        attribute = _attribute(compared)
        if operator == "like" and attribute is not None:
            yield NameTest(attribute, _texts(operands["pattern"]))
        elif operator == "is" and attribute is not None:
            yield from _constant_tests(policy, attribute, operands.get("in", {}))
        elif operator in _COMPARISONS and attribute is not None:
            yield from _constant_tests(policy, attribute, other)
        else:
            yield from _tests(policy, operands)


def _attribute(node: Any) -> str | None:
    """Returns `database` or `name` for such an attribute of `resource`, `id` for `resource` itself, and None for another node."""
    if node == _RESOURCE:
        return "id"
    inner = node.get(".") if isinstance(node, Mapping) else None
    if isinstance(inner, Mapping) and inner.get("left") == _RESOURCE and inner.get("attr") in ("database", "name"):
        return str(inner["attr"])
    return None


def _constant_tests(policy: str, attribute: str, node: Any) -> Iterator[NameTest]:
    """Yields one test for a list of constants.

    In any other expression, each constant is a test, because their combination is unknown here.
    """
    if _has_variable(node) or _depends_on_entities(node):
        raise _not_a_test(policy)
    for part in [node] if _is_plain(node) else list(_constants(node)):
        if attribute == "id":
            yield from _tests_of_entities(_resources_in(policy, part))
        elif texts := frozenset(value for constant in _constants(part) if isinstance(value := constant.get("Value"), str)):
            yield NameTest(attribute, texts)


def _tests_of_entities(entities: Iterable[tuple[str, str]]) -> Iterator[NameTest]:
    """Yields one test of the databases among entities, and one of the tables."""
    for kind, named in groupby(sorted(entities), key=lambda entity: entity[0]):
        if kind in _ATTRIBUTES:
            yield NameTest(_ATTRIBUTES[kind], frozenset(entity_id for _, entity_id in named))


def _is_plain(node: Any) -> bool:
    """Returns whether the node is a constant or a list of constants."""
    if not isinstance(node, Mapping):
        return False
    items = node.get("Set")
    return "Value" in node or "entity" in node or (isinstance(items, list) and all("Value" in item for item in items))


def _constants(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yields each constant in an expression."""
    if isinstance(node, Mapping) and ("Value" in node or "entity" in node):
        yield node
    else:
        for part in _parts(node):
            yield from _constants(part)


def _resources_in(policy: str, node: Any) -> Iterator[tuple[str, str]]:
    """Yields type and id of each entity. Raises InvalidArgument for a table without its database."""
    for kind, entity_id in entities_in(node):
        if kind == "Table" and not all(entity_id.partition(".")):
            raise InvalidArgument(f"the policy {policy} names {entity_id!r} as a table", hint='Write Table::"database.table".')
        yield kind, entity_id


def _has_variable(node: Any) -> bool:
    """Returns whether a part of a policy depends on the principal, the action or the resource."""
    return (isinstance(node, Mapping) and "Var" in node) or any(map(_has_variable, _parts(node)))


def _depends_on_entities(node: Any) -> bool:
    """Returns whether a part of a policy uses attributes of a named database or table. Cedar gets attributes only of `resource`."""
    looked_up = [node[operator] for operator in _ENTITY_LOOKUPS if operator in node] if isinstance(node, Mapping) else []
    return any(map(_names_a_resource, looked_up)) or any(map(_depends_on_entities, _parts(node)))


def _names_a_resource(node: Any) -> bool:
    return any(kind in _ATTRIBUTES for kind, _ in entities_in(node))


def _texts(pattern: Sequence[Any]) -> Texts:
    """Returns the texts of a pattern in Cedar's JSON format."""
    texts = [""]
    for part in pattern:
        if part == "Wildcard":
            texts.append("")
        else:
            texts[-1] += part["Literal"]
    return tuple(texts)


def _not_a_test(policy: str) -> InvalidArgument:
    return InvalidArgument(
        f"the policy {policy} uses `resource`, or another table or database, in a comparison that depends on more than names",
        hint="Compare resource, resource.database and resource.name with texts, patterns (like) and entities that are in the policy.",
    )
