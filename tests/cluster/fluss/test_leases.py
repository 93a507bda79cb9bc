"""Leases on KV snapshots of a real Fluss, and the ledger of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import Message

from support.clusters.embedded import ManualClock
from support.clusters.fluss_snapshots import newest, snapshot_rows, snapshots_up_to
from support.clusters.fluss_tables import FlussTables
from support.running.processes import wait_for
from tiering.cluster.fluss.kv.snapshots import log_offsets_of
from tiering.cluster.fluss.leases import FlussLeases, LeaseLedger
from tiering.cluster.fluss.memory import FlussMemory
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import ClusterUnavailable, InvalidArgument, PeerTooOld, UnknownLease
from tiering.model.leases import KvSnapshot, LeasedSnapshot
from tiering.model.tables import BucketKey, TableBucket, TableInfo
from tiering.rpc.fluss import fluss_pb2 as pb

KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
HOUR_MS = 3_600_000
BUCKET = BucketKey(None, 0)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[FlussMemory]:
    memory = FlussMemory(tmp_path)
    yield memory
    memory.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def leases(tables: FlussTables, memory: FlussMemory, clock: ManualClock) -> FlussLeases:
    return FlussLeases(tables.client, LeaseLedger(memory.engine), clock)


class MeddlingClient:
    """A client of the real cluster; `before` and `after` see every request of one kind."""

    def __init__(
        self, client: FlussClient, kind: type[Message], before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
    ):
        self._client, self._kind, self._before, self._after = client, kind, before, after

    def coordinator(self, request: Message) -> Any:
        if self._before and isinstance(request, self._kind):
            self._before()
        answer = self._client.coordinator(request)
        if self._after and isinstance(request, self._kind):
            self._after()
        return answer

    def offers(self, *apis: object) -> bool:
        return True


def written(tables: FlussTables, name: str, buckets: int = 1) -> tuple[TableInfo, Mapping[BucketKey, KvSnapshot]]:
    """A table of 20 rows, and its snapshots."""
    table = tables.create(name, KEYED, ["id"], buckets=buckets)
    tables.upsert(table, [{"id": number, "name": "old"} for number in range(20)])
    return table, snapshots_up_to(tables, table, 20)


def ids(table: TableInfo, snapshots: Mapping[BucketKey, KvSnapshot]) -> dict[TableBucket, int]:
    return {TableBucket(table.table_id, bucket): snapshot.snapshot_id for bucket, snapshot in snapshots.items()}


def supersede(tables: FlussTables, table: TableInfo, records: int) -> Mapping[BucketKey, KvSnapshot]:
    """The newer one of two newer snapshots, after which Fluss deletes the former ones that are not leased; the log had `records`."""
    for number in (1, 2):
        tables.upsert(table, [{"id": key, "name": f"new {records} {number}"} for key in range(20)])
        newer = snapshots_up_to(tables, table, records + 40 * number)
    return newer


def died() -> None:
    raise KeyboardInterrupt


def unanswered() -> None:
    raise ClusterUnavailable("the answer was lost")


def test_a_leased_snapshot_survives_newer_ones_until_its_lease_is_dropped(
    tables: FlussTables, leases: FlussLeases, clock: ManualClock
) -> None:
    table, snapshots = written(tables, "leased", buckets=2)

    assert list(leases.acquire_lease("reader", HOUR_MS, ids(table, snapshots), "ann")) == []

    supersede(tables, table, 20)
    assert {row["name"] for row in snapshot_rows(tables, table, snapshots)} == {"old"}
    (lease,) = leases.leases()
    assert (lease.lease_id, lease.owner, lease.ttl_ms, lease.state(clock.now())) == ("reader", "ann", HOUR_MS, "ACTIVE")
    assert lease.acquired_at == lease.renewed_at == clock.now()
    assert lease.expires_at == clock.now() + timedelta(hours=1)
    assert sorted(lease.snapshots, key=lambda snapshot: snapshot.table_bucket.bucket) == [
        LeasedSnapshot(TableBucket(table.table_id, bucket), snapshot.snapshot_id, snapshot.log_offset, None)
        for bucket, snapshot in sorted(snapshots.items())
    ]
    assert leases.drop_lease("reader")
    assert not leases.drop_lease("reader")
    assert list(leases.leases()) == []


def test_of_snapshots_that_are_not_there_only_the_others_are_leased(tables: FlussTables, leases: FlussLeases) -> None:
    table, snapshots = written(tables, "partly")
    missing = {TableBucket(table.table_id, BucketKey(None, 1)): 5, TableBucket(99_999, BUCKET): 0}

    assert list(leases.acquire_lease("none", HOUR_MS, missing)) == list(missing)
    assert list(leases.leases()) == []

    assert set(leases.acquire_lease("some", HOUR_MS, {**ids(table, snapshots), **missing})) == set(missing)
    (lease,) = leases.leases()
    assert [leased.table_bucket for leased in lease.snapshots] == list(ids(table, snapshots))


def test_a_bucket_moves_to_another_snapshot_and_stays_with_its_own_if_that_is_not_there(tables: FlussTables, leases: FlussLeases) -> None:
    table, first = written(tables, "moved")
    leases.acquire_lease("reader", HOUR_MS, ids(table, first))
    second = supersede(tables, table, 20)

    assert list(leases.acquire_lease("reader", HOUR_MS, ids(table, second))) == []
    assert list(leases.acquire_lease("reader", HOUR_MS, dict.fromkeys(ids(table, second), 777))) == list(ids(table, second))

    (lease,) = leases.leases()
    assert [leased.snapshot_id for leased in lease.snapshots] == [second[BUCKET].snapshot_id]
    supersede(tables, table, 100)
    assert len(snapshot_rows(tables, table, second)) == 20


def test_a_lease_is_renewed_by_its_name(tables: FlussTables, leases: FlussLeases, clock: ManualClock) -> None:
    table, snapshots = written(tables, "renewed")
    leases.acquire_lease("reader", 60_000, ids(table, snapshots), "ann")
    acquired = clock.now()
    clock.advance(90)
    assert leases.leases()[0].state(clock.now()) == "EXPIRED"

    assert list(leases.acquire_lease("reader", HOUR_MS, {})) == []

    (lease,) = leases.leases()
    assert (lease.acquired_at, lease.renewed_at, lease.ttl_ms, lease.owner) == (acquired, clock.now(), HOUR_MS, "ann")
    assert len(lease.snapshots) == 1
    supersede(tables, table, 20)
    assert len(snapshot_rows(tables, table, snapshots)) == 20


def test_a_lease_that_was_not_renewed_in_time_is_forgotten(tables: FlussTables, leases: FlussLeases, clock: ManualClock) -> None:
    table, snapshots = written(tables, "forgotten")
    leases.acquire_lease("reader", 60_000, ids(table, snapshots))

    clock.advance(60 + 600)

    assert list(leases.leases()) == []
    with pytest.raises(UnknownLease, match="reader"):
        leases.acquire_lease("reader", 60_000, {})


def test_buckets_are_released_one_by_one(tables: FlussTables, leases: FlussLeases) -> None:
    table, snapshots = written(tables, "released", buckets=2)
    first, second = ids(table, snapshots)
    leases.acquire_lease("reader", HOUR_MS, ids(table, snapshots))

    assert list(leases.release_lease("reader", [first, TableBucket(5, BUCKET)])) == [first]
    assert [leased.table_bucket for leased in leases.leases()[0].snapshots] == [second]
    assert list(leases.release_lease("reader", [second])) == [second]

    assert list(leases.leases()) == []
    assert list(leases.release_lease("reader", [second])) == []


def test_the_ledger_outlives_its_process(tables: FlussTables, leases: FlussLeases, clock: ManualClock, tmp_path: Path) -> None:
    table, snapshots = written(tables, "durable")
    leases.acquire_lease("reader", HOUR_MS, ids(table, snapshots), "ann")
    before = leases.leases()
    memory = FlussMemory(tmp_path)
    opened_again = FlussLeases(tables.client, LeaseLedger(memory.engine), clock)

    assert opened_again.leases() == before
    assert list(opened_again.acquire_lease("reader", HOUR_MS, {})) == []
    memory.close()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("end", [died, unanswered])
def test_a_lease_is_listed_when_its_answer_never_came(
    tables: FlussTables, memory: FlussMemory, leases: FlussLeases, clock: ManualClock, moment: str, end: Callable[[], None]
) -> None:
    table, snapshots = written(tables, "interrupted")
    client: Any = MeddlingClient(tables.client, pb.AcquireKvSnapshotLeaseRequest, **{moment: end})
    interrupted = FlussLeases(client, LeaseLedger(memory.engine), clock)

    with pytest.raises((KeyboardInterrupt, ClusterUnavailable)):
        interrupted.acquire_lease("reader", HOUR_MS, ids(table, snapshots))

    assert [lease.lease_id for lease in leases.leases()] == ["reader"]
    assert list(leases.acquire_lease("reader", HOUR_MS, ids(table, snapshots))) == []
    assert len(leases.leases()) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", [pb.ReleaseKvSnapshotLeaseRequest, pb.DropKvSnapshotLeaseRequest])
def test_a_lease_is_listed_until_fluss_has_let_go_of_it(
    tables: FlussTables, memory: FlussMemory, leases: FlussLeases, clock: ManualClock, moment: str, kind: type[Message]
) -> None:
    table, snapshots = written(tables, "let_go")
    leases.acquire_lease("reader", HOUR_MS, ids(table, snapshots))
    client: Any = MeddlingClient(tables.client, kind, **{moment: died})
    interrupted = FlussLeases(client, LeaseLedger(memory.engine), clock)

    def let_go(of: FlussLeases) -> None:
        if kind is pb.DropKvSnapshotLeaseRequest:
            of.drop_lease("reader")
        else:
            of.release_lease("reader", list(ids(table, snapshots)))

    with pytest.raises(KeyboardInterrupt):
        let_go(interrupted)

    assert len(leases.leases()) == 1
    let_go(leases)
    assert list(leases.leases()) == []


def test_a_snapshot_that_vanishes_while_it_is_leased_is_unavailable(tables: FlussTables, memory: FlussMemory, clock: ManualClock) -> None:
    table, snapshots = written(tables, "vanishing")
    client: Any = MeddlingClient(tables.client, pb.AcquireKvSnapshotLeaseRequest, after=lambda: _drop(tables, table))
    leases = FlussLeases(client, LeaseLedger(memory.engine), clock)

    assert list(leases.acquire_lease("reader", HOUR_MS, ids(table, snapshots))) == list(ids(table, snapshots))

    assert list(leases.leases()) == []


def test_a_leased_snapshot_that_was_lost_is_not_available(tables: FlussTables, leases: FlussLeases) -> None:
    table, snapshots = written(tables, "lost")
    other, kept = written(tables, "kept")
    leases.acquire_lease("reader", HOUR_MS, {**ids(table, snapshots), **ids(other, kept)})
    _drop(tables, table)

    assert list(leases.acquire_lease("reader", HOUR_MS, {})) == []

    (lease,) = leases.leases()
    assert {leased.table_bucket.table_id: leased.available for leased in lease.snapshots} == {table.table_id: False, other.table_id: None}
    assert list(leases.acquire_lease("reader", HOUR_MS, ids(table, snapshots))) == list(ids(table, snapshots))
    everything = [*ids(table, snapshots), *ids(other, kept)]
    assert set(leases.release_lease("reader", everything)) == set(everything)
    assert list(leases.leases()) == []


def test_a_lease_on_a_table_that_was_dropped_is_dropped(tables: FlussTables, leases: FlussLeases) -> None:
    table, snapshots = written(tables, "dropped")
    leases.acquire_lease("reader", HOUR_MS, ids(table, snapshots))
    _drop(tables, table)

    assert leases.drop_lease("reader")


def test_bounds_are_those_of_every_cluster(tables: FlussTables, leases: FlussLeases) -> None:
    with pytest.raises(InvalidArgument):
        leases.acquire_lease("reader", 0, {})
    with pytest.raises(InvalidArgument):
        leases.acquire_lease("", HOUR_MS, {})


def test_a_server_without_leases_is_named_as_the_reason(tables: FlussTables, leases: FlussLeases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlussClient, "offers", lambda client, *apis: False)  # no server that was released with KV snapshots lacks them

    with pytest.raises(PeerTooOld, match="1056"):
        leases.acquire_lease("reader", HOUR_MS, {TableBucket(1, BUCKET): 1})
    with pytest.raises(PeerTooOld):
        leases.release_lease("reader", [])
    with pytest.raises(PeerTooOld):
        leases.drop_lease("reader")
    assert list(leases.leases()) == []


def _drop(tables: FlussTables, table: TableInfo) -> None:
    """Returns once the cluster has none of its snapshots any more."""
    snapshots = ids(table, newest(tables, table))
    tables.drop(table)
    wait_for(f"the end of {table.path}", lambda: None if log_offsets_of(tables.client, snapshots) else True)
