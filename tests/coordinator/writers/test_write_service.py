"""The service TableWrites over real gRPC: a batch of a task is written once, and a ticket is good for one statement alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from support.fresh.read_service import reads_at_uri
from support.lake_kinds.kinds import ICEBERG
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, SCHEMA, LakeWorld
from tiering.coordinator.writers.writes import TICKET_TTL
from tiering.errors import InvalidArgument, SourceChanged, UnknownTable
from tiering.model.schema.changes import AddColumn
from tiering.model.tables import TableInfo, TablePath
from tiering.rpc.v1 import writes_pb2 as pb
from tiering.table_writes.tasks import run_task
from tiering.table_writes.write_client import OpenedWrite, WriteClient
from tiering.wire.channel import Connection


def rows(start: int, count: int, text: str = "row", schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.record_batch({"id": range(start, start + count), "text": [text] * count}, schema=schema)


@dataclass
class Service:
    world: LakeWorld
    client: WriteClient
    uri: str

    def run(self, opened: OpenedWrite, task: int, *batches: pa.RecordBatch) -> int:
        """Runs a task as an executor does; returns the number of its rows."""
        return run_task(pb.ExecutorWrite(task=opened.task, uri=self.uri).SerializeToString(), task, batches)

    def records(self, table: TableInfo) -> int:
        offsets = self.world.storage.offsets(table)
        return sum(bucket.log_end - bucket.log_start for bucket in offsets.values())


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    world = LakeWorld(tmp_path, kind=ICEBERG)
    try:
        with reads_at_uri(world) as uri, Connection(uri) as connection:
            yield Service(world, WriteClient(connection), uri)
    finally:
        world.close()


def test_tasks_that_run_again_write_nothing_twice_and_tell_the_same_number(service: Service) -> None:
    table = service.world.table("orders")
    opened = service.client.open(table.path, "s1")
    batches = [rows(0, 100_000), rows(100_000, 7)]

    counts = [service.run(opened, 0, *batches) for _ in range(2)] + [service.run(opened, 1, rows(0, 5))]

    assert opened.remembers_writers
    assert counts == [100_007, 100_007, 5]
    assert service.records(table) == service.client.count(opened.ticket) == 100_012


def test_attempts_that_run_at_the_same_time_write_once(service: Service) -> None:
    table = service.world.table("orders")
    opened = service.client.open(table.path, "s1")

    with ThreadPoolExecutor(3) as attempts:
        counts = list(attempts.map(lambda _: service.run(opened, 0, rows(0, 150_000)), range(3)))

    assert counts == [150_000] * 3
    assert service.records(table) == 150_000


def test_a_statement_that_is_opened_again_under_its_id_writes_nothing_twice(service: Service) -> None:
    table = service.world.table("orders")
    for _ in range(2):
        service.run(service.client.open(table.path, "s1"), 0, rows(0, 9))
    service.run(service.client.open(table.path, "s2"), 0, rows(0, 9))

    assert service.records(table) == 18


def test_a_task_that_runs_again_with_other_rows_is_told_what_stays(service: Service) -> None:
    table = service.world.table("orders")
    opened = service.client.open(table.path, "s1")
    service.run(opened, 3, rows(0, 9))

    with pytest.raises(InvalidArgument, match=r"task 3 of the statement .* ran again, and its batch 0 has other rows") as raised:
        service.run(opened, 3, rows(1, 9))

    assert "Store the rows of the query first" in raised.value.hint
    assert service.records(table) == 9


def test_a_ticket_is_valid_after_a_restart(service: Service) -> None:
    table = service.world.table("orders")
    opened = service.client.open(table.path, "s1")
    service.client.write(opened.ticket, 0, 0, rows(0, 4))
    service.world.restart()
    writes = service.world.coordinator.writes

    for sequence in (0, 1):
        writes.write(opened.ticket, 0, sequence, pa.Table.from_batches([rows(4 * sequence, 4)]))

    assert service.records(table) == writes.count(opened.ticket) == 8


def test_a_changed_ticket_is_refused(service: Service) -> None:
    opened = service.client.open(service.world.table("orders").path, "s1")
    for ticket in (b"", opened.ticket[:-1], opened.ticket[:-1] + bytes([opened.ticket[-1] ^ 1]), b"\x07" + opened.ticket[1:]):
        with pytest.raises(InvalidArgument, match="the ticket of the write is unknown"):
            service.client.write(ticket, 0, 0, rows(0, 1))
        with pytest.raises(InvalidArgument, match="the ticket of the write is unknown"):
            service.client.count(ticket)


def test_a_ticket_expires(service: Service) -> None:
    table = service.world.table("orders")
    opened = service.client.open(table.path, "s1")
    service.world.clock.advance(TICKET_TTL / timedelta(seconds=1) + 1)

    with pytest.raises(InvalidArgument, match="has run for more than 24 hours"):
        service.client.write(opened.ticket, 0, 0, rows(0, 1))
    assert service.records(table) == 0


def test_rows_of_a_table_that_was_created_again_are_refused(service: Service) -> None:
    table = service.world.table("orders")
    opened = service.client.open(table.path, "s1")
    service.world.storage.drop_table(table.path)
    with pytest.raises(UnknownTable):
        service.client.write(opened.ticket, 0, 0, rows(0, 1))
    again = service.world.table("orders")

    with pytest.raises(SourceChanged, match="was dropped and created again"):
        service.client.write(opened.ticket, 0, 0, rows(0, 1))
    assert service.records(again) == 0


def test_a_column_that_is_added_in_the_middle_is_null_in_the_rows_of_the_statement(service: Service) -> None:
    table = service.world.table("orders")
    opened = service.client.open(table.path, "s1")
    service.client.write(opened.ticket, 0, 0, rows(0, 2))
    service.world.storage.alter_table(table.path, {}, [AddColumn(pa.field("late", pa.int32()))])

    for sequence in (0, 1):
        service.client.write(opened.ticket, 0, sequence, rows(2 * sequence, 2))

    assert service.records(table) == 4


def test_rows_of_a_primary_key_table_are_upserted_and_deleted_by_key(service: Service) -> None:
    table = service.world.primary_key_table("stock")
    for number, text in enumerate(("old", "new")):
        opened = service.client.open(table.path, f"s{number}")
        assert [service.run(opened, 0, rows(0, 3, text, PRIMARY_KEY_SCHEMA)) for _ in range(2)] == [3, 3]
    deleted = service.client.open(table.path, "s3", pb.WriteOperation.DELETE)
    keys = pa.record_batch({"id": [1, 99]}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")]))

    assert [service.run(deleted, 0, keys) for _ in range(2)] == [2, 2]

    assert service.records(table) == 3 + 2 * 3 + 1
    assert service.client.count(deleted.ticket) == 1


def test_a_deletion_from_a_log_table_is_refused_when_it_is_opened(service: Service) -> None:
    with pytest.raises(InvalidArgument, match="is a log table"):
        service.client.open(service.world.table("orders").path, "s1", pb.WriteOperation.DELETE)


@pytest.mark.parametrize("statement_id", ["", "x" * 151, "a\nb"])
def test_a_wrong_statement_id_is_refused(service: Service, statement_id: str) -> None:
    with pytest.raises(InvalidArgument, match="statement id of 1 to 150 printable characters"):
        service.client.open(service.world.table("orders").path, statement_id)


def test_an_unknown_table_is_told_when_the_write_is_opened(service: Service) -> None:
    service.world.table("orders")
    with pytest.raises(UnknownTable):
        service.client.open(TablePath("sales", "nothing"), "s1")
