"""The service TableReads over real gRPC: a read has the rows of one moment, whatever happens between its calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.fresh.held_logs import ids
from support.fresh.read_service import reads_at_uri
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN
from support.services.served import at_uri
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.server.services import _THREADS, Wait
from tiering.errors import InvalidArgument, LakeRolledBack, ReadExpired, SourceChanged, UnknownTable
from tiering.lake.rules.base_check import Base
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.reading.open_reads import READ_TTL
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.tables import TableInfo, TablePath
from tiering.union_read.read_client import OpenedRead, ReadClient
from tiering.union_read.task_codec import decode
from tiering.wire.channel import Connection


@dataclass
class Service:
    world: LakeWorld
    client: ReadClient

    def open(self, table: TableInfo) -> OpenedRead:
        return self.client.open(table.path)

    def ids(self, read: OpenedRead) -> list[int]:
        """The ids of all rows, read as executors do."""
        return ids(self.client.plan(read.ticket, ReadScan(columns=("id",)))[0])


@pytest.fixture(params=[ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    world = LakeWorld(tmp_path, kind=request.param)
    try:
        with reads_at_uri(world) as uri, Connection(uri) as connection:
            yield Service(world, ReadClient(connection, "python", "application 1"))
    finally:
        world.close()


def orders_in_lake_and_log(world: LakeWorld) -> TableInfo:
    """Returns a table with ten rows in the lake, and four more in the log."""
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 4)
    return table


def test_a_read_has_the_rows_of_lake_and_log_of_its_opening(service: Service) -> None:
    world, table = service.world, orders_in_lake_and_log(service.world)

    read = service.open(table)
    world.append(table, 14, 6)
    world.tier(table)

    assert (read.lake_snapshot_id is not None, read.log_records) == (True, 4)
    assert read.schema.names == ["id", "text"]
    assert service.ids(read) == service.ids(read) == list(range(14))
    assert service.ids(service.open(table)) == list(range(20))


def test_reads_are_renewed_while_the_lake_of_another_table_hangs(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    world, table = service.world, orders_in_lake_and_log(service.world)
    read, other = service.open(table), world.table("others")
    reads = world.coordinator.reads
    checked_base, number = reads._checked_base, threading.Semaphore(0)
    repaired = threading.Event()

    def hanging(info: TableInfo) -> Base:
        if info.table_id == other.table_id:
            number.release()
            repaired.wait(60)
        return checked_base(info)

    monkeypatch.setattr(reads, "_checked_base", hanging)
    openings = _THREADS[Wait.OPEN_READ]
    with ThreadPoolExecutor(openings) as clients:
        opened = [clients.submit(service.open, other) for _ in range(openings)]
        try:
            assert all(number.acquire(timeout=60) for _ in range(openings))
            service.client.close(service.client.renew(read.ticket))
        finally:
            repaired.set()
        assert all(opening.result().log_records == 0 for opening in opened)


def test_the_number_of_rows_is_told_without_tasks_where_it_is_known(service: Service) -> None:
    world, table = service.world, orders_in_lake_and_log(service.world)
    read = service.open(table)
    world.append(table, 14, 6)
    by_id = ReadScan(conditions=(Filter("id", Operator.LESS, (3,)),))

    assert service.client.count(read.ticket, ReadScan()) == 14
    assert service.client.count(read.ticket, by_id) is None


def test_a_scan_of_the_changelog_returns_a_ticket_with_which_its_log_is_kept(service: Service) -> None:
    table = orders_in_lake_and_log(service.world)
    read, changelog = service.open(table), ReadScan(ReadPart.CHANGELOG, ("_log_offset",))

    tasks, ticket = service.client.plan(read.ticket, changelog)
    assert service.client.plan(read.ticket, ReadScan())[1] is None
    assert ticket is not None
    assert service.client.count(ticket, changelog) == sum(batch.num_rows for task in tasks for batch in decode(task).read()) == 14
    service.world.restart()

    renewed, _ = service.world.coordinator.reads.renew(ticket)
    assert sorted(renewed.moment.log_starts.values()) == [0, 0]


def test_conditions_of_a_scan_reach_its_tasks(service: Service) -> None:
    table = orders_in_lake_and_log(service.world)
    read = service.open(table)

    scan = ReadScan(columns=("text",), conditions=(Filter("id", Operator.IN, (3, 12)),))
    tasks = [decode(task) for task in service.client.plan(read.ticket, scan)[0]]

    assert sorted(text for task in tasks for batch in task.read() for text in batch.column("text").to_pylist()) == ["row 12", "row 3"]


def test_a_table_without_a_lake_copy_is_read_from_its_log(service: Service) -> None:
    table = service.world.table("orders")
    service.world.append(table, 0, 10)

    read = service.open(table)

    assert (read.lake_snapshot_id, read.log_records) == (None, 10)
    assert service.ids(read) == list(range(10))


def test_a_table_that_the_coordinator_has_not_discovered_yet_can_be_read(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    world = service.world
    with monkeypatch.context() as patched:
        patched.setattr(world.coordinator.discovery, "run", lambda: None)
        table = world.table("orders")
        world.append(table, 0, 3)
        assert world.coordinator.table_records.get(table.table_id) is None
        assert service.ids(service.open(table)) == [0, 1, 2]
    assert service.ids(service.open(table)) == [0, 1, 2]
    assert world.coordinator.table_records.get(table.table_id) is not None


def test_a_ticket_is_valid_after_a_restart_of_the_coordinator(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    table = world.table("orders")
    world.append(table, 0, 10)
    with at_uri(world) as uri, Connection(uri) as connection:
        read = ReadClient(connection, "python").open(table.path)
    world.append(table, 10, 5)
    world.restart()
    with at_uri(world) as uri, Connection(uri) as connection:
        service = Service(world, ReadClient(connection, "python"))
        assert service.ids(read) == list(range(10))
        assert [open_read.read_id for open_read in world.coordinator.reads.open_reads.all()] == [read.read_id]
    world.close()


def test_a_read_expires_unless_it_is_renewed(service: Service) -> None:
    world, table = service.world, service.world.table("orders")
    world.append(table, 0, 10)
    renewed, left = service.open(table), service.open(table)

    world.clock.advance(READ_TTL.total_seconds() - 1)
    ticket = service.client.renew(renewed.ticket)
    world.clock.advance(2)

    assert service.ids(renewed) == list(range(10))
    assert service.client.renew(ticket)
    with pytest.raises(ReadExpired, match=r"sales\.orders expired") as failure:
        service.ids(left)
    assert "A DataFrame of Spark has to be created again" in str(failure.value.hint)
    with pytest.raises(ReadExpired):
        service.client.renew(left.ticket)


def test_a_closed_read_cannot_be_planned_or_renewed_and_may_be_closed_again(service: Service) -> None:
    read = service.open(service.world.table("orders"))
    service.client.close(read.ticket)
    service.client.close(read.ticket)

    with pytest.raises(ReadExpired, match="was closed"):
        service.ids(read)
    with pytest.raises(ReadExpired, match="was closed"):
        service.client.renew(read.ticket)
    assert service.world.coordinator.reads.open_reads.all() == ()


def test_a_ticket_with_any_changed_byte_is_refused(service: Service) -> None:
    ticket = service.open(service.world.table("orders")).ticket
    for place in range(len(ticket)):
        changed = ticket[:place] + bytes([ticket[place] ^ 1]) + ticket[place + 1 :]
        with pytest.raises(InvalidArgument, match="ticket of the read is unknown"):
            service.client.renew(changed)
    for cut in (b"", ticket[:1], ticket[:20], ticket[:-1], ticket + b"x"):
        with pytest.raises(InvalidArgument):
            service.client.close(cut)


def test_a_lake_table_that_was_rolled_back_is_an_error_that_names_the_lake_copy(service: Service) -> None:
    world, table = service.world, service.world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    first = world.view(table).head
    world.append(table, 10, 4)
    world.tier(table)
    assert first is not None
    world.iceberg(table).manage_snapshots().set_current_snapshot(first).commit()

    with pytest.raises(LakeRolledBack) as raised:
        service.open(table)
    assert "`orders$lake`" in raised.value.hint


def test_a_recreated_table_ends_the_read_of_the_former_one(service: Service) -> None:
    world, table = service.world, service.world.table("orders")
    world.append(table, 0, 10)
    read = service.open(table)
    world.storage.drop_table(table.path)
    world.table("orders")

    with pytest.raises(SourceChanged, match=r"sales\.orders was dropped and created again"):
        service.ids(read)


def test_unknown_tables_and_columns_are_named(service: Service) -> None:
    read = service.open(service.world.table("orders"))
    with pytest.raises(UnknownTable, match=r"sales\.nothing"):
        service.client.open(TablePath("sales", "nothing"))
    with pytest.raises(InvalidArgument, match="no column 'colour'"):
        service.client.plan(read.ticket, ReadScan(columns=("colour",)))
