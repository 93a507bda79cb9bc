"""Statements that define tables: who may run them, what a caller without rights learns, and what the audit says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.services.guarded_service import GuardedService, guarded_service
from tiering.errors import AccessDenied, LakewardError, UnknownDatabase, UnknownTable
from tiering.model.tables import TablePath
from tiering.rpc.v1.common_pb2 import Literal, PbTablePath
from tiering.rpc.v1.definitions_pb2 import PartitionValues, SetProperty, TableChange

SERVICE = "/tiering.rpc.v1.TableDefinitions"
ORDERS, SALARIES, NEW = TablePath("sales", "orders"), TablePath("hr", "salaries"), TablePath("sales", "new")
POLICIES = """
permit (principal == User::"reader", action in Action::"read", resource in Database::"sales");
permit (principal == User::"editor", action in Action::"edit", resource in Database::"sales");
permit (principal == User::"operator", action in Action::"operate", resource in Database::"sales");
permit (principal == User::"half", action in Action::"operate", resource in Database::"sales");
forbid (principal == User::"half", action == Action::"OPERATE", resource == Table::"sales.refunds");
permit (principal == User::"spark", action == Action::"IMPERSONATE", resource == Service::"lakeward");
permit (principal == User::"ops", action, resource);
"""
ROLES = ("reader", "editor", "operator", "half", "spark", "ops")
COLUMNS = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
OPTION = TableChange(set_property=SetProperty(name="table.datalake.freshness", value="1 h"))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[GuardedService]:
    with guarded_service(tmp_path, POLICIES, dict.fromkeys(ROLES, ())) as running:
        for path in (ORDERS, SALARIES):
            running.ensure_table(path)
        yield running


def pb(path: TablePath) -> PbTablePath:
    return PbTablePath(database_name=path.database_name, table_name=path.table_name)


def run(service: GuardedService, role: str, call: str, acting_for: bytes = b"", **fields: Any) -> None:
    service.call(f"{SERVICE}/{call}", role, acting_for, **fields)


STATEMENTS: dict[str, dict[str, Any]] = {
    "CreateTable": {"table_path": pb(NEW), "columns_json": COLUMNS},
    "AlterTable": {"table_path": pb(ORDERS), "changes": [OPTION]},
    "DropTable": {"table_path": pb(ORDERS)},
    "CreateDatabase": {"database_name": "sales"},
    "DropDatabase": {"database_name": "sales"},
    "AddPartitions": {"table_path": pb(ORDERS), "partitions": [PartitionValues(values=[Literal(text="a")])]},
    "DropPartitions": {"table_path": pb(ORDERS), "partitions": [PartitionValues(values=[Literal(text="a")])]},
}
NEEDED = {
    "CreateTable": "editor",
    "AlterTable": "operator",
    "DropTable": "operator",
    "CreateDatabase": "editor",
    "DropDatabase": "operator",
    "AddPartitions": "editor",
    "DropPartitions": "operator",
}


@pytest.mark.parametrize("call", STATEMENTS)
def test_each_statement_needs_its_privilege(service: GuardedService, call: str) -> None:
    """A caller with the privilege may still get another error: of a name that is taken, of a table without partitions."""
    for role in ("reader", "editor", "operator"):
        try:
            run(service, role, call, **STATEMENTS[call])
            is_denied = False
        except AccessDenied as denied:
            is_denied = "permit (principal == User::" in denied.hint
        except LakewardError:
            is_denied = False
        assert is_denied is (role != NEEDED[call]), role


@pytest.mark.parametrize("call", ["AlterTable", "DropTable", "AddPartitions", "DropPartitions"])
def test_a_hidden_table_is_answered_as_an_unknown_one(service: GuardedService, call: str) -> None:
    texts = []
    for path in (SALARIES, TablePath("hr", "nowhere")):
        with pytest.raises(UnknownTable) as refused:
            run(service, "operator", call, **(STATEMENTS[call] | {"table_path": pb(path)}))
        texts.append(refused.value.message.replace(path.table_name, "NAME"))
    assert texts[0] == texts[1]
    assert service.storage.table(SALARIES)


def test_a_new_table_in_a_hidden_database_is_refused_before_its_name_is_looked_up(service: GuardedService) -> None:
    for path in (SALARIES, TablePath("hr", "nowhere"), TablePath("nowhere", "t")):
        with pytest.raises(AccessDenied):
            run(service, "editor", "CreateTable", table_path=pb(path), columns_json=COLUMNS)


def test_a_database_is_dropped_only_by_a_caller_who_may_drop_each_of_its_tables(service: GuardedService) -> None:
    service.ensure_table(TablePath("sales", "refunds"))

    with pytest.raises(AccessDenied, match=r"half lacks OPERATE on sales\.refunds"):
        run(service, "half", "DropDatabase", database_name="sales", cascade=True)
    assert len(service.storage.tables("sales")) == 2

    run(service, "operator", "DropDatabase", database_name="sales", cascade=True)
    with pytest.raises(UnknownDatabase):
        service.storage.tables("sales")


def test_a_user_of_spark_has_no_more_rights_than_alone(service: GuardedService) -> None:
    with pytest.raises(AccessDenied, match="reader lacks OPERATE"):
        run(service, "spark", "DropTable", b"reader", table_path=pb(ORDERS))
    run(service, "spark", "DropTable", b"operator", table_path=pb(ORDERS), caller="someone else")

    [event] = [event for event in service.running.coordinator.table_records.store.events() if event.event_type == "DROP_TABLE"]
    assert (event.principal, event.database_name, event.table_name) == ("operator", "sales", "orders")


def test_the_audit_has_each_statement_and_its_outcome(service: GuardedService) -> None:
    run(service, "editor", "CreateTable", table_path=pb(NEW), columns_json=COLUMNS, idempotency_key="mine")
    with pytest.raises(AccessDenied):
        run(service, "reader", "DropTable", table_path=pb(NEW))
    trail = service.running.coordinator.audit
    assert trail is not None
    entries = [(entry.principal, entry.action, entry.object, entry.outcome, entry.idempotency_key) for entry in trail.entries()]

    assert ("editor", "TableDefinitions.CreateTable", "sales.new", "STARTED", "mine") in entries
    assert ("editor", "TableDefinitions.CreateTable", "sales.new", "ANSWERED", "mine") in entries
    assert ("reader", "TableDefinitions.DropTable", "sales.new", "REFUSED", None) in entries


def test_a_twin_of_a_hidden_table_is_not_revealed(service: GuardedService) -> None:
    service.ensure_table(TablePath("sales", "hidden"))
    service.policy.write_text(POLICIES + 'forbid (principal == User::"editor", action, resource == Table::"sales.hidden");')
    service.running.coordinator.grants._looked_at = float("-inf")
    with pytest.raises(AccessDenied):
        run(service, "editor", "CreateTable", table_path=pb(TablePath("sales", "HIDDEN")), columns_json=COLUMNS)
