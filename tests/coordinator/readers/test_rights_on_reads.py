"""Reads of data tables: who may open, plan, renew and close one, and what the audit says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.services.guarded_service import GuardedService, guarded_service
from tiering.errors import AccessDenied, InvalidArgument, LakewardError, ReadExpired, SourceChanged, UnknownDatabase, UnknownTable
from tiering.model.reading.open_reads import READ_TTL
from tiering.model.tables import TablePath
from tiering.rpc.v1.common_pb2 import PbTablePath
from tiering.rpc.v1.reads_pb2 import ReadScan

READS = "/tiering.rpc.v1.TableReads"
ORDERS, SALARIES = TablePath("sales", "orders"), TablePath("hr", "salaries")
POLICIES = """
permit (principal == User::"ann", action in Action::"read", resource in Database::"sales");
permit (principal == User::"bob", action in Action::"read", resource in Database::"sales");
permit (principal == User::"dan", action == Action::"DESCRIBE", resource in Database::"sales");
permit (principal == User::"tom", action == Action::"TIERER", resource == Service::"lakeward");
permit (principal == User::"spark", action == Action::"IMPERSONATE", resource == Service::"lakeward");
permit (principal == User::"ops", action, resource);
"""
WITHOUT_ANN = POLICIES.replace('User::"ann"', 'User::"former ann"')
SCAN = ReadScan(part=ReadScan.ROWS)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[GuardedService]:
    roles: dict[str, tuple[str, ...]] = dict.fromkeys(("ann", "bob", "dan", "tom", "spark", "ops"), ())
    with guarded_service(tmp_path, POLICIES, roles) as running:
        for path in (ORDERS, SALARIES):
            running.ensure_table(path)
        yield running


def open_read(service: GuardedService, role: str, path: TablePath = ORDERS, acting_for: bytes = b"") -> Any:
    table = PbTablePath(database_name=path.database_name, table_name=path.table_name)
    [answer] = service.call(f"{READS}/OpenRead", role, acting_for, table_path=table, engine="spark")
    return answer


def test_a_reader_opens_plans_renews_and_closes(service: GuardedService) -> None:
    opened = open_read(service, "ann")
    assert service.call(f"{READS}/PlanRead", "ann", ticket=opened.ticket, scan=SCAN) == []
    [renewed] = service.call(f"{READS}/RenewRead", "ann", ticket=opened.ticket)
    assert renewed.expires_at_ms >= opened.expires_at_ms
    service.call(f"{READS}/CloseRead", "ann", ticket=renewed.ticket)


@pytest.mark.parametrize("role", ["dan", "tom"])
def test_without_select_no_read_is_opened(service: GuardedService, role: str) -> None:
    """A tierer reads logs, but no statement is planned with its rights."""
    with pytest.raises((AccessDenied, UnknownTable)) as refused:
        open_read(service, role)
    assert isinstance(refused.value, AccessDenied) is (role == "dan")


@pytest.mark.parametrize("call", ["PlanRead", "RenewRead", "CloseRead"])
def test_a_ticket_of_another_caller_is_answered_as_an_unknown_one(service: GuardedService, call: str) -> None:
    ticket = open_read(service, "ann").ticket
    fields = {"scan": SCAN} if call == "PlanRead" else {}
    texts = []
    for presented in (ticket, b"no ticket"):
        with pytest.raises(InvalidArgument, match="ticket of the read is unknown") as refused:
            service.call(f"{READS}/{call}", "bob", ticket=presented, **fields)
        texts.append((refused.value.message, refused.value.hint))
    assert texts[0] == texts[1]
    assert len(service.running.coordinator.reads.open_reads.all()) == 1


def test_a_ticket_that_was_changed_is_answered_as_an_unknown_one(service: GuardedService) -> None:
    """Each bit of a ticket counts: also those of its version, its signature and its times."""
    ticket = open_read(service, "ann").ticket
    changed = {bytes([*ticket[:at], ticket[at] ^ 1 << at % 8, *ticket[at + 1 :]]) for at in range(len(ticket))}
    for presented in (*changed, ticket[:-1], ticket[:20], ticket + b"x", ticket + ticket):
        with pytest.raises(InvalidArgument, match="ticket of the read is unknown"):
            service.call(f"{READS}/PlanRead", "ann", ticket=presented, scan=SCAN)


def test_a_ticket_is_good_for_its_table_alone(service: GuardedService) -> None:
    """A ticket names its table, so nothing in a request leads it to another one. A table that was created again is another one."""
    other = TablePath("sales", "refunds")
    service.ensure_table(other)
    tickets = [open_read(service, "ann", path).ticket for path in (ORDERS, other)]
    signature = slice(1, 33)
    mixed = [bytes([*ticket[:1], *other_ticket[signature], *ticket[33:]]) for ticket, other_ticket in (tickets, reversed(tickets))]
    for presented in mixed:
        with pytest.raises(InvalidArgument, match="ticket of the read is unknown"):
            service.call(f"{READS}/PlanRead", "ann", ticket=presented, scan=SCAN)

    service.storage.drop_table(ORDERS)
    service.ensure_table(ORDERS)
    with pytest.raises(SourceChanged):
        service.call(f"{READS}/PlanRead", "ann", ticket=tickets[0], scan=SCAN)


def test_a_ticket_ends_with_its_time(service: GuardedService, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = open_read(service, "ann").ticket
    reads = service.running.coordinator.reads.open_reads
    now = reads._now
    monkeypatch.setattr(reads, "_now", lambda: now() + READ_TTL)

    for call, fields in (("PlanRead", {"scan": SCAN}), ("RenewRead", {})):
        with pytest.raises(ReadExpired, match=r"sales\.orders"):
            service.call(f"{READS}/{call}", "ann", ticket=ticket, **fields)


def test_a_ticket_of_another_service_is_answered_as_an_unknown_one(service: GuardedService, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with guarded_service(folder, POLICIES, {"ann": ()}) as other:
        other.ensure_table(ORDERS)
        ticket = open_read(other, "ann").ticket
    with pytest.raises(InvalidArgument, match="ticket of the read is unknown"):
        service.call(f"{READS}/PlanRead", "ann", ticket=ticket, scan=SCAN)


@pytest.mark.parametrize("call", ["NextBatch", "PlanBatch"])
@pytest.mark.parametrize("role", ["dan", "tom"])
def test_without_select_no_batch_of_a_stream_is_planned(service: GuardedService, role: str, call: str) -> None:
    table = PbTablePath(database_name=ORDERS.database_name, table_name=ORDERS.table_name)
    [batch] = service.call(f"{READS}/NextBatch", "ann", table_path=table, stream_id="s")
    fields = {"end_offset": batch.offset, "start_offset": '{"v":1}', "scan": SCAN} if call == "PlanBatch" else {}
    service.call(f"{READS}/{call}", "ann", table_path=table, stream_id="s", **fields)

    with pytest.raises((AccessDenied, UnknownTable)) as refused:
        service.call(f"{READS}/{call}", role, table_path=table, stream_id="s", **fields)
    assert isinstance(refused.value, AccessDenied) is (role == "dan")


def test_only_callers_with_select_are_told_where_the_lake_copy_is(service: GuardedService) -> None:
    """Spark reads the copy with its own keys for each of its users, so the plugin needs the answer of the service."""

    def described(role: str, acting_for: bytes = b"") -> list[Any]:
        sys_catalog = "/sys_tables.rpc.v1.SysCatalog"
        [table] = service.call(f"{sys_catalog}/DescribeTable", role, acting_for, namespace="sales", name="orders")
        [page] = service.call(f"{sys_catalog}/ListTables", role, acting_for, namespace="sales", described=True)
        return [table, *page.tables]

    for caller in (("ann",), ("ops",), ("spark", b"ann")):
        assert [list(table.lake_path) for table in described(*caller)] == [["sales", "orders"]] * 2, caller
    for caller in (("dan",), ("spark", b"dan")):
        for table in described(*caller):
            assert list(table.lake_path) == []
            assert "dan lacks SELECT on sales.orders" in table.not_in_lake
            assert 'Action::"SELECT"' in table.not_in_lake


def test_a_reader_who_lost_select_neither_plans_nor_renews(service: GuardedService) -> None:
    ticket = open_read(service, "ann").ticket
    service.policy.write_text(WITHOUT_ANN)
    service.running.coordinator.grants._looked_at -= 10  # as if the second had passed in which the file is not read again

    for call, fields in (("PlanRead", {"scan": SCAN}), ("RenewRead", {})):
        with pytest.raises(UnknownTable, match=r"there is no table sales\.orders"):
            service.call(f"{READS}/{call}", "ann", ticket=ticket, **fields)
    service.call(f"{READS}/CloseRead", "ann", ticket=ticket)


def test_a_service_reads_with_the_rights_of_its_user(service: GuardedService) -> None:
    opened = open_read(service, "spark", acting_for=b"ann")
    assert service.call(f"{READS}/PlanRead", "spark", b"ann", ticket=opened.ticket, scan=SCAN) == []
    with pytest.raises(InvalidArgument, match="unknown"):
        service.call(f"{READS}/PlanRead", "spark", b"bob", ticket=opened.ticket, scan=SCAN)
    with pytest.raises((UnknownTable, UnknownDatabase)):
        open_read(service, "spark", SALARIES, acting_for=b"ann")
    with pytest.raises((UnknownTable, UnknownDatabase)):
        open_read(service, "spark")


def test_a_hidden_table_is_answered_as_one_that_does_not_exist(service: GuardedService) -> None:
    texts = []
    for path in (SALARIES, TablePath("hr", "nothings")):
        with pytest.raises(LakewardError) as refused:
            open_read(service, "ann", path)
        texts.append((type(refused.value), refused.value.message.replace(path.table_name, "T"), refused.value.hint))
    assert texts[0] == texts[1]


def test_the_audit_names_each_opened_read(service: GuardedService) -> None:
    open_read(service, "spark", acting_for=b"ann")
    trail = service.running.coordinator.audit
    assert trail is not None
    entries = [entry for entry in trail.entries() if entry.action == "TableReads.OpenRead"]
    assert {(entry.principal, entry.on_behalf_of, entry.object, entry.outcome) for entry in entries} == {
        ("spark", "ann", "sales.orders", "STARTED"),
        ("spark", "ann", "sales.orders", "ANSWERED"),
    }


def test_open_reads_are_shown_to_callers_who_may_describe_the_table(service: GuardedService) -> None:
    open_read(service, "ann")
    open_read(service, "ops", SALARIES)

    def shown(role: str) -> set[tuple[str, str, str]]:
        pieces = service.call("/sys_tables.rpc.v1.SysCatalog/ReadTable", role, namespace="sys", name="open_reads")
        rows = pa.ipc.open_stream(b"".join(piece.arrow for piece in pieces)).read_all().to_pylist()
        return {(row["table_name"], row["principal"], row["engine"]) for row in rows}

    assert shown("ops") == {("orders", "ann", "spark"), ("salaries", "ops", "spark")}
    assert shown("dan") == shown("ann") == {("orders", "ann", "spark")}
