"""The policies that can apply to an identity and a privilege, in groups that are evaluated together (`policies_alike`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Protocol

from tiering.access.identity import Identity
from tiering.access.policies.name_classes import NameClass, NameClasses
from tiering.access.policies.name_patterns import single_bits
from tiering.access.policies.name_tests import NameTests
from tiering.access.privileges import Privilege, Resource


class Verdict(Enum):
    """The result of a group for a request."""

    SILENT = auto()
    """None of its policies applies."""
    APPLIES = auto()
    ERROR = auto()
    """A policy could not be evaluated. Then nothing is allowed, whatever the other policies say."""


class PolicyGroup(Protocol):
    """Policies that all permit or all forbid, and differ only in the names in them."""

    @property
    def permits(self) -> bool:
        """Whether the policies permit. Otherwise they forbid."""
        ...

    @property
    def tests(self) -> NameTests:
        """The tests of the group. Resources with the same outcomes get the same verdict."""
        ...

    def ask(self, identity: Identity, privilege: Privilege, resources: Sequence[Resource]) -> list[Verdict]:
        """Returns the verdict on each resource. All resources are of one kind."""
        ...


AskAll = Callable[[Identity, Privilege, Resource], Sequence[Verdict]]
"""Returns the verdicts of several groups on one resource, with one evaluation."""


class PolicyGroups:
    """Some groups, and which of them the outcomes of tests concern. It is immutable and thread-safe."""

    def __init__(self, groups: Sequence[PolicyGroup], ask_all: AskAll) -> None:
        self.groups = groups
        self.ask_all = ask_all
        self.classes = NameClasses([group.tests for group in groups])
        self._bits = [self.classes.bits_of(group.tests) for group in groups]
        self._by_bit: list[dict[int, list[int]]] = [{} for _ in range(5)]
        """The groups with a test, by field of a class and by the test's bit in it."""
        for number, fields in enumerate(self._bits):
            for by_bit, bits in zip(self._by_bit, fields, strict=True):
                for bit in single_bits(bits):
                    by_bit.setdefault(bit, []).append(number)

    def concerned(self, name_class: NameClass) -> dict[int, NameClass]:
        """Returns the groups with a test that names of the class pass, and the outcomes of each group's own tests."""
        fields = zip(self._by_bit, name_class, strict=True)
        groups = {group for by_bit, bits in fields for bit in single_bits(bits) for group in by_bit[bit]}
        return {group: self.outcomes(group, name_class) for group in groups}

    def outcomes(self, group: int, name_class: NameClass) -> NameClass:
        """Returns the outcomes of that group's own tests."""
        databases, database_sets, names, name_sets, tables = self._bits[group]
        of_databases, of_database_sets, of_names, of_name_sets, of_tables = name_class
        return of_databases & databases, of_database_sets & database_sets, of_names & names, of_name_sets & name_sets, of_tables & tables
