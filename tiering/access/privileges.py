"""What somebody may be allowed to do, and on what: the actions and resources of a policy file (docs/grants.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from tiering.model.tables import TablePath


class Privilege(StrEnum):
    """The actions of a policy. None implies another: a table that may not be described is unknown, whatever else is granted on it."""

    DESCRIBE = "DESCRIBE"
    """To know that the table exists, and how its tiering stands."""
    SELECT = "SELECT"
    """To read its rows."""
    WRITE = "WRITE"
    """To create it, and to add, change and delete its rows."""
    TIER = "TIER"
    """To ask for rounds: tier_table, tier_database, retry_tiering."""
    OPERATE = "OPERATE"
    """To steer it: pauses, options, repairs, drops. On the service: what is about no single table."""
    ADMIN = "ADMIN"
    """On the service: to read sys.grants and sys.audit."""
    IMPERSONATE = "IMPERSONATE"
    """On the service: to make CALLs as the user whom the call names."""
    TIERER = "TIERER"
    """On the service: to be a tierer, which reads every table's log and reports its rounds."""
    COORDINATOR = "COORDINATOR"
    """On the service: to be another coordinator, which forwards the calls of others in their names."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of resources that it is a privilege on."""
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
        """The table with this path, whether or not there is one."""
        return cls(path.database_name, path.table_name)

    @property
    def kind(self) -> str:
        """Its type in a policy."""
        return "Service" if self.database is None else "Database" if self.name is None else "Table"

    @property
    def id(self) -> str:
        """Its id in a policy."""
        return "lakeward" if self.database is None else self.database if self.name is None else f"{self.database}.{self.name}"

    def __str__(self) -> str:
        return "the service" if self.database is None else f"database {self.database}" if self.name is None else self.id


SERVICE = Resource()


def statement_for(principal: str, privilege: Privilege, resource: Resource) -> str:
    """The policy that would grant it: what somebody without it can send to whoever keeps the policy file."""
    actions = f'action == Action::"{privilege}"'
    if privilege in TABLE_PRIVILEGES and privilege is not Privilege.DESCRIBE and resource.name is not None:
        actions = f'action in [Action::"DESCRIBE", Action::"{privilege}"]'
    return f"permit (principal == User::{json.dumps(principal)}, {actions}, resource == {resource.kind}::{json.dumps(resource.id)});"
