"""A service that acts for its users reads and calls with their rights. Without the right IMPERSONATE its user names are ignored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from support.services.guarded_service import GuardedService, guarded_service
from support.services.procedure_arguments import CALL
from tiering.errors import AccessDenied, InvalidArgument, UnknownDatabase, UnknownTable
from tiering.model.tables import TablePath
from tiering.rpc.v1.common_pb2 import Literal
from tiering.rpc.v1.control_pb2 import Argument

UNKNOWN = (UnknownDatabase, UnknownTable)
SYS = "/sys_tables.rpc.v1.SysCatalog"
ORDERS, SALARIES, LOGS = TablePath("sales", "orders"), TablePath("hr", "salaries"), TablePath("plain", "logs")
POLICIES = """
permit (principal == User::"ann", action in Action::"operate", resource in Database::"sales");
permit (principal == User::"bob", action in Action::"read", resource in Database::"hr");
permit (principal == User::"spark", action == Action::"IMPERSONATE", resource == Service::"lakeward");
permit (principal == User::"spark", action in Action::"read", resource in Database::"plain");
permit (principal == User::"ops", action, resource);
permit (principal == User::"etl", action in Action::"read", resource in Database::"plain");
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedService]:
    roles: dict[str, tuple[str, ...]] = {"spark": (), "etl": (), "ann": (), "ops": ()}
    with guarded_service(tmp_path_factory.mktemp("service"), POLICIES, roles) as running:
        for path in (ORDERS, SALARIES, LOGS):
            running.ensure_table(path)
        yield running


def databases(service: GuardedService, role: str, user: str) -> set[str]:
    """By Describe and by the rows of a system table, which agree."""
    (description,) = service.call(f"{SYS}/Describe", role, user.encode())
    pieces = service.call(f"{SYS}/ReadTable", role, user.encode(), namespace="sys", name="lake_tiering_status", columns=["database_name"])
    rows = pa.ipc.open_stream(b"".join(piece.arrow for piece in pieces)).read_all()
    named = set(description.namespaces) - {"sys"}
    assert set(rows.column(0).to_pylist()) == named
    return named


def test_reads_are_filtered_by_the_grants_of_the_user(service: GuardedService) -> None:
    assert databases(service, "spark", "ann") == {"sales"}
    assert databases(service, "spark", "bob") == {"hr"}
    assert databases(service, "spark", "ann") == {"sales"}
    assert databases(service, "spark", "nobody known") == set()
    assert databases(service, "spark", "") == {"plain"}
    assert databases(service, "spark", "spark") == {"plain"}


def test_data_tables_are_those_of_the_user(service: GuardedService) -> None:
    (page,) = service.call(f"{SYS}/ListTables", "spark", b"bob", namespace="hr")
    assert list(page.table_names) == ["salaries"]
    (described,) = service.call(f"{SYS}/DescribeTable", "spark", b"bob", namespace="hr", name="salaries")
    assert described.name == "salaries"
    with pytest.raises(UnknownDatabase) as unknown:
        service.call(f"{SYS}/ListTables", "spark", b"ann", namespace="hr")
    assert "hr" not in unknown.value.hint
    with pytest.raises(UNKNOWN):
        service.call(f"{SYS}/DescribeTable", "spark", b"ann", namespace="hr", name="salaries")


def test_without_the_right_the_name_is_not_believed(service: GuardedService) -> None:
    assert databases(service, "etl", "ann") == databases(service, "etl", "bob") == {"plain"}
    assert databases(service, "ann", "bob") == {"sales"}


@pytest.mark.parametrize("user", [b"\xff\xfe", b"   ", b"ann\nbob", b"a" * 2_000])
def test_a_header_that_names_no_user_is_refused(service: GuardedService, user: bytes) -> None:
    """Answered as the service's own, the call would show what the service may see."""
    with pytest.raises(InvalidArgument, match="lakeward-user-bin names no user"):
        service.call(f"{SYS}/Describe", "spark", user)


def call(service: GuardedService, name: str, table: TablePath, user: str, caller: str) -> list[Any]:
    argument = Argument(name="table", value=Literal(text=str(table)))
    return service.call(CALL, "spark", user.encode(), name=name, arguments=[argument], caller=caller)


def test_calls_are_those_of_the_user(service: GuardedService) -> None:
    call(service, "pause_tiering", ORDERS, "ann", "spark")
    [status] = service.running.coordinator.view().table_statuses("sales", "orders")
    assert status.paused_by == "ann"
    call(service, "resume_tiering", ORDERS, "ann", "spark")
    with pytest.raises(UNKNOWN) as unknown:
        call(service, "pause_tiering", SALARIES, "ann", "bob")
    assert "salaries" not in unknown.value.hint
    with pytest.raises(AccessDenied, match="bob lacks OPERATE"):
        call(service, "pause_tiering", SALARIES, "bob", "ann")


def test_the_name_in_a_message_gives_no_rights(service: GuardedService) -> None:
    with pytest.raises(UNKNOWN):
        call(service, "pause_tiering", ORDERS, "", "ann")


def test_an_admin_calls_as_themselves_whatever_the_name_of_the_user_of_their_computer(service: GuardedService) -> None:
    """IMPERSONATE is among everything."""
    argument = Argument(name="table", value=Literal(text=str(ORDERS)))
    service.call(CALL, "ops", b"", name="pause_tiering", arguments=[argument], caller="root")
    [status] = service.running.coordinator.view().table_statuses("sales", "orders")
    assert status.paused_by == "ops"
    service.call(CALL, "ops", b"", name="resume_tiering", arguments=[argument], caller="root")


def test_a_refused_read_says_in_the_audit_for_whom_it_was(service: GuardedService) -> None:
    with pytest.raises(UNKNOWN):
        service.call(f"{SYS}/DescribeTable", "spark", b"carl", namespace="hr", name="salaries")
    lines = [json.loads(line) for line in (service.data / "audit-refused.jsonl").read_text().splitlines()]
    refused = [line for line in lines if line["on_behalf_of"] == "carl"]
    assert [(line["principal"], line["allowed"], line["outcome"]) for line in refused] == [("spark", False, "REFUSED")]
