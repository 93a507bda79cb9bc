"""The tests of names in a policy: the few comparisons by which the policy can distinguish two tables.

A policy depends on a table only by the outcomes of its tests; `name_tests` refuses any other use of `resource`. So the engine is asked once
per combination of outcomes that occurs, and never once per table.

For policies that are evaluated together (`policies_alike`), all their names are one test: for each of these names the answer is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiering.access.policies.name_patterns import Pattern
from tiering.access.policies.policies_alike import ATTRIBUTES, RESOURCE, attribute_of, entities_in, sole_name
from tiering.errors import InvalidArgument

_COMPARISONS = ("==", "!=", "contains")
_LOOKS_AT_ENTITIES = (".", "has", "in", "is")


@dataclass(frozen=True)
class NameTests:
    """Tests of some policies: whether a name matches a pattern, or is in a set of names."""

    database_patterns: frozenset[Pattern] = frozenset()
    database_sets: frozenset[frozenset[str]] = frozenset()
    name_patterns: frozenset[Pattern] = frozenset()
    name_sets: frozenset[frozenset[str]] = frozenset()
    table_sets: frozenset[frozenset[tuple[str, str]]] = frozenset()


@dataclass
class _Tests:
    """Tests while they are collected."""

    patterns: dict[str, set[Pattern]] = field(default_factory=lambda: {attribute: set() for attribute in ATTRIBUTES})
    sets: dict[str, set[frozenset[str]]] = field(default_factory=lambda: {attribute: set() for attribute in ATTRIBUTES})
    tables: set[frozenset[tuple[str, str]]] = field(default_factory=set)

    def add_entities(self, entities: Iterator[tuple[str, str]]) -> None:
        """Adds one test of the databases among the entities, and one of the tables."""
        databases, tables = _by_kind(entities)
        if databases:
            self.sets["database"].add(databases)
        if tables:
            self.tables.add(tables)


def name_tests(group: Mapping[str, Any]) -> NameTests:
    """Returns the tests of a group in Cedar's JSON format. Raises InvalidArgument for a use of `resource` that is not such a test."""
    tests = _Tests()
    policy_id, policy = next(iter(group.items()))
    for condition in policy["conditions"]:
        _collect(_label(policy_id, policy), condition["body"], tests)
    tests.add_entities(entity for member in group.items() for entity in _resources_in(_label(*member), member[1]["resource"]))
    if alike := frozenset(name for member in group.values() if (name := sole_name(member)) is not None):
        tests.sets["name"] = {alike}  # instead of the first policy's test, which is the only one that was collected
    return NameTests(
        frozenset(tests.patterns["database"]),
        frozenset(tests.sets["database"]),
        frozenset(tests.patterns["name"]),
        frozenset(tests.sets["name"]),
        frozenset(tests.tables),
    )


def _label(policy_id: str, policy: Mapping[str, Any]) -> str:
    """Returns the policy's name for users."""
    return str(policy.get("annotations", {}).get("id") or f"number {number_of(policy_id) + 1}")


def number_of(policy_id: str) -> int:
    """Returns the number in a policy id: 12 for policy12. Cedar numbers policies in the order of the text."""
    digits = policy_id.removeprefix("policy")
    return int(digits) if digits.isdecimal() else 0


def _collect(policy: str, node: Any, tests: _Tests) -> None:
    """Adds the tests in an expression."""
    if isinstance(node, Mapping):
        if node == RESOURCE or ("Value" in node and _names_a_resource(node)):
            raise _not_a_test(policy)
        for operator, operands in node.items():
            if not _is_test(policy, operator, operands, tests):
                _collect(policy, operands, tests)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for item in node:
            _collect(policy, item, tests)


def _is_test(policy: str, operator: str, operands: Any, tests: _Tests) -> bool:
    """Adds the test if the operator tests `resource` or its names. Returns whether it does."""
    if not isinstance(operands, Mapping):
        return False
    left, right = operands.get("left"), operands.get("right")
    if operator == "like" and (attribute := attribute_of(left)) is not None:
        tests.patterns[attribute].add(_pattern(operands["pattern"]))
        return True
    if operator == "is" and left == RESOURCE:
        _add_constants(policy, None, operands.get("in", {}), tests)
        return True
    if operator in (*_COMPARISONS, "in"):
        for side, other in ((left, right), (right, left)):
            if side == RESOURCE or attribute_of(side) is not None:
                _add_constants(policy, attribute_of(side), other, tests)
                return True
    return False


def _add_constants(policy: str, attribute: str | None, node: Any, tests: _Tests) -> None:
    """Adds one test for a list of constants.

    In any other expression, each constant is a test, because their combination is unknown here.
    """
    if _has_variable(node) or _depends_on_entities(node):
        raise _not_a_test(policy)
    parts = [node] if _is_plain(node) else list(_constants(node))
    for part in parts:
        if attribute is None:
            tests.add_entities(_resources_in(policy, part))
        elif texts := frozenset(_texts(part)):
            tests.sets[attribute].add(texts)


def _is_plain(node: Any) -> bool:
    """Returns whether the node is a constant or a list of constants."""
    if not isinstance(node, Mapping):
        return False
    items = node.get("Set")
    return "Value" in node or "entity" in node or (isinstance(items, list) and all("Value" in item for item in items))


def _constants(node: Any) -> Iterator[Any]:
    """Yields each constant in an expression."""
    if isinstance(node, Mapping):
        if "Value" in node or "entity" in node:
            yield node
        else:
            for value in node.values():
                yield from _constants(value)
    elif isinstance(node, list):
        for value in node:
            yield from _constants(value)


def _resources_in(policy: str, node: Any) -> Iterator[tuple[str, str]]:
    """Yields type and id of each entity. Raises InvalidArgument for a table without its database."""
    for kind, entity_id in entities_in(node):
        if kind == "Table" and not all(entity_id.partition(".")):
            raise InvalidArgument(f"the policy {policy} names {entity_id!r} as a table", hint='Write Table::"database.table".')
        yield kind, entity_id


def _by_kind(entities: Iterator[tuple[str, str]]) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """Returns the databases and the tables among entities."""
    databases, tables = set(), set()
    for kind, entity_id in entities:
        if kind == "Database":
            databases.add(entity_id)
        elif kind == "Table":
            database, _, name = entity_id.partition(".")
            tables.add((database, name))
    return frozenset(databases), frozenset(tables)


def _has_variable(node: Any) -> bool:
    """Returns whether a part of a policy depends on the principal, the action or the resource."""
    if isinstance(node, Mapping):
        return "Var" in node or any(map(_has_variable, node.values()))
    return isinstance(node, list) and any(map(_has_variable, node))


def _depends_on_entities(node: Any) -> bool:
    """Returns whether a part of a policy uses attributes of a named database or table. Cedar gets attributes only of `resource`."""
    if isinstance(node, Mapping):
        of_entities = any(operator in node and _names_a_resource(node[operator]) for operator in _LOOKS_AT_ENTITIES)
        return of_entities or any(map(_depends_on_entities, node.values()))
    return isinstance(node, list) and any(map(_depends_on_entities, node))


def _names_a_resource(node: Any) -> bool:
    return any(kind in ("Database", "Table") for kind, _ in entities_in(node))


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(value := node.get("Value"), str):
            yield value
        else:
            for part in node.values():
                yield from _texts(part)
    elif isinstance(node, list):
        for part in node:
            yield from _texts(part)


def _pattern(parts: Sequence[Any]) -> Pattern:
    texts = [""]
    for part in parts:
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
