"""Every RPC, procedure and system table, called as each role over gRPC: the service does what docs/security-grants.md says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.services.guarded_service import GuardedService, guarded_service
from support.services.method_names import FILES, method_names
from support.services.procedure_arguments import ARGUMENTS, CALL, call_fields
from support.services.roles import ROLES, is_allowed
from sys_tables.registry import default_registry
from tiering.access.requirements import RPCS, PrivilegeTarget
from tiering.errors import AccessDenied, InvalidName, LakewardError, Unauthenticated, UnknownDatabase, UnknownTable
from tiering.model.tables import TablePath
from tiering.procedures.registry import requirements
from tiering.rpc.v1.common_pb2 import PbTablePath

ORDERS, SALARIES = TablePath("sales", "orders"), TablePath("hr", "salaries")


@contextmanager
def serving(folder: Path) -> Iterator[GuardedService]:
    with guarded_service(folder, "\n".join(ROLES.values()), dict.fromkeys(ROLES, ())) as running:
        running.ensure_table(ORDERS)
        running.ensure_table(SALARIES)
        yield running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedService]:
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def new_service(tmp_path: Path) -> Iterator[GuardedService]:
    """A service that has refused no call yet: it writes a bounded number of lines a minute about a principal's refused calls."""
    with serving(tmp_path) as running:
        yield running


def error_of(service: GuardedService, method: str, role: str, **fields: Any) -> LakewardError | None:
    try:
        service.call(method, role, **fields)
    except LakewardError as error:
        return error
    return None


def is_refused(error: LakewardError | None) -> bool:
    """Refused, or told that there is no such table: there is."""
    return isinstance(error, AccessDenied | Unauthenticated | UnknownTable | UnknownDatabase)


def about_orders(service: GuardedService, method: str) -> dict[str, Any]:
    """Fields that name the table, as far as the request has them."""
    _, service_name, name = method.split("/")
    fields: dict[str, Any] = {
        "table_path": PbTablePath(database_name="sales", table_name="orders"),
        "database_name": "sales",
        "table_id": service.ensure_table(ORDERS).table_id,
        "namespace": "sales",
    }
    if name == "CallProcedure":
        return {}
    if service_name.endswith("SysCatalog"):
        names = {"ListTables": ["namespace"], "DescribeTable": ["namespace"]}.get(name, [])
        return {key: fields[key] for key in names} | ({"name": "orders"} if name == "DescribeTable" else {})
    if name == "SetTableOption":
        fields |= {"dry_run": True}
    known = service_fields(method)
    return {key: value for key, value in fields.items() if key in known}


def service_fields(method: str) -> set[str]:
    _, service_name, name = method.split("/")
    for file in FILES:
        for descriptor in file.DESCRIPTOR.services_by_name.values():
            if descriptor.full_name == service_name:
                return set(descriptor.methods_by_name[name].input_type.fields_by_name)
    return set()


def test_a_name_is_checked_before_policies_are_asked(service: GuardedService) -> None:
    """Policies match a name against every pattern, so a name of a megabyte took seconds."""
    error = error_of(service, "/tiering.rpc.v1.EmbeddedCluster/CreateDatabase", "reader", database_name="x" * 100_000)
    assert isinstance(error, InvalidName)
    assert "at most 200" in error.message
    error = error_of(service, CALL, "reader", **call_fields("tier_database", database="x" * 2_000))
    assert isinstance(error, InvalidName)


SELF_LINED = [
    name
    for name, line in RPCS.items()
    if line.identified and line.on not in (PrivilegeTarget.PROCEDURE, PrivilegeTarget.SYSTEM_TABLE, PrivilegeTarget.EVERY_TABLE)
]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("method", [name for name in method_names() if name in SELF_LINED])
def test_rpcs(service: GuardedService, method: str, role: str) -> None:
    error = error_of(service, method, role, **about_orders(service, method))
    assert is_refused(error) is not is_allowed(RPCS[method], role), error


@pytest.mark.parametrize("role", ROLES)
def test_listings_name_what_the_role_may_describe_and_nothing_else(service: GuardedService, role: str) -> None:
    service.ensure_table(ORDERS)
    sees_sales = role in ("reader", "editor", "operator", "admin")
    visible = {"sales"} if sees_sales else set()
    visible |= {"hr"} if role == "admin" else set()
    as_embedded = {"hr", "sales"} if role == "tierer" else visible
    (description,) = service.call("/sys_tables.rpc.v1.SysCatalog/Describe", role)
    assert set(description.namespaces) - {"sys"} == visible
    (statuses,) = service.call("/tiering.rpc.v1.TieringStatus/ListTieringStatuses", role)
    assert {status.table_path.database_name for status in statuses.tiering_statuses} == visible
    (databases,) = service.call("/tiering.rpc.v1.EmbeddedCluster/ListDatabases", role)
    assert set(databases.database_names) == as_embedded
    (tables,) = service.call("/tiering.rpc.v1.EmbeddedCluster/ListTables", role)
    assert {table.path.database_name for table in tables.tables} == as_embedded
    (leases,) = service.call("/tiering.rpc.v1.TieringStatus/ListKvSnapshotLeases", role)
    assert list(leases.leases) == []
    error = error_of(service, "/sys_tables.rpc.v1.SysCatalog/DescribeTable", role, namespace="hr", name="salaries")
    assert (error is None) is (role == "admin")
    error = error_of(service, "/sys_tables.rpc.v1.SysCatalog/ListTables", role, namespace="sales")
    assert (error is None) is sees_sales


ABOUT_A_TABLE = [name for name, line in requirements().items() if line.on is PrivilegeTarget.TABLE]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", [name for name in requirements() if name not in ("help", "cancel_tiering", "sweep_lake")])
def test_procedures(service: GuardedService, name: str, role: str) -> None:
    service.ensure_table(ORDERS)
    arguments = dict(ARGUMENTS.get(name, {}))
    if name in ABOUT_A_TABLE:
        arguments["table"] = "sales.orders"
    if name == "release_kv_snapshot_lease":
        arguments["table"] = "sales.orders"
    if name == "tier_database":
        arguments["database"] = "sales"
    error = error_of(service, CALL, role, **call_fields(name, **arguments))
    expected = is_allowed(requirements()[name], role)
    if name == "tier_database":  # each table of the answer: the reader may know of it, and not tier it
        expected = role in ("editor", "operator", "admin")
    assert is_refused(error) is not expected, error


@pytest.mark.parametrize("role", ROLES)
def test_a_sweep_and_help(service: GuardedService, role: str) -> None:
    service.ensure_table(ORDERS)
    for table in (None, "sales.orders"):
        error = error_of(service, CALL, role, **call_fields("sweep_lake", table=table, dry_run=True, older_than_ms=86_400_000))
        assert is_refused(error) is (role not in ("operator", "admin")), error
    assert error_of(service, CALL, role, name="help") is None


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("table", default_registry().tables, ids=lambda table: table.name)
def test_system_tables_and_their_columns(service: GuardedService, table: Any, role: str) -> None:
    """Every column alone, and counted: no value in any of them names a table that is hidden from the role."""
    service.ensure_table(ORDERS)
    expected = is_allowed(table.requires, role)
    method = "/sys_tables.rpc.v1.SysCatalog/ReadTable"
    for column in table.schema.names:
        error = error_of(service, method, role, namespace="sys", name=table.name, columns=[column])
        assert is_refused(error) is not expected, error
        if error is None and role != "admin" and table.name not in ("audit", "procedures"):
            answers = service.call(method, role, namespace="sys", name=table.name, columns=[column])
            values = pa.ipc.open_stream(b"".join(answer.arrow for answer in answers)).read_all().column(column).to_pylist()
            assert [value for value in values if "salaries" in str(value)] == []


def read(service: GuardedService, table: str, role: str) -> list[dict[str, Any]]:
    answers = service.call("/sys_tables.rpc.v1.SysCatalog/ReadTable", role, namespace="sys", name=table)
    rows: list[dict[str, Any]] = pa.ipc.open_stream(b"".join(answer.arrow for answer in answers)).read_all().to_pylist()
    return rows


def test_who_makes_no_name_known_is_refused(service: GuardedService) -> None:
    service.tokens = {**service.tokens, "nobody": "lw_0_0"}
    with pytest.raises(Unauthenticated):
        service.call("/tiering.rpc.v1.TieringStatus/ListTieringStatuses", "nobody")


def test_a_cancellation_of_a_hidden_round_is_that_of_an_unknown_one(service: GuardedService) -> None:
    def answer(role: str, round_id: str) -> str:
        answers = service.call(CALL, role, **call_fields("cancel_tiering", round_id=round_id))
        result = pa.ipc.open_stream(b"".join(answer.arrow for answer in answers)).read_all().to_pylist()
        return str(result).replace(round_id, "ROUND")

    service.storage.append(SALARIES, pa.table({"id": [1]}), "writer", 0)
    service.call(CALL, "admin", **call_fields("tier_table", table="hr.salaries", wait=False))
    round_id = next(row["round_id"] for row in read(service, "tiering_rounds", "admin") if row["table_name"] == "salaries")
    assert answer("operator", round_id) == answer("operator", "r-unknown")


def test_the_audit_tells_who_did_what_and_who_was_refused(new_service: GuardedService) -> None:
    service = new_service
    error_of(service, CALL, "reader", **call_fields("pause_tiering", table="sales.orders"))
    service.call(CALL, "operator", **call_fields("pause_tiering", table="sales.orders"), idempotency_key="k1")
    error_of(service, CALL, "reader", **call_fields("pause_tiering", table="hr.salaries"))
    hidden, ended, started, refused = read(service, "audit", "admin")[:4]
    assert {(row["action"], row["authentication"]) for row in (hidden, ended, started, refused)} == {("sys.pause_tiering", "token")}
    assert [row["outcome"] for row in (refused, started, ended, hidden)] == ["REFUSED", "STARTED", "ANSWERED", "REFUSED"]
    assert [row["principal"] for row in (refused, started, ended, hidden)] == ["reader", "operator", "operator", "reader"]
    assert [row["object"] for row in (refused, started, ended, hidden)] == ["sales.orders"] * 3 + ["hr.salaries"]
    assert (started["call_id"], started["idempotency_key"], started["allowed"]) == (ended["call_id"], "k1", True)
    assert (refused["allowed"], refused["error_class"]) == (False, "AccessDenied")
    assert all(row["peer"].startswith("ipv4:127.0.0.1") for row in (refused, started, ended))
    done, refusals = ((service.data / name).read_text().splitlines() for name in ("audit.jsonl", "audit-refused.jsonl"))
    assert json.loads(done[-1])["call_id"] == ended["call_id"]
    assert json.loads(refusals[-1])["object"] == "hr.salaries"


def test_the_grants_are_shown_to_admins(service: GuardedService) -> None:
    rows = read(service, "grants", "admin")
    assert (rows[0]["effect"], rows[0]["principal"]) == ("permit", 'User::"reader"')
    assert len(rows) == 6


def test_sys_procedures_tells_the_privilege_that_is_checked(service: GuardedService) -> None:
    shown = {row["procedure_name"]: row["privilege"] for row in read(service, "procedures", "stranger")}
    assert shown == {name: str(line) if line.privilege else "NONE" for name, line in requirements().items() if name in shown}
    assert shown.keys() == requirements().keys() - {"sweep_lake"}
