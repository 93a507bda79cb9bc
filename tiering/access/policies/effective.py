"""The privileges of a user on each table, asked of the same `Access` with which every call is checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiering.access.grants import Access
from tiering.access.privileges import SERVICE, SERVICE_PRIVILEGES, TABLE_PRIVILEGES, Privilege, Resource
from tiering.model.declare import column
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class EffectivePrivileges:
    """The privileges of one user on one table, on one database, or on the service."""

    principal: str | None = column("Name of the user; NULL for a caller without authentication.")
    groups: str | None = column(
        "Groups of the user, separated by commas. NULL = unknown: then these are the privileges that the user has in any case."
    )
    database_name: str | None = column("Database; NULL for privileges on the service.")
    table_name: str | None = column("Table; NULL for privileges on the database itself, or on the service.")
    privileges: str = column("The privileges of the user there, separated by commas.")


def effective_privileges(access: Access, databases: Sequence[str], tables: Sequence[TablePath]) -> Iterator[EffectivePrivileges]:
    """Yields what a user may do: on the service, on the databases, and on the tables that this user may describe."""
    on_service = [privilege for privilege in SERVICE_PRIVILEGES if access.may(privilege, SERVICE)]
    yield from _row(access, SERVICE, on_service)
    for name in databases:
        database = Resource(name)
        yield from _row(access, database, [privilege for privilege in TABLE_PRIVILEGES if access.may(privilege, database)])
    for path in tables:
        if access.sees(path):
            on_table = [privilege for privilege in TABLE_PRIVILEGES if access.may_table(privilege, path)]
            yield from _row(access, Resource.of_table(path), on_table)


def _row(access: Access, resource: Resource, privileges: Sequence[Privilege]) -> Iterator[EffectivePrivileges]:
    if privileges:
        identity = access.identity
        groups = None if identity.has_unknown_groups else ", ".join(sorted(identity.groups))
        yield EffectivePrivileges(identity.principal or None, groups, resource.database, resource.name, ", ".join(privileges))
