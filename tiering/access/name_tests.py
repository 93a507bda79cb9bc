"""What a policy asks of names: the few tests by which two tables can differ for it.

A decision depends on a table by the outcomes of these tests alone: `name_tests` refuses any other use of `resource`. So the engine is asked
once for each combination of outcomes that occurs, and never once a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.errors import InvalidArgument

_RESOURCE: Mapping[str, str] = {"Var": "resource"}
_COMPARISONS = ("==", "!=", "contains")
_ATTRIBUTES = ("database", "name")


@dataclass(frozen=True)
class NameTest:
    """Whether the database's or the table's name consists of these texts, in their order, with anything between two of them.

    An empty text at the beginning or the end lets anything stand there: `("sales_", "")` is `sales_*`.
    """

    attribute: str
    texts: tuple[str, ...]

    def matches(self, name: str) -> bool:
        """Whether a name passes."""
        return self._pattern.fullmatch(name) is not None

    def outcomes(self, names: Any) -> npt.NDArray[np.bool_]:
        """The same of many names, an Arrow array."""
        texts = self.texts
        passes: Any
        if len(texts) == 1:
            passes = pc.equal(names, pa.scalar(texts[0]))
        elif len(texts) == 2 and not texts[0]:
            passes = pc.ends_with(names, texts[1])
        elif len(texts) == 2 and not texts[1]:
            passes = pc.starts_with(names, texts[0])
        elif len(texts) == 3 and not texts[0] and not texts[2]:
            passes = pc.match_substring(names, texts[1])
        else:
            passes = pc.match_substring_regex(names, f"^(?s:{'.*'.join(map(re.escape, texts))})$")
        outcomes: npt.NDArray[np.bool_] = passes.to_numpy(zero_copy_only=False)
        return outcomes

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(".*".join(map(re.escape, self.texts)), re.DOTALL)


@dataclass(frozen=True)
class NameTests:
    """All tests of a policy file; `tables` are those that it names one by one."""

    databases: tuple[NameTest, ...]
    names: tuple[NameTest, ...]
    tables: frozenset[tuple[str, str]]


def name_tests(policies: Mapping[str, Any]) -> NameTests:
    """The tests of policies in Cedar's JSON format, by their ids. Raises InvalidArgument for a use of `resource` that is no such test."""
    tests: set[NameTest] = set()
    tables: set[tuple[str, str]] = set()
    for number, policy in enumerate(policies.values()):
        name = policy.get("annotations", {}).get("id") or f"number {number + 1}"
        for kind, entity_id in _entities(policy["resource"]):
            _add_entity(kind, entity_id, tests, tables)
        for condition in policy["conditions"]:
            _collect(name, condition["body"], tests, tables)
    ordered = sorted(tests, key=lambda test: (test.attribute, test.texts))
    databases, names = (tuple(test for test in ordered if test.attribute == attribute) for attribute in _ATTRIBUTES)
    return NameTests(databases, names, frozenset(tables))


def _collect(policy: str, node: Any, tests: set[NameTest], tables: set[tuple[str, str]]) -> None:
    """Adds the tests in an expression."""
    if isinstance(node, Mapping):
        if node == _RESOURCE:
            raise _not_a_test(policy)
        for operator, operands in node.items():
            if not _is_test(policy, operator, operands, tests, tables):
                _collect(policy, operands, tests, tables)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for item in node:
            _collect(policy, item, tests, tables)


def _is_test(policy: str, operator: str, operands: Any, tests: set[NameTest], tables: set[tuple[str, str]]) -> bool:
    """Adds the test, if the operator makes one of `resource` or of its names."""
    if not isinstance(operands, Mapping):
        return False
    left, right = operands.get("left"), operands.get("right")
    if operator == "like" and (attribute := _attribute(left)) is not None:
        tests.add(NameTest(attribute, _pattern(operands["pattern"])))
        return True
    if operator == "is" and left == _RESOURCE:
        _add_constants(policy, None, operands.get("in", {}), tests, tables)
        return True
    if operator in (*_COMPARISONS, "in"):
        for side, other in ((left, right), (right, left)):
            if side == _RESOURCE or _attribute(side) is not None:
                _add_constants(policy, _attribute(side), other, tests, tables)
                return True
    return False


def _add_constants(policy: str, attribute: str | None, node: Any, tests: set[NameTest], tables: set[tuple[str, str]]) -> None:
    if _has_variable(node):
        raise _not_a_test(policy)
    if attribute is None:
        for kind, entity_id in _entities(node):
            _add_entity(kind, entity_id, tests, tables)
    else:
        tests.update(NameTest(attribute, (text,)) for text in _texts(node))


def _add_entity(kind: str, entity_id: str, tests: set[NameTest], tables: set[tuple[str, str]]) -> None:
    if kind == "Database":
        tests.add(NameTest("database", (entity_id,)))
    elif kind == "Table":
        database, dot, name = entity_id.partition(".")
        if not (database and dot and name):
            raise InvalidArgument(f"a policy names {entity_id!r} as a table", hint='Write Table::"database.table".')
        tables.add((database, name))


def _attribute(node: Any) -> str | None:
    """`database` of `resource.database`."""
    inner = node.get(".") if isinstance(node, Mapping) else None
    if isinstance(inner, Mapping) and inner.get("left") == _RESOURCE and inner.get("attr") in _ATTRIBUTES:
        return str(inner["attr"])
    return None


def _has_variable(node: Any) -> bool:
    """Whether a part of a policy depends on who asks, or for what."""
    if isinstance(node, Mapping):
        return "Var" in node or any(map(_has_variable, node.values()))
    return isinstance(node, list) and any(map(_has_variable, node))


def _entities(node: Any) -> Iterator[tuple[str, str]]:
    """Type and id of each entity in a part of a policy."""
    if isinstance(node, Mapping):
        if isinstance(node.get("type"), str) and isinstance(node.get("id"), str):
            yield node["type"], node["id"]
        else:
            for value in node.values():
                yield from _entities(value)
    elif isinstance(node, list):
        for value in node:
            yield from _entities(value)


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


def _pattern(parts: Sequence[Any]) -> tuple[str, ...]:
    texts = [""]
    for part in parts:
        if part == "Wildcard":
            texts.append("")
        else:
            texts[-1] += part["Literal"]
    return tuple(texts)


def _not_a_test(policy: str) -> InvalidArgument:
    return InvalidArgument(
        f"the policy {policy} uses `resource` in a comparison that depends on more than names",
        hint="Compare resource, resource.database and resource.name with texts, patterns (like) and entities that stand in the policy.",
    )
