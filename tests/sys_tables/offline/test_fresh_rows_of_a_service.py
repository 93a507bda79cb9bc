"""Fresh rows on DuckDB with a service: it fixes the moment and plans the tasks, and keeps what they need until the statement ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.fresh.read_service import reads_at_uri
from support.fresh.reused_ids import SnapshotIdReused
from support.lake_kinds.kinds import ICEBERG, LAKE_KINDS, PAIMON, LakeKind
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from sys_tables.offline.engine import OfflineEngine, OfflineSource
from sys_tables.query.reading import statement_view_of
from tiering.cli.sql import fresh_reads
from tiering.cli.sql.fresh_reads import reads_of_service
from tiering.coordinator.status.offline_view import offline_view
from tiering.errors import LakeRolledBack, LakeUnavailable, SchemaDrift, ServiceUnreachable
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.union_read.read_client import ReadClient
from tiering.wire.channel import Connection


class Served:
    """A deployment and the engine that asks it."""

    def __init__(self, world: LakeWorld, connection: Connection) -> None:
        self.world = world
        source = OfflineSource(
            lambda: statement_view_of(offline_view(world.store, world.storage, world.clock)),
            lambda _: world.lake,
            reads_of_service(connection, world.storage),
            world.lake_format,
            world.validate,
            None,
        )
        self._engine = OfflineEngine(source)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._engine.execute(sql).rows]


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    world = LakeWorld(tmp_path, kind=request.param)
    with reads_at_uri(world) as uri, Connection(uri) as connection:
        yield Served(world, connection)
    world.close()


def test_rows_of_lake_and_log_are_read_once(served: Served) -> None:
    orders = served.world.table("orders")
    served.world.append(orders, 0, 20)
    assert served.rows("SELECT count(*), sum(id) FROM fluss.sales.orders") == [(20, 190)]
    served.world.tier(orders)
    served.world.append(orders, 20, 5)

    both = "SELECT (SELECT count(*) FROM sales.orders), (SELECT max(id) FROM sales.orders), (SELECT count(*) FROM sales.`orders$lake`)"
    assert served.rows(both) == [(25, 24, 20)]


def test_the_last_change_of_a_key_replaces_its_lake_row(served: Served) -> None:
    table, storage = served.world.primary_key_table("stock"), served.world.storage
    storage.upsert(table.path, pa.table({"id": [1, 2, 3], "text": ["a"] * 3}, schema=PRIMARY_KEY_SCHEMA), "w", 0)
    served.world.tier(table)
    storage.upsert(table.path, pa.table({"id": [2, 4], "text": ["b"] * 2}, schema=PRIMARY_KEY_SCHEMA), "w", 1)
    storage.delete(table.path, pa.table({"id": [3]}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")])), "w", 2)

    assert served.rows("SELECT id, text FROM sales.stock ORDER BY id") == [(1, "a"), (2, "b"), (4, "b")]


@pytest.mark.parametrize("served", [ICEBERG], indirect=True, ids=lambda kind: kind.name)
def test_the_offsets_of_rows_come_from_both_parts(served: Served) -> None:
    orders = served.world.table("orders")
    served.world.append(orders, 0, 4)
    served.world.tier(orders)
    served.world.append(orders, 4, 2)

    offsets = [(bucket, offset) for bucket in range(2) for offset in range(3)]
    assert served.rows("SELECT __bucket, __offset FROM sales.orders ORDER BY 1, 2") == offsets


@pytest.mark.parametrize("served", [ICEBERG], indirect=True, ids=lambda kind: kind.name)
def test_a_statement_leaves_no_read_open(served: Served) -> None:
    served.world.append(served.world.table("orders"), 0, 4)
    served.rows("SELECT count(*) FROM sales.orders")

    assert list(served.world.coordinator.reads.open_reads.all()) == []


@pytest.mark.parametrize("kind", [ICEBERG], ids=lambda kind: kind.name)
def test_without_the_service_the_lake_alone_is_never_the_answer(tmp_path: Path, kind: LakeKind) -> None:
    world = LakeWorld(tmp_path, kind=kind)
    orders = world.table("orders")
    world.append(orders, 0, 4)
    world.tier(orders)
    with Connection("127.0.0.1:9") as connection, pytest.raises(ServiceUnreachable):
        Served(world, connection).rows("SELECT count(*) FROM sales.orders")
    world.close()


@pytest.mark.parametrize("served", [ICEBERG], indirect=True, ids=lambda kind: kind.name)
def test_a_rolled_back_lake_is_the_error_of_the_round(served: Served) -> None:
    orders = served.world.table("orders")
    served.world.append(orders, 0, 4)
    served.world.tier(orders)
    first = served.world.by_hand.head(orders.path)
    served.world.append(orders, 4, 2)
    served.world.tier(orders)
    served.world.by_hand.roll_back(orders.path, first)

    with pytest.raises(LakeRolledBack):
        served.rows("SELECT count(*) FROM sales.orders")


@pytest.mark.parametrize("served", [PAIMON], indirect=True, ids=lambda kind: kind.name)
def test_another_snapshot_that_got_the_id_of_a_rolled_back_one_is_not_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    reused = SnapshotIdReused(served.world, served.world.table("orders"))
    reused.before_the_lake_is_read(monkeypatch)

    with pytest.raises(LakeUnavailable, match=r"the lake table of sales\.orders was rolled back since the read began"):
        served.rows("SELECT id FROM sales.orders")
    assert reused.has_happened


@pytest.mark.parametrize("served", LAKE_KINDS, indirect=True, ids=lambda kind: kind.name)
def test_a_lake_column_that_was_renamed_is_an_error_and_not_null(served: Served) -> None:
    orders = served.world.table("orders")
    served.world.append(orders, 0, 4)
    served.world.tier(orders)
    served.world.by_hand.rename_column(orders.path, "text", "words")

    with pytest.raises(SchemaDrift):
        served.rows("SELECT text FROM sales.orders")


@pytest.mark.parametrize("served", [ICEBERG], indirect=True, ids=lambda kind: kind.name)
def test_a_long_statement_renews_its_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_reads, "RENEW_SECONDS", 0.01)
    orders = served.world.table("orders")
    served.world.append(orders, 0, 4)
    renewed, renew = threading.Event(), ReadClient.renew

    def noted(client: ReadClient, ticket: bytes) -> bytes:
        answer = renew(client, ticket)
        renewed.set()
        return answer

    def plan_after_a_renewal(client: ReadClient, ticket: bytes, scan: ReadScan) -> tuple[list[bytes], bytes | None]:
        assert renewed.wait(60)
        return plan(client, ticket, scan)

    plan = ReadClient.plan
    monkeypatch.setattr(ReadClient, "renew", noted)
    monkeypatch.setattr(ReadClient, "plan", plan_after_a_renewal)

    assert served.rows("SELECT count(*) FROM sales.orders") == [(4,)]


class RenewingClient(ReadClient):
    """A client whose first renewal begins before a scan and ends after it."""

    def __init__(self) -> None:
        self.began, self.planned, self.renewed_again, self.closed = threading.Event(), threading.Event(), threading.Event(), b""

    def plan(self, ticket: bytes, scan: ReadScan) -> tuple[list[bytes], bytes | None]:
        assert self.began.wait(60)
        self.planned.set()
        return [], b"of the scan"

    def renew(self, ticket: bytes) -> bytes:
        if self.began.is_set():
            self.renewed_again.set()
            return ticket
        self.began.set()
        assert self.planned.wait(60)
        return b"of the renewal"

    def close(self, ticket: bytes) -> None:
        self.closed = ticket


def test_the_ticket_of_a_scan_is_renewed_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_reads, "RENEW_SECONDS", 0.01)
    client = RenewingClient()
    with closing(fresh_reads._RenewedTicket(client, b"of the opening")) as ticket:
        read = fresh_reads.ServiceRead(client, None, ticket, None)  # type: ignore[arg-type]
        assert list(read.rows(ReadScan(ReadPart.CHANGELOG))) == []
        assert client.renewed_again.wait(60)
    assert client.closed == b"of the scan"
