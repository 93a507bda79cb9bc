"""The engine that decides: Cedar (through cedarpy), behind one small interface.

A policy file is Cedar's own language, checked against the types and actions of Lakeward; docs/grants.md shows how it is written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import cedarpy

from tiering.access.identity import Identity
from tiering.access.name_tests import NameTests, name_tests
from tiering.access.privileges import GROUPS, SERVICE_PRIVILEGES, TABLE_PRIVILEGES, Privilege, Resource
from tiering.errors import InvalidArgument
from tiering.redaction.redact import outside_text

MAX_POLICY_BYTES = 1 << 20
"""Of a policy file: some 5,000 policies."""


@dataclass(frozen=True)
class PolicyStatement:
    """One policy of the file, in Cedar's words. What a scope leaves open is `*`."""

    policy_id: str
    effect: str
    principal: str
    privileges: str
    resource: str
    text: str


class PolicyEngine(Protocol):
    """Decides by the policies of one file, which never change. Thread-safe."""

    @property
    def tests(self) -> NameTests:
        """The tests of names by which tables can differ."""
        ...

    @property
    def statements(self) -> Sequence[PolicyStatement]:
        """The policies, in the order of the file."""
        ...

    def allows(self, identity: Identity, privilege: Privilege, resource: Resource) -> bool:
        """Whether a policy permits it and none forbids it."""
        ...


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
        resources = (["Database", "Table"] if privilege in TABLE_PRIVILEGES else []) + (
            ["Service"] if privilege in SERVICE_PRIVILEGES else []
        )
        groups = [f'"{group}"' for group, members in GROUPS.items() if privilege in members]
        membership = f" in [{', '.join(groups)}]" if groups else ""
        lines.append(f'action "{privilege}"{membership} appliesTo {{ principal: [User], resource: [{", ".join(resources)}] }};')
    return "\n".join(lines)


SCHEMA = _schema()
"""Which types and actions a policy may name."""


class CedarEngine:
    """`PolicyEngine` by Cedar."""

    def __init__(self, text: str) -> None:
        """Raises InvalidArgument for policies that cannot be read, that name what there is not, or that no filter can be made of."""
        if len(text.encode()) > MAX_POLICY_BYTES:
            raise InvalidArgument(f"a policy file has at most {MAX_POLICY_BYTES} bytes")
        try:
            self._policies = cedarpy.PolicySet.from_str(text)
            parsed = json.loads(cedarpy.policies_to_json_str(text))
        except ValueError as error:
            raise InvalidArgument(f"the policies cannot be read: {outside_text(str(error))}", hint="docs/grants.md shows some.") from error
        if parsed["templates"]:
            raise InvalidArgument("a policy is a template (?principal, ?resource)", hint="Name the principal and the resource.")
        checked = cedarpy.validate_policies(text, SCHEMA)
        if not checked.validation_passed:
            problems = "; ".join(outside_text(problem.error) for problem in checked.errors[:3])
            raise InvalidArgument(
                f"the policies do not fit what Lakeward knows: {problems}",
                hint="docs/grants.md lists types and actions. A condition on names needs `resource is Table`.",
            )
        policies: dict[str, Any] = dict(sorted(parsed["staticPolicies"].items(), key=lambda item: _number(item[0])))
        self._schema = cedarpy.Schema.from_str(SCHEMA)
        self.tests = name_tests(policies)
        self.statements = [_statement(policy_id, policy) for policy_id, policy in policies.items()]

    def allows(self, identity: Identity, privilege: Privilege, resource: Resource) -> bool:
        """See `PolicyEngine`. A policy that cannot be evaluated permits nothing, and neither do the others then."""
        kind = resource.kind
        if (kind not in ("Service",) and privilege not in TABLE_PRIVILEGES) or (kind == "Service" and privilege not in SERVICE_PRIVILEGES):
            return False
        request = {
            "principal": {"type": "User", "id": identity.principal},
            "action": {"type": "Action", "id": privilege.value},
            "resource": {"type": kind, "id": resource.id},
        }
        (result,) = cedarpy.is_authorized_batch([request], self._policies, _entities(identity, resource), self._schema)
        return bool(result.allowed) and not result.diagnostics.errors


def _entities(identity: Identity, resource: Resource) -> list[dict[str, Any]]:
    groups = [{"type": "Group", "id": group} for group in sorted(identity.groups)]
    attributes = {} if resource.database is None else {"database": resource.database}
    parents = []
    if resource.name is not None:
        attributes["name"] = resource.name
        parents = [{"type": "Database", "id": resource.database}]
    return [
        {"uid": {"type": "User", "id": identity.principal}, "attrs": {}, "parents": groups},
        {"uid": {"type": resource.kind, "id": resource.id}, "attrs": attributes, "parents": parents},
    ]


def _statement(policy_id: str, policy: dict[str, Any]) -> PolicyStatement:
    text = cedarpy.policies_from_json_str(json.dumps({"staticPolicies": {policy_id: policy}, "templates": {}, "templateLinks": []}))
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
    """A scope in Cedar's words: `User::"ana"`, `Table in Database::"sales"`, `*`."""
    entity = scope.get("entity") or scope.get("in", {}).get("entity")
    named = "" if entity is None else f'{entity["type"]}::"{entity["id"]}"'
    if scope["op"] == "is":
        return f"{scope['entity_type']} in {named}" if named else str(scope["entity_type"])
    return named or "*"


def _number(policy_id: str) -> int:
    """Of policy12: 12. Cedar numbers policies in the order of the text."""
    digits = policy_id.removeprefix("policy")
    return int(digits) if digits.isdecimal() else 0
