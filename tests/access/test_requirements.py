"""Every RPC, procedure and system table has a requirement, and no requirement is about something that does not exist."""

from __future__ import annotations

import pytest

from support.services.method_names import method_names
from sys_tables.registry import default_registry
from tiering.access.privileges import SERVICE_PRIVILEGES, TABLE_PRIVILEGES
from tiering.access.requirements import RPCS, PrivilegeTarget, Requirement
from tiering.procedures.registry import requirements


def test_every_rpc_has_a_line() -> None:
    assert sorted(RPCS) == method_names()


def test_every_procedure_has_a_line() -> None:
    in_sql = {procedure.name for procedure in default_registry().procedures}
    assert in_sql | {"sweep_lake"} == set(requirements())


@pytest.mark.parametrize(
    "line", [*RPCS.values(), *requirements().values(), *(table.requires for table in default_registry().tables)], ids=str
)
def test_a_privilege_is_one_of_what_it_is_needed_on(line: Requirement) -> None:
    if line.on in (PrivilegeTarget.NOTHING, PrivilegeTarget.TICKET, PrivilegeTarget.PROCEDURE, PrivilegeTarget.SYSTEM_TABLE):
        assert line.privilege is None
    elif line.on is PrivilegeTarget.SERVICE:
        assert line.privilege in SERVICE_PRIVILEGES
    else:
        assert line.privilege in TABLE_PRIVILEGES


def test_what_changes_something_is_audited() -> None:
    mutating = {procedure.name for procedure in default_registry().procedures if procedure.mutates}
    assert {name for name in mutating if not requirements()[name].audited} == set()
