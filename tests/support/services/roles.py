"""Users with typical policies, and what each of them may do by `tiering.access.requirements`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tiering.access.grants import Access
from tiering.access.identity import Authentication, Identity
from tiering.access.policies.engine import CedarEngine
from tiering.access.privileges import SERVICE, Privilege, Resource
from tiering.access.requirements import PrivilegeTarget, Requirement

ROLES: Mapping[str, str] = {
    "stranger": "",
    "reader": 'permit (principal == User::"reader", action in Action::"read", resource in Database::"sales");',
    "editor": 'permit (principal == User::"editor", action in Action::"edit", resource in Database::"sales");',
    "operator": 'permit (principal == User::"operator", action in Action::"operate", resource in Database::"sales");\n'
    'permit (principal == User::"operator", action == Action::"OPERATE", resource == Service::"lakeward");',
    "tierer": 'permit (principal == User::"tierer", action == Action::"TIERER", resource == Service::"lakeward");',
    "admin": 'permit (principal == User::"admin", action, resource);',
}
"""Policies by user name. The service identifies `stranger`, who has no policy."""

EXAMPLE = Resource("sales", "orders")


@cache
def access_of(role: str) -> Access:
    """Returns what a user of that role may do."""
    return Access(Identity(role, Authentication.TOKEN), CedarEngine("\n".join(ROLES.values())))


def is_allowed(requirement: Requirement, role: str) -> bool | None:
    """Returns whether a role may do it, on the table `EXAMPLE`; None if the procedure or system table decides."""
    access = access_of(role)
    if requirement.tierer and access.may(Privilege.TIERER, SERVICE):
        return True
    if requirement.on in (PrivilegeTarget.PROCEDURE, PrivilegeTarget.SYSTEM_TABLE):
        return None
    if requirement.privilege is None or requirement.on is PrivilegeTarget.EVERY_TABLE:
        return True
    if requirement.on is PrivilegeTarget.SERVICE:
        return access.may(requirement.privilege, SERVICE)
    if requirement.on is PrivilegeTarget.DATABASE:
        return access.may(requirement.privilege, Resource("sales"))
    return access.may(Privilege.DESCRIBE, EXAMPLE) and access.may(requirement.privilege, EXAMPLE)
