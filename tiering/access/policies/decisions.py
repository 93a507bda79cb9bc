"""What the policies say to one identity about one privilege, worked out once for each class of names.

Each group of policies is asked about the outcomes of its own tests: what many groups say of many names grows with their number, and not
with that of their combinations. Of most names most groups say what they say of a name that passes none of their tests.
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
"""With their decisions; above this bound they are worked out anew, so that names that somebody makes up fill no memory."""


class Decisions:
    """Of one identity and one privilege, on databases or on tables. Thread-safe: what is worked out twice has the same result."""

    def __init__(self, engine: PolicyEngine, identity: Identity, privilege: Privilege, kind: str) -> None:
        self._identity = identity
        self._privilege = privilege
        self._applying = engine.applying(identity, privilege)
        self._known: Mapping[NameClass, bool] = {}
        name = engine.untested_name
        untested = Resource(name, None if kind == "Database" else name)
        of_untested, verdicts = self._applying.classes.of(untested), self._applying.ask_all(identity, privilege, untested)
        self._verdicts = [{self._applying.outcomes(number, of_untested): verdict} for number, verdict in enumerate(verdicts)]
        """By group, and by the outcomes of its tests."""
        of_unnamed = {number: verdicts.get(UNNAMED, Verdict.SILENT) for number, verdicts in enumerate(self._verdicts)}
        self._otherwise = {number: verdict for number, verdict in of_unnamed.items() if verdict is not Verdict.SILENT}
        """What is said of names that pass no test of the group, by the groups that say something then."""

    def of(self, resource: Resource) -> bool:
        """Whether it is allowed on that resource."""
        return self._of_all([self._applying.classes.of(resource)], [resource])[0]

    def of_tables(self, databases: Any, names: Any) -> Mask:
        """On which of many tables: Arrow arrays of their databases and names."""
        tables = self._applying.classes.of_tables(databases, names)
        chosen = pa.array(tables.examples)
        paths = zip(databases.take(chosen).to_pylist(), names.take(chosen).to_pylist(), strict=True)
        decisions = self._of_all(tables.classes, [Resource(*path) for path in paths])
        mask: Mask = np.array(decisions, np.bool_)[tables.codes]
        return mask

    def _of_all(self, classes: Sequence[NameClass], resources: Sequence[Resource]) -> list[bool]:
        """Of each class, which the resource at the same place has."""
        known = self._known
        unknown = {name_class: resource for name_class, resource in zip(classes, resources, strict=True) if name_class not in known}
        if unknown:
            concerned = {name_class: self._applying.concerned(name_class) for name_class in unknown}
            self._ask(concerned, unknown)
            decided = {name_class: self._decide(groups) for name_class, groups in concerned.items()}
            known = {**known, **decided}
            self._known = known if len(known) <= KEPT_CLASSES else decided
        return [known[name_class] for name_class in classes]

    def _ask(self, concerned: Mapping[NameClass, Mapping[int, NameClass]], resources: Mapping[NameClass, Resource]) -> None:
        """Gets the verdicts that are missing: one question a group. By class the groups that it concerns, and a resource."""
        missing: dict[int, dict[NameClass, Resource]] = {}
        for name_class, groups in concerned.items():
            for group, outcomes in groups.items():
                if outcomes not in self._verdicts[group]:
                    missing.setdefault(group, {})[outcomes] = resources[name_class]
        for group, examples in missing.items():
            verdicts = self._applying.groups[group].ask(self._identity, self._privilege, list(examples.values()))
            self._verdicts[group].update(zip(examples, verdicts, strict=True))

    def _decide(self, concerned: Mapping[int, NameClass]) -> bool:
        """As Cedar has it: a policy permits it, and none forbids it. An error allows nothing."""
        groups = self._applying.groups
        verdicts = [(groups[number].permits, self._verdicts[number][outcomes]) for number, outcomes in concerned.items()]
        verdicts += [(groups[number].permits, verdict) for number, verdict in self._otherwise.items() if number not in concerned]
        if any(verdict is Verdict.ERROR or (verdict is Verdict.APPLIES and not permits) for permits, verdict in verdicts):
            return False
        return any(verdict is Verdict.APPLIES for _, verdict in verdicts)
