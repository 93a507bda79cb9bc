"""docs/security-grants.md names every call and system table, in the rows of the privileges that allow it."""

from __future__ import annotations

import re

from support.reference.grants_page import render
from sys_tables.registry import default_registry
from tiering.access.privileges import SERVICE_PRIVILEGES, TABLE_PRIVILEGES
from tiering.access.requirements import RPCS
from tiering.procedures.registry import requirements

PAGE = render()


def row(privilege: str) -> str:
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| {privilege} |")]
    return line


def test_every_rpc_procedure_and_system_table_is_named() -> None:
    rpcs = {".".join(rpc.removeprefix("/").split(".")[-1].split("/")) for rpc in RPCS}
    named = set(re.findall(r"`([\w.]+)`", PAGE))
    assert (rpcs | requirements().keys() | {table.name for table in default_registry().tables}) - named == set()


def test_every_privilege_has_a_row_for_each_kind_of_resource() -> None:
    rows = [f"{privilege} on a table or database" for privilege in TABLE_PRIVILEGES]
    rows += [f"{privilege} on the service" for privilege in SERVICE_PRIVILEGES]
    assert all(row(name) for name in rows)


def test_a_row_has_what_needs_its_privilege_and_nothing_else() -> None:
    assert row("WRITE on a table or database").endswith(
        "|  |  | `EmbeddedCluster.Append`, `EmbeddedCluster.CreateDatabase`, `EmbeddedCluster.CreateTable`, `EmbeddedCluster.Delete`, "
        "`EmbeddedCluster.Upsert`, `TableDefinitions.AddPartitions`, `TableDefinitions.CreateDatabase`, "
        "`TableDefinitions.CreateTable`, `TableWrites.OpenWrite` |"
    )
    assert "`validation_results` (`details`)" in row("SELECT on a table or database")
    assert "`sweep_lake`" in row("OPERATE on a table or database")
    assert "`sweep_lake`" in row("OPERATE on the service")
    assert "`EmbeddedCluster.ListSegments`" in row("TIERER on the service")
    assert "`EmbeddedCluster.Append`" not in row("TIERER on the service")
