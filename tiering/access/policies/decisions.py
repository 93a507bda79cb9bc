"""The decisions of the policies for one identity and one privilege.

Each group of policies is evaluated once per combination of outcomes of its own tests (`name_tests`). So the cost grows with groups + names,
and not with groups x names. The time of a decision depends on names only, so it does not tell whether a table exists.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.access.identity import Identity
from tiering.access.policies.engine import CedarEngine, Verdict
from tiering.access.policies.name_tests import NameTest, Texts
from tiering.access.privileges import Privilege, Resource
from tiering.name_matching import NamePatterns, with_text_between

Mask = npt.NDArray[np.bool_]

KEPT_DECISIONS = 100_000
"""Upper bound of cached decisions. Above it they are computed again, so that invented names cannot use up memory."""

BATCH = 50
"""Number of groups that Cedar evaluates together. A request for so many takes twice as long as a request for one."""

KEPT_MASKS = 16
"""Number of cached outcomes of tests for many tables: policies repeat a test."""

_ATTRIBUTES = ("database", "name", "id")

_RENUMBERED_AFTER = 32
"""Number of tests whose outcomes are numbered before the numbers are made small again, so that they fit into 64 bits."""


class Decisions:
    """Decisions for one identity and one privilege, on databases or on tables. It is thread-safe: recomputed results are the same."""

    def __init__(self, engine: CedarEngine, identity: Identity, privilege: Privilege) -> None:
        self._identity, self._privilege = identity, privilege
        self._groups = engine.applying(identity, privilege)
        self._outcomes = _Outcomes(frozenset[NameTest]().union(*(group.tests for group in self._groups)))
        self._batches = [engine.batch(tuple(self._groups[first : first + BATCH])) for first in range(0, len(self._groups), BATCH)]
        self._tests = [self._outcomes.bits(group.tests) for group in self._groups]
        self._verdicts: dict[tuple[int, int], Verdict] = {}
        """Verdicts by the number of a group and the outcomes of its tests."""
        self._cached: dict[int, bool] = {}
        """Decisions by the outcomes of all tests."""

    def of(self, resource: Resource) -> bool:
        """Returns whether the privilege is granted on a database or table: a policy permits it, and none forbids it."""
        outcomes = self._outcomes.of(resource)
        decision = self._cached.get(outcomes)
        if decision is None:
            verdicts = [(group.permits, self._verdict(number, resource, outcomes)) for number, group in enumerate(self._groups)]
            decision = not any(_denies(*verdict) for verdict in verdicts) and any(verdict is Verdict.APPLIES for _, verdict in verdicts)
            if len(self._cached) >= KEPT_DECISIONS:
                self._cached = {}
            self._cached[outcomes] = decision
        return decision

    def of_tables(self, databases: Any, names: Any) -> Mask:
        """Returns on which of many tables the privilege is granted, given as Arrow arrays of their databases and names."""
        granted, denied = np.zeros(len(names), np.bool_), np.zeros(len(names), np.bool_)
        tables = _Tables(databases, names, self._outcomes.members)
        for batch, first in enumerate(range(0, len(self._groups) if len(names) else 0, BATCH)):
            parts = [
                (number, tables.resource(example), alike)
                for number, group in enumerate(self._groups[first : first + BATCH], first)
                for example, alike in _alike([tables.mask(test) for test in group.tests])
            ]
            outcomes = {resource: self._outcomes.of(resource) for _, resource, _ in parts}
            self._ask(batch, {resource: outcomes[resource] for number, resource, _ in parts if not self._has(number, outcomes[resource])})
            for number, resource, alike in parts:
                verdict = self._verdict(number, resource, outcomes[resource])
                if _denies(self._groups[number].permits, verdict):
                    denied[alike] = True
                elif verdict is Verdict.APPLIES:
                    granted[alike] = True
        return granted & ~denied

    def _has(self, number: int, outcomes: int) -> bool:
        return (number, outcomes & self._tests[number]) in self._verdicts

    def _verdict(self, number: int, resource: Resource, outcomes: int) -> Verdict:
        """Returns the verdict of a group. If it is unknown, the engine evaluates the whole batch."""
        verdict = self._verdicts.get((number, outcomes & self._tests[number]))
        return self._ask(number // BATCH, {resource: outcomes})[0][number % BATCH] if verdict is None else verdict

    def _ask(self, batch: int, outcomes: Mapping[Resource, int]) -> list[list[Verdict]]:
        """Returns the verdicts of all groups of a batch on resources, given with their outcomes, by one call of the engine."""
        verdicts = self._batches[batch].verdicts(self._identity, self._privilege, list(outcomes)) if outcomes else []
        if len(self._verdicts) >= KEPT_DECISIONS:
            self._verdicts = {}
        for of_resource, passed in zip(verdicts, outcomes.values(), strict=True):
            for member, verdict in enumerate(of_resource, batch * BATCH):
                self._verdicts[member, passed & self._tests[member]] = verdict
        return verdicts


def _denies(permits: bool, verdict: Verdict) -> bool:
    """Returns whether a verdict denies everything. A policy that cannot be evaluated does, in Lakeward."""
    return verdict is Verdict.ERROR or (verdict is Verdict.APPLIES and not permits)


class _Outcomes:
    """The outcomes of tests for one resource, as a number with one bit per test."""

    def __init__(self, tests: Collection[NameTest]) -> None:
        self._bits = {test: 1 << number for number, test in enumerate(tests)}
        self._attributes = [self._of_attribute(attribute) for attribute in _ATTRIBUTES]

    @property
    def members(self) -> Mapping[str, Collection[str]]:
        """All members of the sets of the tests, by attribute."""
        return {attribute: members for attribute, (_, _, members) in zip(_ATTRIBUTES, self._attributes, strict=True)}

    def _of_attribute(self, attribute: str) -> tuple[NamePatterns, list[int], dict[str, int]]:
        """Returns the patterns, the bit of each one, and for each member of a set the bits of its sets."""
        of_attribute = {test.expected: bit for test, bit in self._bits.items() if test.attribute == attribute}
        patterns = {expected: bit for expected, bit in of_attribute.items() if isinstance(expected, tuple)}
        members: dict[str, int] = {}
        for expected, bit in of_attribute.items():
            for member in expected if isinstance(expected, frozenset) else ():
                members[member] = members.get(member, 0) | bit
        return NamePatterns(map(with_text_between, patterns)), list(patterns.values()), members

    def of(self, resource: Resource) -> int:
        """Returns the outcomes for a database or table. A database passes no test of table names."""
        outcomes = 0
        values = (resource.database, resource.name, resource.id if resource.name is not None else None)
        for value, (patterns, bits, members) in zip(values, self._attributes, strict=True):
            if value is not None:
                outcomes |= members.get(value, 0)
                for number in patterns.matching(value) if bits else ():
                    outcomes |= bits[number]
        return outcomes

    def bits(self, tests: Iterable[NameTest]) -> int:
        """Returns the bits of some of the tests."""
        return sum(self._bits[test] for test in tests)


class _Tables:
    """Many tables, by Arrow arrays of their databases and names. Patterns of databases are evaluated once per database, and all sets with
    one look-up of their members.
    """

    def __init__(self, databases: Any, names: Any, members: Mapping[str, Collection[str]]) -> None:
        self._databases, self._names = _whole(databases), _whole(names)
        encoded = self._databases.dictionary_encode()
        self._distinct_databases, self._database_numbers = encoded.dictionary, encoded.indices.to_numpy().astype(np.intp)
        self._members = members
        self._places: dict[str, Mapping[str, Any]] = {}
        """By attribute, the numbers of the tables with each member of a set."""
        self.mask = lru_cache(KEPT_MASKS)(self._mask)
        """Returns which tables pass a test."""

    def resource(self, number: int) -> Resource:
        """Returns one table."""
        return Resource(self._databases[number].as_py(), self._names[number].as_py())

    def _mask(self, test: NameTest) -> Mask:
        if not isinstance(test.expected, frozenset):
            if test.attribute == "name":
                return _mask(test.expected, self._names)
            of_databases = _mask(test.expected, self._distinct_databases)
            return of_databases[self._database_numbers] if of_databases.any() else np.zeros(len(self._names), np.bool_)
        if (places := self._places.get(test.attribute)) is None:
            places = self._places[test.attribute] = self._places_of(test.attribute)
        mask = np.zeros(len(self._names), np.bool_)
        for member in test.expected & places.keys():
            mask[places[member]] = True
        return mask

    def _places_of(self, attribute: str) -> Mapping[str, Any]:
        """Returns the numbers of the tables with each member of a set. Members without a table are left out."""
        members = list(self._members[attribute])
        values, rows = self._names, slice(None)
        if attribute == "database":
            values, rows = self._distinct_databases, self._database_numbers
        elif attribute == "id":
            values = pc.binary_join_element_wise(self._databases, self._names, ".")
        numbers = pc.fill_null(pc.index_in(values, value_set=pa.array(members, pa.string())), -1).to_numpy()[rows]
        at = np.flatnonzero(numbers >= 0)
        at = at[np.argsort(numbers[at], kind="stable")]
        parts = np.split(at, np.flatnonzero(np.diff(numbers[at])) + 1) if len(at) else []
        return {members[numbers[part[0]]]: part for part in parts}


def _whole(texts: Any) -> Any:
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    return texts.cast(pa.string())


def _mask(expected: Texts, values: Any) -> Mask:
    """Returns which values match a pattern."""
    passed: Any
    if len(expected) == 1:
        passed = pc.equal(values, pa.scalar(expected[0]))
    elif len(expected) == 3 and not expected[0] and not expected[2]:
        passed = pc.match_substring(values, expected[1])
    else:
        is_long = pc.greater_equal(pc.binary_length(values), pa.scalar(sum(len(text.encode()) for text in expected)))
        passed = pc.and_(is_long, pc.and_(pc.starts_with(values, expected[0]), pc.ends_with(values, expected[-1])))
        if any(expected[1:-1]):
            return _with_middle(expected, values, passed)
    mask: Mask = passed.to_numpy(zero_copy_only=False)
    return mask


def _with_middle(expected: Texts, values: Any, candidates: Any) -> Mask:
    """Returns which candidates match a pattern. They are as long as its texts, so the regular expression is not longer than a name."""
    mask: Mask = candidates.to_numpy(zero_copy_only=False).copy()
    at = np.flatnonzero(mask)
    if len(at):
        regex = f"(?s)^{'.*'.join(map(re.escape, expected))}$"  # Arrow matches by RE2, in linear time
        mask[at] = pc.match_substring_regex(values.take(pa.array(at)), regex).to_numpy(zero_copy_only=False)
    return mask


def _alike(masks: Sequence[Mask]) -> list[tuple[int, Any]]:
    """Returns, for each combination of outcomes that occurs, the number of a table and NumPy's index of all tables that have it."""
    masks = [mask for mask in masks if mask.any()]
    if not masks:
        return [(0, slice(None))]
    passed = np.logical_or.reduce(masks)
    rows = np.flatnonzero(passed)  # few, for most tests
    codes: Any = np.zeros(len(rows), np.uint8 if len(masks) <= 8 else np.int64)
    for number, mask in enumerate(masks, 1):
        codes = codes * 2 + mask[rows]
        if number % _RENUMBERED_AFTER == 0:
            codes = np.unique(codes, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    parts = np.split(rows[order], np.flatnonzero(np.diff(codes[order])) + 1)
    alike: list[tuple[int, Any]] = [(int(part[0]), part) for part in parts]
    return alike if len(rows) == len(passed) else [(int(np.argmin(passed)), ~passed), *alike]
