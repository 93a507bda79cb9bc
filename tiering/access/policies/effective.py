"""The privileges of a user on each table, asked of the same `Access` with which every call is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tiering.access.grants import Access
from tiering.access.policies.decisions import Mask
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
    is_caller: bool = column("Whether the user is the caller who reads the row.")


def effective_privileges(
    access: Access, databases: Sequence[str], tables: Sequence[TablePath], *, is_caller: bool
) -> Iterator[EffectivePrivileges]:
    """Yields what a user may do: on the service, on the databases, and on the tables that this user may describe."""
    on_service = [privilege for privilege in SERVICE_PRIVILEGES if access.may(privilege, SERVICE)]
    yield from _row(access, SERVICE, on_service, is_caller)
    for name in databases:
        database = Resource(name)
        yield from _row(access, database, [privilege for privilege in TABLE_PRIVILEGES if access.may(privilege, database)], is_caller)
    masks = granted_on(access, TABLE_PRIVILEGES, tables)
    for number, path in enumerate(tables):
        on_table = [privilege for privilege, mask in masks.items() if mask[number]]
        yield from _row(access, Resource.of_table(path), on_table, is_caller)


def granted_on(access: Access, privileges: Iterable[Privilege], tables: Sequence[TablePath]) -> Mapping[Privilege, Mask]:
    """Returns for each privilege on which of the tables the user may use it: those that the user may also see."""
    databases = pa.array([path.database_name for path in tables], pa.string())
    names = pa.array([path.table_name for path in tables], pa.string())
    visible = access.visible(databases, names)
    return {privilege: visible & access.may_tables(privilege, databases, names) for privilege in privileges}


def _row(access: Access, resource: Resource, privileges: Sequence[Privilege], is_caller: bool) -> Iterator[EffectivePrivileges]:
    if privileges:
        identity = access.identity
        groups = None if identity.has_unknown_groups else ", ".join(sorted(identity.groups))
        yield EffectivePrivileges(identity.principal or None, groups, resource.database, resource.name, ", ".join(privileges), is_caller)
