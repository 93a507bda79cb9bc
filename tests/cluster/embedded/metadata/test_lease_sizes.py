"""A lease on very many KV snapshots: few statements, and writers get their turn meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa

from support.clusters.embedded import PATH, cities, make_table, orders
from tiering.cluster.embedded.kv.snapshot_files import StoredSnapshot
from tiering.cluster.embedded.storage import LEASED_TOGETHER, EmbeddedStorage
from tiering.cluster.lease_rules import MAX_LEASED
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.tierers.leases import Leases
from tiering.errors import InvalidArgument
from tiering.model.tables import BucketKey, TableBucket
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import SNAPSHOTS_TO_LEASE, TABLE_BUCKET

MINUTE_MS = 60_000
BUCKETS = 8


@contextmanager
def statements(storage: EmbeddedStorage) -> Iterator[list[str]]:
    """The statements that the metadata gets inside; one for very many rows counts once."""
    engine, executed = storage.metadata._engine, list[str]()

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        executed.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield executed
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[EmbeddedStorage]:
    storage = EmbeddedStorage(tmp_path / "cluster")
    yield storage
    storage.close()


@pytest.fixture
def taken(storage: EmbeddedStorage) -> dict[TableBucket, int]:
    """A KV snapshot of each bucket of a table."""
    table = make_table(storage, bucket_count=BUCKETS, primary_key=("id",))
    storage.upsert(PATH, orders(0, 200), "writer", 0)
    snapshots = storage.take_kv_snapshots(PATH)
    assert len(snapshots) == BUCKETS
    return {TableBucket(table.table_id, bucket): snapshot.snapshot_id for bucket, snapshot in snapshots.items()}


def made_up(count: int) -> dict[TableBucket, int]:
    return {TableBucket(7, BucketKey(None, number)): 1_000_000 + number for number in range(count)}


def test_thousands_of_snapshots_take_a_few_statements(storage: EmbeddedStorage, taken: dict[TableBucket, int]) -> None:
    named = {**made_up(4 * LEASED_TOGETHER), **taken}
    with statements(storage) as executed:
        unavailable = storage.acquire_lease("many", MINUTE_MS, named)
    assert set(unavailable) == set(named) - set(taken)
    assert len(executed) < 50
    [lease] = storage.leases()
    assert {snapshot.table_bucket: snapshot.snapshot_id for snapshot in lease.snapshots} == taken
    with statements(storage) as executed:
        assert set(storage.release_lease("many", list(named))) == set(taken)
    assert len(executed) < 20
    assert storage.leases() == []


def test_a_listing_of_leases_takes_the_same_statements_however_much_they_hold(
    storage: EmbeddedStorage, taken: dict[TableBucket, int]
) -> None:
    storage.acquire_lease("some", MINUTE_MS, dict(list(taken.items())[:1]))
    with statements(storage) as few:
        storage.leases()
    storage.acquire_lease("all", MINUTE_MS, taken)
    with statements(storage) as more:
        assert [len(lease.snapshots) for lease in storage.leases()] == [BUCKETS, 1]
    assert len(more) == len(few)


def test_files_are_looked_up_while_others_may_write(
    storage: EmbeddedStorage, taken: dict[TableBucket, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    appended = []

    def look(snapshot: StoredSnapshot) -> bool:
        assert not storage.metadata._write_lock.locked()
        appended.append(storage.upsert(PATH, cities((snapshot.snapshot_id, "x")), "other", snapshot.snapshot_id))
        return True

    monkeypatch.setattr(storage, "_files_exist", look)
    assert storage.acquire_lease("mine", MINUTE_MS, taken) == []
    assert len(appended) == BUCKETS


def test_a_snapshot_that_goes_between_look_and_lease_is_unavailable(
    storage: EmbeddedStorage, taken: dict[TableBucket, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(snapshot: StoredSnapshot) -> bool:
        if storage.tables():
            storage.drop_table(PATH)
        return True

    monkeypatch.setattr(storage, "_files_exist", look)
    assert set(storage.acquire_lease("mine", MINUTE_MS, taken)) == set(taken)
    monkeypatch.undo()
    assert storage.leases() == []


def test_a_request_names_a_bounded_number_of_snapshots(storage: EmbeddedStorage) -> None:
    leases = Leases(storage, cast(TableRecords, None))  # the refusal comes before any record
    named = made_up(MAX_LEASED + 1)
    acquire = pb.AcquireKvSnapshotLeaseRequest(
        lease_id="x", lease_duration_ms=MINUTE_MS, snapshots_to_lease=SNAPSHOTS_TO_LEASE.to_pb(named)
    )
    with pytest.raises(InvalidArgument, match=f"at most {MAX_LEASED} KV snapshots"):
        leases.acquire(acquire)
    with pytest.raises(InvalidArgument, match=f"at most {MAX_LEASED} KV snapshots"):
        leases.release(pb.ReleaseKvSnapshotLeaseRequest(lease_id="x", buckets_to_release=map(TABLE_BUCKET.to_pb, list(named))))
