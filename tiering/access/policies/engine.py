"""The policy engine: Cedar (through cedarpy), behind one small interface.

A policy file is in Cedar's own language, and is checked against the types and actions of Lakeward. docs/grants.md shows how to write it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, lru_cache
from typing import Any, Self

import cedarpy

from tiering.access.identity import Identity
from tiering.access.policies.name_tests import entities_in, name_tests, number_of
from tiering.access.policies.unknown_groups import for_unknown_groups
from tiering.access.privileges import GROUPS, SERVICE, SERVICE_PRIVILEGES, Privilege, Resource
from tiering.errors import InvalidArgument
from tiering.redaction.redact import outside_text

MAX_POLICY_BYTES = 1 << 20
"""Upper bound of a policy file's size: some 5,000 policies."""

KEPT_BATCHES = 100
"""Number of cached batches: as many as there are kinds of users, and privileges."""


@dataclass(frozen=True)
class PolicyStatement:
    """One policy of the file, in Cedar's language. An unrestricted scope is `*`."""

    policy_id: str
    effect: str
    principal: str
    privileges: str
    resource: str
    text: str


class Verdict(Enum):
    """The result of a group of policies for a request."""

    SILENT = auto()
    """No policy of the group applies."""
    APPLIES = auto()
    ERROR = auto()
    """A policy could not be evaluated. Then nothing is allowed, whatever the other policies say."""


def _schema() -> str:
    lines = [
        "entity Group;",
        "entity User in [Group];",
        "entity Service;",
        "entity Database { database: String };",
        "entity Table in [Database] { database: String, name: String };",
        *(f'action "{group}";' for group in GROUPS),
    ]
    for privilege in Privilege:
        groups = [f'"{group}"' for group, members in GROUPS.items() if privilege in members]
        membership = f" in [{', '.join(groups)}]" if groups else ""
        lines.append(f'action "{privilege}"{membership} appliesTo {{ principal: [User], resource: [{", ".join(privilege.kinds)}] }};')
    return "\n".join(lines)


SCHEMA = _schema()
"""The types and actions that a policy may name."""


class CedarEngine:
    """Decides by the policies of one file, which never change. It is thread-safe."""

    statements: Sequence[PolicyStatement]
    """The policies, in the order of the file."""
    users: Sequence[str]
    """The users that the policies name."""

    def __init__(self, text: str) -> None:
        """Raises InvalidArgument for policies that are unreadable, name unknown types or actions, or cannot be used as a filter."""
        if len(text.encode()) > MAX_POLICY_BYTES:
            raise InvalidArgument(f"a policy file may have at most {MAX_POLICY_BYTES} bytes")
        try:
            parsed = json.loads(cedarpy.policies_to_json_str(text))
        except RecursionError as error:
            raise _too_deep() from error
        except ValueError as error:
            raise InvalidArgument(f"the policies cannot be read: {outside_text(str(error))}", hint="See docs/grants.md.") from error
        if parsed["templates"]:
            raise InvalidArgument("a policy is a template (?principal, ?resource)", hint="Name the principal and the resource.")
        checked = cedarpy.validate_policies(text, SCHEMA)
        if not checked.validation_passed:
            problems = "; ".join(outside_text(problem.error) for problem in checked.errors[:3])
            raise InvalidArgument(
                f"the policies do not fit the types and actions of Lakeward: {problems}",
                hint="docs/grants.md lists types and actions. A condition on names needs `resource is Table`.",
            )
        policies: dict[str, Any] = dict(sorted(parsed["staticPolicies"].items(), key=lambda item: number_of(item[0])))
        try:
            self._take(policies)
        except (ValueError, RecursionError) as error:  # raised for Cedar's JSON format
            raise _too_deep() from error

    def _take(self, policies: Mapping[str, Any]) -> None:
        self._by_id = policies
        self._policies = _CedarPolicies(policies)
        self.statements = [_statement(policy_id, policy) for policy_id, policy in policies.items()]
        self.users = sorted({name for policy in policies.values() for kind, name in entities_in(policy) if kind == "User"})
        alike: dict[str, dict[str, Any]] = {}
        for policy_id, policy in policies.items():
            alike.setdefault(_without_names(policy), {})[policy_id] = policy
        self._groups = {next(iter(group)): PolicyGroup(group) for group in alike.values()}
        """The groups by their first policy."""
        self.batch = lru_cache(KEPT_BATCHES)(PolicyBatch)
        """Returns the batch of some groups."""
        self._heads = _CedarPolicies({number: _permitting(policies[number]) for number in self._groups})

    @cached_property
    def for_unknown_groups(self) -> Self:
        """The engine with the same policies for identities with unknown groups."""
        engine = type(self).__new__(type(self))  # the policies were already checked
        engine._take(for_unknown_groups(self._by_id))
        return engine

    def allows(self, identity: Identity, privilege: Privilege, resource: Resource) -> bool:
        """Returns whether a policy permits it and none forbids it. If any policy cannot be evaluated, nothing is permitted."""
        if resource.kind not in privilege.kinds:
            return False
        (result,) = self._policies.ask(identity, privilege, [resource])
        return bool(result.allowed) and not result.diagnostics.errors

    def applying(self, identity: Identity, privilege: Privilege) -> list[PolicyGroup]:
        """Returns the policies that can apply to this identity and privilege. All others neither permit nor forbid it anything."""
        (result,) = self._heads.ask(identity, privilege, [SERVICE if privilege in SERVICE_PRIVILEGES else Resource("any")])
        return [self._groups[policy_id] for policy_id in sorted(result.diagnostics.reasons)]


class _CedarPolicies:
    """Policies in Cedar's JSON format, by their ids."""

    schema = cedarpy.Schema.from_str(SCHEMA)

    def __init__(self, policies: Mapping[str, Any]) -> None:
        self._policies = cedarpy.PolicySet.from_json_str(_policy_set(policies))

    def ask(self, identity: Identity, privilege: Privilege, resources: Sequence[Resource]) -> list[cedarpy.AuthzResult]:
        requests = [
            {
                "principal": {"type": "User", "id": identity.principal},
                "action": {"type": "Action", "id": privilege.value},
                "resource": {"type": resource.kind, "id": resource.id},
            }
            for resource in resources
        ]
        return cedarpy.is_authorized_batch(requests, self._policies, _entities(identity, resources), self.schema)


class PolicyGroup:
    """Policies that differ only in the resources of their scopes, so that they are evaluated together."""

    def __init__(self, policies: Mapping[str, Any]) -> None:
        """Raises InvalidArgument if the policies cannot be used as a filter."""
        self.tests = name_tests(policies)
        """The tests of the group. Resources with the same outcomes get the same verdict."""
        self.permits = next(iter(policies.values()))["effect"] == "permit"
        """Whether the policies permit. Otherwise they forbid."""
        self.as_permits = {policy_id: {**policy, "effect": "permit"} for policy_id, policy in policies.items()}


class PolicyBatch:
    """Groups that Cedar evaluates with one request. It evaluates their policies as permits, so that it names each policy that applies."""

    def __init__(self, groups: tuple[PolicyGroup, ...]) -> None:
        self._groups = groups
        self._policies = _CedarPolicies({policy_id: policy for group in groups for policy_id, policy in group.as_permits.items()})

    def verdicts(self, identity: Identity, privilege: Privilege, resources: Sequence[Resource]) -> list[list[Verdict]]:
        """Returns for each resource the verdict of each group."""
        results = zip(resources, self._policies.ask(identity, privilege, resources), strict=True)
        return [self._verdicts(result) or self._alone(identity, privilege, resource) for resource, result in results]

    def _verdicts(self, result: cedarpy.AuthzResult) -> list[Verdict] | None:
        """Returns the verdict of each group; None if Cedar reports an error, because an error does not name its policy."""
        if result.diagnostics.errors:
            return [Verdict.ERROR] if len(self._groups) == 1 else None
        applying = set(result.diagnostics.reasons)
        return [Verdict.SILENT if group.as_permits.keys().isdisjoint(applying) else Verdict.APPLIES for group in self._groups]

    def _alone(self, identity: Identity, privilege: Privilege, resource: Resource) -> list[Verdict]:
        """Returns the verdict of each group, which Cedar evaluates without the others."""
        return [PolicyBatch((group,)).verdicts(identity, privilege, [resource])[0][0] for group in self._groups]


def _too_deep() -> InvalidArgument:
    return InvalidArgument(
        "a condition has too many parts, or is nested too deeply, for the policy engine",
        hint='Join at most 50 with `||` or `&&`; write names as a list, as in `["a", "b"].contains(resource.name)`, or in more policies.',
    )


def _without_names(policy: Mapping[str, Any]) -> str:
    """Returns what policies have in common that differ only in the resources of their scopes."""
    scope = policy["resource"]
    kinds = [kind for kind, _ in entities_in(scope)]
    shape = [scope["op"], scope.get("entity_type"), "in" in scope, kinds]
    return json.dumps([policy["effect"], policy["principal"], policy["action"], shape, policy["conditions"]], sort_keys=True)


def _permitting(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a policy that permits everything to the policy's principal and action."""
    return {**policy, "effect": "permit", "resource": {"op": "All"}, "conditions": []}


def _policy_set(policies: Mapping[str, Any]) -> str:
    return json.dumps({"staticPolicies": dict(policies), "templates": {}, "templateLinks": []})


def _entities(identity: Identity, resources: Sequence[Resource]) -> list[dict[str, Any]]:
    groups = [{"type": "Group", "id": group} for group in sorted(identity.groups)]
    return [{"uid": {"type": "User", "id": identity.principal}, "attrs": {}, "parents": groups}, *map(_entity, resources)]


def _entity(resource: Resource) -> dict[str, Any]:
    attributes = {name: value for name, value in (("database", resource.database), ("name", resource.name)) if value is not None}
    parents = [{"type": "Database", "id": resource.database}] if resource.name is not None else []
    return {"uid": {"type": resource.kind, "id": resource.id}, "attrs": attributes, "parents": parents}


def _statement(policy_id: str, policy: dict[str, Any]) -> PolicyStatement:
    text = cedarpy.policies_from_json_str(_policy_set({policy_id: policy}))
    actions = policy["action"]
    listed = actions.get("entities") or ([actions["entity"]] if "entity" in actions else [])
    return PolicyStatement(
        policy_id=policy.get("annotations", {}).get("id") or policy_id,
        effect=policy["effect"],
        principal=_scope(policy["principal"]),
        privileges=", ".join(action["id"] for action in listed) or "*",
        resource=_scope(policy["resource"]),
        text=text.strip(),
    )


def _scope(scope: dict[str, Any]) -> str:
    """Returns a scope in Cedar's language: `User::"ana"`, `Table in Database::"sales"`, `*`."""
    entity = scope.get("entity") or scope.get("in", {}).get("entity")
    named = "" if entity is None else f'{entity["type"]}::"{entity["id"]}"'
    if scope["op"] == "is":
        return f"{scope['entity_type']} in {named}" if named else str(scope["entity_type"])
    return named or "*"
