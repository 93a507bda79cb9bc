"""Writes with policies: opening needs WRITE, and a batch needs the ticket alone, as long as its user has WRITE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.services.guarded_service import GuardedService, guarded_service
from tiering.errors import AccessDenied, UnknownTable
from tiering.library_guards.arrow_ipc import rows_bytes
from tiering.model.tables import TablePath
from tiering.rpc.v1 import writes_pb2 as pb
from tiering.rpc.v1.common_pb2 import PbTablePath
from tiering.table_writes.tasks import run_task
from tiering.table_writes.write_client import OpenedWrite

OPEN = "/tiering.rpc.v1.TableWrites/OpenWrite"
ORDERS = TablePath("sales", "orders")
PATH = PbTablePath(database_name="sales", table_name="orders")
ROWS = pa.record_batch({"id": pa.array([1, 2, 3], pa.int64())})
WRITERS = 'permit (principal in Group::"writers", action in [Action::"DESCRIBE", Action::"WRITE"], resource in Database::"sales");'
READER = 'permit (principal == User::"reader", action in [Action::"DESCRIBE", Action::"SELECT"], resource in Database::"sales");'


@pytest.fixture
def service(tmp_path: Path) -> Iterator[GuardedService]:
    with guarded_service(tmp_path, f"{WRITERS}\n{READER}", {"ann": ("writers",), "reader": (), "other": ()}) as running:
        running.ensure_table(ORDERS)
        yield running


def opened(service: GuardedService, role: str) -> OpenedWrite:
    [answer] = service.call(OPEN, role, table_path=PATH, operation=pb.WriteOperation.INSERT, statement_id="s1")
    return OpenedWrite(answer.task, answer.ticket, answer.remembers_writers)


def run(service: GuardedService, write: OpenedWrite, task: int) -> int:
    """Runs a task as an executor does, which has no token."""
    argument = pb.ExecutorWrite(task=write.task, uri=service.running.uri)
    return run_task(argument.SerializeToString(), task, [ROWS])


def records(service: GuardedService) -> int:
    offsets = service.storage.offsets(service.storage.table(ORDERS))
    return sum(bucket.log_end for bucket in offsets.values())


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Gives the process of the test no token of its own, as an executor has none."""
    monkeypatch.setenv("LAKEWARD_HOME", str(tmp_path / "no-tokens"))


def test_an_executor_writes_with_the_ticket_alone(service: GuardedService) -> None:
    write = opened(service, "ann")

    assert [run(service, write, 0), run(service, write, 0), run(service, write, 1)] == [3, 3, 3]
    assert records(service) == 6


@pytest.mark.parametrize(("role", "error"), [("reader", AccessDenied), ("other", UnknownTable)])
def test_a_write_is_not_opened_without_write(service: GuardedService, role: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        opened(service, role)


def test_rights_that_are_taken_away_end_a_write(service: GuardedService) -> None:
    write = opened(service, "ann")
    run(service, write, 0)
    service.policy.write_text(READER)
    service.running.coordinator.grants._looked_at -= 10  # as if the second had passed in which the file is not read again

    with pytest.raises(UnknownTable):
        run(service, write, 1)
    assert records(service) == 3


def test_a_ticket_opens_no_other_call(service: GuardedService) -> None:
    write = opened(service, "ann")
    fields: dict[str, Any] = {"ticket": write.ticket, "task": 0, "sequence": 0, "rows": rows_bytes(ROWS)}

    service.call("/tiering.rpc.v1.TableWrites/WriteRows", "other", **fields)
    [counted] = service.call("/tiering.rpc.v1.TableWrites/CountWritten", "other", ticket=write.ticket)

    assert counted.records == 3
    with pytest.raises(UnknownTable):
        service.call("/tiering.rpc.v1.EmbeddedCluster/GetTable", "other", table_path=PATH)


def test_the_audit_has_a_line_of_each_statement_and_of_no_batch(service: GuardedService) -> None:
    run(service, opened(service, "ann"), 0)

    audit = service.running.coordinator.audit
    assert audit is not None
    entries = list(audit.entries())
    assert {(entry.principal, entry.action, entry.object) for entry in entries} == {("ann", "TableWrites.OpenWrite", "sales.orders")}
