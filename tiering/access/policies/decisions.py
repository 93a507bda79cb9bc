"""The decisions of the policies for one identity and one privilege, computed once per class of names.

Each group of policies is asked about the outcomes of its own tests. So the cost grows with groups + names, not with groups x names. For
most names, most groups have the verdict that they have for a name that passes none of their tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.access.identity import Identity
from tiering.access.policies.engine import PolicyEngine
from tiering.access.policies.name_classes import UNNAMED, NameClass
from tiering.access.policies.policy_groups import Verdict
from tiering.access.privileges import Privilege, Resource

Mask = npt.NDArray[np.bool_]

KEPT_CLASSES = 100_000
"""Upper bound of cached decisions. Above it they are computed again, so that invented names cannot use up memory."""


class Decisions:
    """Decisions for one identity and one privilege, on databases or on tables. It is thread-safe: recomputed results are the same."""

    def __init__(self, engine: PolicyEngine, identity: Identity, privilege: Privilege, kind: str) -> None:
        self._identity = identity
        self._privilege = privilege
        self._applying = engine.applying(identity, privilege)
        self._cached: Mapping[NameClass, bool] = {}
        name = engine.untested_name
        untested = Resource(name, None if kind == "Database" else name)
        of_untested, verdicts = self._applying.classes.of(untested), self._applying.ask_all(identity, privilege, untested)
        self._verdicts = [{self._applying.outcomes(number, of_untested): verdict} for number, verdict in enumerate(verdicts)]
        """Verdicts by group, and by the outcomes of the group's tests."""
        of_unnamed = {number: verdicts.get(UNNAMED, Verdict.SILENT) for number, verdicts in enumerate(self._verdicts)}
        self._otherwise = {number: verdict for number, verdict in of_unnamed.items() if verdict is not Verdict.SILENT}
        """Verdicts on names that pass no test of the group, for groups that are not silent then."""

    def of(self, resource: Resource) -> bool:
        """Returns whether the privilege is granted on that resource."""
        return self._of_all([self._applying.classes.of(resource)], [resource])[0]

    def of_tables(self, databases: Any, names: Any) -> Mask:
        """Returns on which of many tables the privilege is granted, given as Arrow arrays of their databases and names."""
        tables = self._applying.classes.of_tables(databases, names)
        chosen = pa.array(tables.examples)
        paths = zip(databases.take(chosen).to_pylist(), names.take(chosen).to_pylist(), strict=True)
        decisions = self._of_all(tables.classes, [Resource(*path) for path in paths])
        mask: Mask = np.array(decisions, np.bool_)[tables.codes]
        return mask

    def _of_all(self, classes: Sequence[NameClass], resources: Sequence[Resource]) -> list[bool]:
        """Returns the decision for each class. The resource at the same position is in that class."""
        cached = self._cached
        unknown = {name_class: resource for name_class, resource in zip(classes, resources, strict=True) if name_class not in cached}
        if unknown:
            concerned = {name_class: self._applying.concerned(name_class) for name_class in unknown}
            self._ask(concerned, unknown)
            decided = {name_class: self._decide(groups) for name_class, groups in concerned.items()}
            cached = {**cached, **decided}
            self._cached = cached if len(cached) <= KEPT_CLASSES else decided
        return [cached[name_class] for name_class in classes]

    def _ask(self, concerned: Mapping[NameClass, Mapping[int, NameClass]], resources: Mapping[NameClass, Resource]) -> None:
        """Gets the missing verdicts, with one question per group. `concerned` and `resources` have groups and an example by class."""
        missing: dict[int, dict[NameClass, Resource]] = {}
        for name_class, groups in concerned.items():
            for group, outcomes in groups.items():
                if outcomes not in self._verdicts[group]:
                    missing.setdefault(group, {})[outcomes] = resources[name_class]
        for group, examples in missing.items():
            verdicts = self._applying.groups[group].ask(self._identity, self._privilege, list(examples.values()))
            self._verdicts[group].update(zip(examples, verdicts, strict=True))

    def _decide(self, concerned: Mapping[int, NameClass]) -> bool:
        """Returns Cedar's decision: true if a policy permits and none forbids. An error allows nothing."""
        groups = self._applying.groups
        verdicts = [(groups[number].permits, self._verdicts[number][outcomes]) for number, outcomes in concerned.items()]
        verdicts += [(groups[number].permits, verdict) for number, verdict in self._otherwise.items() if number not in concerned]
        if any(verdict is Verdict.ERROR or (verdict is Verdict.APPLIES and not permits) for permits, verdict in verdicts):
            return False
        return any(verdict is Verdict.APPLIES for _, verdict in verdicts)
