"""The helping statement as its reader may run it: the statement itself, or the grant to ask for."""

from __future__ import annotations

import re

from tiering.access.grants import Access
from tiering.access.privileges import SERVICE, Resource, statement_for
from tiering.access.requirements import On
from tiering.procedures.registry import requirements

_PROCEDURE = re.compile(r"\.sys\.(\w+)\(")


def allowed_action(statement: str | None, database_name: str, table_name: str, access: Access) -> str | None:
    """Returns `statement` if the reader may run it, otherwise the grant to ask for.

    A statement that Spark runs on the lake table itself is returned unchanged, because the lake's catalog decides about it.
    """
    procedure = None if statement is None or access.is_unrestricted else _PROCEDURE.search(statement)
    requirement = None if procedure is None else requirements().get(procedure.group(1))
    if requirement is None or requirement.privilege is None:
        return statement
    resource = SERVICE if requirement.on is On.SERVICE else Resource(database_name, table_name)
    if access.may(requirement.privilege, resource):
        return statement
    granted = statement_for(access.identity.principal, requirement.privilege, resource)
    return f"-- ask for {requirement.privilege} on {resource}, then {statement}: {granted}"
