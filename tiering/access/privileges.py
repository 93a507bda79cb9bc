"""Privileges and the resources that they are granted on: the actions and resources of a policy file (docs/grants.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from tiering.model.tables import TablePath


class Privilege(StrEnum):
    """The actions of a policy. No privilege implies another one. Without DESCRIBE a table is unknown to the caller.

    docs/security-grants.md prints the texts below.
    """

    DESCRIBE = "DESCRIBE"
    """Know that the table exists, and see how its tiering works."""
    SELECT = "SELECT"
    """Read the rows of the table, and values of its rows in errors and checks."""
    WRITE = "WRITE"
    """Create the table, and add, change and delete its rows."""
    TIER = "TIER"
    """Ask for tiering rounds."""
    OPERATE = "OPERATE"
    """On a table: pause it, change its columns and options, repair it and drop it. On a database: drop it. On the service: everything that
    concerns no single table.
    """
    ADMIN = "ADMIN"
    """Read the policies and the audit log."""
    IMPERSONATE = "IMPERSONATE"
    """Read and make CALLs as the user whom the call names, with the grants of that user."""
    TIERER = "TIERER"
    """Work as a tierer: read the log of every table, and report rounds."""
    COORDINATOR = "COORDINATOR"
    """Work as another coordinator, which forwards calls in the names of their callers."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of resources on which it can be granted."""
        return ("Database", "Table") * (self in TABLE_PRIVILEGES) + ("Service",) * (self in SERVICE_PRIVILEGES)


TABLE_PRIVILEGES = (Privilege.DESCRIBE, Privilege.SELECT, Privilege.WRITE, Privilege.TIER, Privilege.OPERATE)
SERVICE_PRIVILEGES = (Privilege.OPERATE, Privilege.ADMIN, Privilege.IMPERSONATE, Privilege.TIERER, Privilege.COORDINATOR)

GROUPS: dict[str, tuple[Privilege, ...]] = {
    "read": (Privilege.DESCRIBE, Privilege.SELECT),
    "edit": (Privilege.DESCRIBE, Privilege.SELECT, Privilege.WRITE, Privilege.TIER),
    "operate": (Privilege.DESCRIBE, Privilege.SELECT, Privilege.TIER, Privilege.OPERATE),
}
"""Groups of actions, so that a policy needs no list: `action in Action::"read"`."""


@dataclass(frozen=True)
class Resource:
    """A table, a database (`name` None) or the service itself (`database` None)."""

    database: str | None = None
    name: str | None = None

    @classmethod
    def of_table(cls, path: TablePath) -> Resource:
        """Returns the resource of the table with this path, which need not exist."""
        return cls(path.database_name, path.table_name)

    @property
    def kind(self) -> str:
        """Type of the object in a policy."""
        return "Service" if self.database is None else "Database" if self.name is None else "Table"

    @property
    def id(self) -> str:
        """Id of the object in a policy."""
        return "lakeward" if self.database is None else self.database if self.name is None else f"{self.database}.{self.name}"

    def __str__(self) -> str:
        return "the service" if self.database is None else f"database {self.database}" if self.name is None else self.id


SERVICE = Resource()


def statement_for(principal: str, privilege: Privilege, resource: Resource) -> str:
    """Returns the policy that would grant the privilege, which a caller can send to the owner of the policy file."""
    actions = f'action == Action::"{privilege}"'
    if privilege in TABLE_PRIVILEGES and privilege is not Privilege.DESCRIBE and resource.name is not None:
        actions = f'action in [Action::"DESCRIBE", Action::"{privilege}"]'
    return f"permit (principal == User::{json.dumps(principal)}, {actions}, resource == {resource.kind}::{json.dumps(resource.id)});"
