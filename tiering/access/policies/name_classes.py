"""Classes of tables that some policies cannot distinguish, because all tests of names have the same outcomes (`name_tests`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiering.access.policies.name_patterns import Codes, NamePatterns, renumbered
from tiering.access.policies.name_tests import NameTests
from tiering.access.privileges import Resource

NameClass = tuple[int, int, int, int, int]
"""The outcomes of all tests, one bit per test: patterns and sets of databases, patterns and sets of names, sets of tables."""

UNNAMED: NameClass = (0, 0, 0, 0, 0)
"""The class of names that pass no test, and of the service."""


@dataclass(frozen=True)
class TableClasses:
    """The classes of many tables. `codes` has a number for each table. `examples` has, by number, the index of a table of that class."""

    codes: Codes
    classes: Sequence[NameClass]
    examples: Codes


class NameClasses:
    """The classes of databases and tables by the tests of some groups of policies. It is thread-safe."""

    def __init__(self, groups: Sequence[NameTests]) -> None:
        self._tests = tuple(sorted(set().union(*tests), key=_sort_key) for tests in _by_field(groups))
        database_patterns, database_sets, name_patterns, name_sets, table_sets = self._tests
        self._databases = _Names(database_patterns, database_sets)
        self._names = _Names(name_patterns, name_sets)
        self._tables = _NamedTables(table_sets)

    def of(self, resource: Resource) -> NameClass:
        """Returns the class of one resource, which need not exist."""
        if resource.database is None:
            return UNNAMED
        if resource.name is None:
            return *self._databases.of(resource.database), 0, 0, 0
        path = (resource.database, resource.name)
        return *self._databases.of(resource.database), *self._names.of(resource.name), self._tables.of(path)

    def of_tables(self, databases: Any, names: Any) -> TableClasses:
        """Returns the classes of many tables, given as Arrow arrays of their databases and names."""
        encoded = pc.dictionary_encode(databases)
        database_codes, distinct_databases = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
        by_database, of_databases = self._databases.outcomes(distinct_databases)
        name_codes, of_names = self._names.outcomes(names)
        table_codes, of_tables = self._tables.outcomes(distinct_databases, database_codes, names)
        codes, before = renumbered((by_database[database_codes] * len(of_names) + name_codes) * len(of_tables) + table_codes)
        pairs, tables = np.divmod(before, len(of_tables))
        databases_at, names_at = np.divmod(pairs, len(of_names))
        numbers = zip(databases_at.tolist(), names_at.tolist(), tables.tolist(), strict=True)
        examples = np.zeros(len(before), np.intp)
        examples[codes] = np.arange(len(codes))
        return TableClasses(codes, [(*of_databases[d], *of_names[n], of_tables[t]) for d, n, t in numbers], examples)

    def bits_of(self, tests: NameTests) -> NameClass:
        """Returns the bits of those tests."""
        chosen_fields = _by_field([tests])
        database_patterns, database_sets, name_patterns, name_sets, table_sets = (
            sum(1 << bit for bit, test in enumerate(tests_of_field) if test in chosen)
            for tests_of_field, (chosen,) in zip(self._tests, chosen_fields, strict=True)
        )
        return database_patterns, database_sets, name_patterns, name_sets, table_sets


def _by_field(groups: Sequence[NameTests]) -> list[list[Collection[Any]]]:
    return [
        [tests.database_patterns for tests in groups],
        [tests.database_sets for tests in groups],
        [tests.name_patterns for tests in groups],
        [tests.name_sets for tests in groups],
        [tests.table_sets for tests in groups],
    ]


def _sort_key(test: Iterable[Any]) -> list[Any]:
    """Returns the texts of a pattern in their order, or the sorted members of a set."""
    return list(test) if isinstance(test, tuple) else sorted(test)


class _Names:
    """Tests of one kind of names: patterns, and sets of names."""

    def __init__(self, patterns: Sequence[Any], sets: Sequence[frozenset[str]]) -> None:
        self._patterns = NamePatterns(patterns)
        self._sets = _memberships(sets)
        self._members = pa.array(list(self._sets), pa.string())
        self._codes, self._memberships = _numbered(list(self._sets.values()))

    def of(self, name: str) -> tuple[int, int]:
        """Returns the outcomes for one name, one bit per test."""
        return self._patterns.matches(name), self._sets.get(name, 0)

    def outcomes(self, names: Any) -> tuple[Codes, list[tuple[int, int]]]:
        """Returns a number for each name in an Arrow array, and the outcomes by number."""
        codes, matches = self._patterns.outcomes(names)
        if not self._sets:
            return codes, [(match, 0) for match in matches]
        codes, before = renumbered(codes * len(self._memberships) + self._codes[_positions(names, self._members)])
        pairs = (divmod(pair, len(self._memberships)) for pair in before.tolist())
        return codes, [(matches[match], self._memberships[membership]) for match, membership in pairs]


class _NamedTables:
    """Sets of tables that policies name one by one."""

    def __init__(self, sets: Sequence[frozenset[tuple[str, str]]]) -> None:
        self._sets = _memberships(sets)
        self._databases = pa.array(sorted({database for database, _ in self._sets}), pa.string())
        self._names = pa.array(sorted({name for _, name in self._sets}), pa.string())
        paths = [pa.array([path[at] for path in self._sets], pa.string()) for at in (0, 1)]
        keys = self._keys(_positions(paths[0], self._databases), _positions(paths[1], self._names))
        order = np.argsort(keys)
        codes, self._memberships = _numbered(list(self._sets.values()))
        self._sorted_keys, self._codes = keys[order], codes[order]

    def of(self, path: tuple[str, str]) -> int:
        """Returns the sets that contain the table, one bit per set."""
        return self._sets.get(path, 0)

    def outcomes(self, databases: Any, database_codes: Codes, names: Any) -> tuple[Codes, list[int]]:
        """Returns a number for each table, whose database is `databases[code]`, and by number the sets that contain it."""
        codes = np.zeros(len(names), np.intp)
        if not self._sets:
            return codes, [0]
        of_databases = _positions(databases, self._databases)[database_codes]
        candidates = np.flatnonzero(of_databases < len(self._databases))
        keys = self._keys(of_databases[candidates], _positions(names.take(pa.array(candidates)), self._names))
        at = np.minimum(np.searchsorted(self._sorted_keys, keys), len(self._sorted_keys) - 1)
        is_named = self._sorted_keys[at] == keys
        codes[candidates[is_named]] = self._codes[at[is_named]]
        return codes, self._memberships

    def _keys(self, of_databases: Codes, of_names: Codes) -> Codes:
        return of_databases * (len(self._names) + 1) + of_names


def _memberships(sets: Sequence[frozenset[Any]]) -> dict[Any, int]:
    """Returns, by member, the sets that contain it, one bit per set."""
    members: dict[Any, int] = {}
    for number, members_of_set in enumerate(sets):
        for member in members_of_set:
            members[member] = members.get(member, 0) | 1 << number
    return members


def _numbered(memberships: Sequence[int]) -> tuple[Codes, list[int]]:
    """Returns a number for each membership, a last one for none, which is 0, and the memberships by number."""
    numbers = {0: 0}
    codes = [numbers.setdefault(membership, len(numbers)) for membership in memberships]
    return np.array([*codes, 0], np.intp), list(numbers)


def _positions(values: Any, members: Any) -> Codes:
    """Returns the position of each value in `members`; the number of members for a value that is not among them."""
    at = pc.fill_null(pc.index_in(values, value_set=members), len(members))
    positions: Codes = at.to_numpy(zero_copy_only=False).astype(np.intp)
    return positions
