"""The page `docs/security-grants.md`: what needs which privilege, and what the roles of its example policies may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from sys_tables.reference import markdown_table
from sys_tables.registry import Registry
from tiering.access.grants import Access
from tiering.access.identity import Authentication, Identity
from tiering.access.policies.engine import CedarEngine
from tiering.access.privileges import SERVICE, Privilege, Resource
from tiering.access.requirements import PROCEDURES, RPCS, SYSTEM_TABLES, On, Requirement

ROLES: Mapping[str, str] = {
    "stranger": "",
    "reader": 'permit (principal == User::"reader", action in Action::"read", resource in Database::"sales");',
    "editor": 'permit (principal == User::"editor", action in Action::"edit", resource in Database::"sales");',
    "operator": 'permit (principal == User::"operator", action in Action::"operate", resource in Database::"sales");\n'
    'permit (principal == User::"operator", action == Action::"OPERATE", resource == Service::"lakeward");',
    "tierer": 'permit (principal == User::"tierer", action == Action::"TIERER", resource == Service::"lakeward");',
    "admin": 'permit (principal == User::"admin", action, resource);',
}
"""Each is a user of that name; `stranger` is known, and has no policy."""

EXAMPLE = Resource("sales", "orders")


@cache
def access_of(role: str) -> Access:
    """What a role may."""
    return Access(Identity(role, Authentication.TOKEN), CedarEngine("\n".join(ROLES.values())))


def is_allowed(requirement: Requirement, role: str) -> bool | None:
    """Whether a role meets a line, on the table of the example; None where another line says it."""
    access = access_of(role)
    if requirement.tierer and access.may(Privilege.TIERER, SERVICE):
        return True
    if requirement.on in (On.PROCEDURE, On.SYSTEM_TABLE):
        return None
    if requirement.privilege is None or requirement.on is On.EVERY_TABLE:
        return True
    if requirement.on is On.SERVICE:
        return access.may(requirement.privilege, SERVICE)
    if requirement.on is On.DATABASE:
        return access.may(requirement.privilege, Resource("sales"))
    return access.may(Privilege.DESCRIBE, EXAMPLE) and access.may(requirement.privilege, EXAMPLE)


def render(registry: Registry) -> str:
    """The page."""
    schemas = {table.name: table for table in registry.tables}
    columns = (
        [f"`{name}.{column}`", str(line.requirement), line.note, *_marks(line.requirement)]
        for name, line in SYSTEM_TABLES.items()
        for column in line.columns.split()
        if name in schemas
    )
    tables = ([f"`{name}`", str(line.requirement), line.note, *_marks(line.requirement)] for name, line in SYSTEM_TABLES.items())
    parts = [
        "# What needs which privilege",
        "Made from the code by `python -m tiering.cli.reference`. Tests hold it against every RPC, procedure, system table and column,"
        " and call each as each role. [grants.md](grants.md) says how policies are written.",
        "`yes`: allowed; in a listing, the tables that the role may describe. `no`: refused, or for a table that the role may not describe"
        " unknown. Roles, on the table `sales.orders`:",
        "```cedar\n" + "\n".join(text for text in ROLES.values() if text) + "\n```",
        "`stranger` is a user without a policy.",
        "## RPCs",
        _with_roles(("RPC", "needs"), ([f"`{name[1:]}`", str(line), *_marks(line)] for name, line in RPCS.items())),
        "## Procedures",
        _with_roles(("procedure", "needs"), ([f"`{name}`", str(line), *_marks(line)] for name, line in PROCEDURES.items())),
        "## System tables",
        _with_roles(("table", "rows for", "note"), tables),
        "## Columns of system tables",
        _with_roles(("column", "rows for", "note"), columns),
    ]
    return "\n\n".join(parts) + "\n"


def _with_roles(header: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    return markdown_table((*header, *ROLES), rows)


def _marks(requirement: Requirement) -> list[str]:
    words = {True: "yes", False: "no", None: "its line"}
    return [words[is_allowed(requirement, role)] for role in ROLES]
