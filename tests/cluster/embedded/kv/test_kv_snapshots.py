"""KV snapshots of the embedded cluster: what they hold, how they are read, which are kept; what leases keep alive."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.changelog import SIGNS, rows_of
from support.clusters.embedded import DAYS, PATH, EmbeddedCluster, ManualClock, cities, days, make_table, order_ids, orders, scan
from support.running.processes import wait_for
from tiering.cluster.base import SplitSource
from tiering.cluster.embedded.maintenance import running_maintenance
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.lease_rules import MAX_TTL_MS
from tiering.errors import ClusterUnavailable, DataCorrupt, InvalidArgument, KvSnapshotGone, SourceChanged, UnknownLease, UnknownTable
from tiering.model.leases import KvSnapshot
from tiering.model.schema.changes import additions
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import BucketKey, TableBucket, TableInfo

ONLY = BucketKey(None, 0)
HOUR_MS = 3_600_000


def split_of(table: TableInfo, bucket: BucketKey, snapshot: KvSnapshot) -> TieringSnapshotSplit:
    return TieringSnapshotSplit(table.path, bucket, None, snapshot.snapshot_id, snapshot.log_offset, snapshot.log_offset)


def read(cluster: SplitSource, table: TableInfo, bucket: BucketKey, snapshot: KvSnapshot) -> pa.Table:
    """Reads like an executor: the reader is sent as bytes."""
    reader = pickle.loads(pickle.dumps(cluster.reader(table, split_of(table, bucket, snapshot))))
    return pa.Table.from_batches(list(reader.read()), schema=table.read_schema())


def snapshot_files(storage: EmbeddedStorage) -> list[Path]:
    return sorted((storage.root / "kv-snapshots").glob("*/*"))


def take_snapshots(cluster: EmbeddedCluster, count: int, start: int = 0) -> list[KvSnapshot]:
    """One after a change each."""
    taken = []
    for number in range(start, start + count):
        cluster.upsert(PATH, cities((number, f"{number}")), "snapshots", number)
        taken.append(cluster.take_kv_snapshots(PATH)[ONLY])
    return taken


def test_a_snapshot_has_the_rows_as_of_its_offset_and_the_log_goes_on_from_there(bench: Any) -> None:
    cluster = bench.cluster
    table = make_table(cluster, bucket_count=3, primary_key=("id",))
    assert cluster.kv_snapshots(table) == {}
    cluster.upsert(PATH, orders(0, 50), "writer", 0)
    cluster.delete(PATH, order_ids(*range(0, 50, 5)), "writer", 1)
    taken = cluster.take_kv_snapshots(PATH)
    assert cluster.kv_snapshots(table) == taken
    cluster.upsert(PATH, cities((1, "changed"), (0, "back"), (99, "new")), "writer", 2)

    rows: dict[int, str | None] = {}
    for bucket, ends in cluster.offsets(table).items():
        loaded = read(cluster, table, bucket, taken[bucket])
        assert set(loaded["__bucket"].to_pylist()) == {bucket.bucket_id}
        assert set(loaded["__offset"].to_pylist()) == {-1}
        assert set(loaded["__timestamp"].cast(pa.int64()).to_pylist()) == {-1_000}
        assert {SIGNS[kind] for kind in loaded["__change_type"].to_pylist()} == {"+I"}
        pairs = zip(loaded["id"].to_pylist(), loaded["city"].to_pylist(), strict=True)
        rows |= rows_of(scan(cluster, table, bucket, taken[bucket].log_offset, ends.log_end), pairs)
    expected = {row["id"]: row["city"] for row in orders(0, 50).to_pylist() if row["id"] % 5} | {1: "changed", 0: "back", 99: "new"}
    assert rows == expected


def test_only_buckets_that_changed_get_a_new_snapshot_under_a_greater_id(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, bucket_count=4, primary_key=("id",))
    cluster.upsert(PATH, orders(0, 100), "writer", 0)
    first = cluster.take_kv_snapshots(PATH)
    assert cluster.take_kv_snapshots(PATH) == first
    (changed,) = cluster.upsert(PATH, cities((1, "changed")), "writer", 1)
    second = cluster.take_kv_snapshots(PATH)
    assert {bucket for bucket in second if second[bucket] != first[bucket]} == {changed.bucket}
    assert second[changed.bucket].snapshot_id > max(snapshot.snapshot_id for snapshot in first.values())
    assert second[changed.bucket].log_offset == cluster.offsets(table)[changed.bucket].log_end


def test_a_bucket_whose_rows_were_all_deleted_has_an_empty_snapshot(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, primary_key=("id",))
    cluster.upsert(PATH, cities((1, "a")), "writer", 0)
    cluster.delete(PATH, order_ids(1), "writer", 1)
    snapshot = cluster.take_kv_snapshots(PATH)[ONLY]
    assert snapshot.log_offset == 2
    assert read(cluster, table, ONLY, snapshot).num_rows == 0


def test_a_column_added_since_is_null_in_a_snapshot_and_one_from_later_asks_for_a_new_look(cluster: EmbeddedCluster) -> None:
    before = make_table(cluster, primary_key=("id",))
    (snapshot,) = take_snapshots(cluster, 1)
    table = cluster.alter_table(PATH, {}, additions([pa.field("tags", pa.list_(pa.string()))]))
    assert read(cluster, table, ONLY, snapshot).select(["id", "city", "tags"]).to_pylist() == [{"id": 0, "city": "0", "tags": None}]
    (later,) = take_snapshots(cluster, 1, 1)
    assert read(cluster, table, ONLY, later).num_rows == 2
    with pytest.raises(SourceChanged, match="were changed since"):
        cluster.reader(before, split_of(before, ONLY, later))


def test_large_snapshots_are_several_files_read_in_bounded_batches(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.cluster.embedded.kv.snapshot_files.MAX_FILE_BYTES", 200_000)
    monkeypatch.setattr("tiering.cluster.embedded.kv.snapshot_files.READ_BATCH_ROWS", 1_000)
    table = make_table(storage, primary_key=("id",))
    storage.upsert(PATH, orders(0, 60_000), "writer", 0)
    snapshot = storage.take_kv_snapshots(PATH)[ONLY]
    assert len(snapshot_files(storage)) > 2
    batches = list(storage.reader(table, split_of(table, ONLY, snapshot)).read())
    assert max(batch.num_rows for batch in batches) == 1_000
    assert sorted(number for batch in batches for number in batch["id"].to_pylist()) == list(range(60_000))


def test_a_snapshot_with_a_flipped_bit_is_damage_and_a_missing_file_is_gone(bench: Any) -> None:
    table = make_table(bench.cluster, primary_key=("id",))
    (snapshot,) = take_snapshots(bench.cluster, 1)
    (file,) = snapshot_files(bench.storage)
    content = file.read_bytes()
    for at in (0, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(DataCorrupt, match=rf"{file}.* of bucket 0 .*checksum"):
            read(bench.cluster, table, ONLY, snapshot)
    file.write_bytes(content[:-1])
    with pytest.raises(DataCorrupt, match="bytes instead of"):
        read(bench.cluster, table, ONLY, snapshot)
    file.unlink()
    with pytest.raises(KvSnapshotGone, match=file.name):
        read(bench.cluster, table, ONLY, snapshot)


def test_the_two_newest_snapshots_are_kept_and_older_ones_are_gone(bench: Any) -> None:
    table = make_table(bench.cluster, primary_key=("id",))
    taken = take_snapshots(bench.cluster, 4)
    assert len(snapshot_files(bench.storage)) == 2
    assert [read(bench.cluster, table, ONLY, snapshot).num_rows for snapshot in taken[2:]] == [3, 4]
    for snapshot in taken[:2]:
        with pytest.raises(KvSnapshotGone, match=f"no KV snapshot {snapshot.snapshot_id}"):
            bench.cluster.reader(table, split_of(table, ONLY, snapshot))
    with pytest.raises(KvSnapshotGone):
        bench.cluster.reader(table, split_of(table, BucketKey(None, 1), taken[3]))


def test_a_leased_snapshot_survives_newer_ones_until_its_lease_ends(storage: EmbeddedStorage, clock: ManualClock) -> None:
    table = make_table(storage, primary_key=("id",))
    bucket = TableBucket(table.table_id, ONLY)
    old, dropped, kept = take_snapshots(storage, 3)
    assert storage.acquire_lease("late", HOUR_MS, {bucket: old.snapshot_id}) == [bucket]
    assert storage.leases() == []
    assert storage.acquire_lease("a", HOUR_MS, {bucket: dropped.snapshot_id}) == []
    assert storage.acquire_lease("b", 2 * HOUR_MS, {bucket: kept.snapshot_id}, "tierer 7") == []
    take_snapshots(storage, 5, 3)
    assert [read(storage, table, ONLY, snapshot).num_rows for snapshot in (dropped, kept)] == [2, 3]

    assert [(lease.lease_id, lease.owner, lease.ttl_ms, lease.expires_at - clock.now()) for lease in storage.leases()] == [
        ("a", None, HOUR_MS, timedelta(hours=1)),
        ("b", "tierer 7", 2 * HOUR_MS, timedelta(hours=2)),
    ]
    (held,) = storage.leases()[1].snapshots
    assert (held.table_bucket, held.snapshot_id, held.log_offset, held.available) == (bucket, kept.snapshot_id, kept.log_offset, True)

    assert (storage.drop_lease("a"), storage.drop_lease("a")) == (True, False)
    clock.advance(7_199)
    storage.primary_key_tables.sweep()
    assert read(storage, table, ONLY, kept).num_rows == 3
    with pytest.raises(KvSnapshotGone):
        storage.reader(table, split_of(table, ONLY, dropped))
    clock.advance(1)
    assert [lease.lease_id for lease in storage.leases()] == ["b"]
    storage.maintenance.run()
    assert storage.leases() == []
    with pytest.raises(KvSnapshotGone):
        storage.reader(table, split_of(table, ONLY, kept))
    assert len(snapshot_files(storage)) == 2


def test_a_lease_outlives_restarts_and_frees_its_snapshot_at_the_first_sweep_after_its_end(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedStorage(tmp_path, clock) as storage:
        table = make_table(storage, primary_key=("id",))
        (kept,) = take_snapshots(storage, 1)
        storage.acquire_lease("lease", HOUR_MS, {TableBucket(table.table_id, ONLY): kept.snapshot_id}, "somebody")
        (lease,) = storage.leases()
    with EmbeddedStorage(tmp_path, clock) as storage:
        take_snapshots(storage, 3, 1)
    with EmbeddedStorage(tmp_path, clock) as storage:
        assert list(storage.leases()) == [lease]
        storage.maintenance.run()
        assert read(storage, table, ONLY, kept).num_rows == 1
        clock.advance(3_600)
    with EmbeddedStorage(tmp_path, clock) as storage:
        storage.maintenance.run()
        assert read(storage, table, ONLY, kept).num_rows == 1  # its owner could not renew it meanwhile
        clock.advance(1_800)
        storage.maintenance.run()
        assert (list(storage.leases()), len(snapshot_files(storage))) == ([], 2)


def test_leases_are_bounded_in_number_and_their_owners_in_length(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.cluster.lease_rules.MAX_LEASES", 3)
    table = make_table(storage, primary_key=("id",))
    (kept,) = take_snapshots(storage, 1)
    wanted = {TableBucket(table.table_id, ONLY): kept.snapshot_id}
    for number in range(3):
        storage.acquire_lease(f"lease-{number}", HOUR_MS, wanted, "x" * 1_000)
    with pytest.raises(InvalidArgument, match="3 leases already"):
        storage.acquire_lease("one too many", HOUR_MS, wanted)
    storage.acquire_lease("lease-0", HOUR_MS, wanted)  # a renewal needs no room
    assert {len(lease.owner or "") for lease in storage.leases()} == {200}


YEARS = timedelta(days=4 * 365)


@pytest.mark.parametrize("step", [YEARS, -YEARS])
def test_a_clock_that_is_set_between_two_starts_neither_ends_a_lease_nor_keeps_it_for_years(
    tmp_path: Path, clock: ManualClock, step: timedelta
) -> None:
    with EmbeddedStorage(tmp_path, clock) as storage:
        table = make_table(storage, primary_key=("id",))
        (kept,) = take_snapshots(storage, 1)
        storage.acquire_lease("lease", HOUR_MS, {TableBucket(table.table_id, ONLY): kept.snapshot_id})
        take_snapshots(storage, 3, 1)
    clock.set_by(step)
    with EmbeddedStorage(tmp_path, clock) as storage:
        clock.advance(1_799)
        storage.maintenance.run()
        assert read(storage, table, ONLY, kept).num_rows == 1
        clock.advance(1_801)
        storage.maintenance.run()
        assert list(storage.leases()) == []


@pytest.mark.parametrize("step", [YEARS, -YEARS])
def test_a_clock_that_is_set_while_the_cluster_runs_changes_no_lease(storage: EmbeddedStorage, clock: ManualClock, step: timedelta) -> None:
    table = make_table(storage, primary_key=("id",))
    (kept,) = take_snapshots(storage, 1)
    storage.acquire_lease("lease", HOUR_MS, {TableBucket(table.table_id, ONLY): kept.snapshot_id})
    take_snapshots(storage, 3, 1)
    clock.set_by(step)
    clock.advance(3_599)
    storage.maintenance.run()
    assert read(storage, table, ONLY, kept).num_rows == 1
    clock.advance(1)
    storage.maintenance.run()
    assert list(storage.leases()) == []


def test_a_snapshot_from_when_the_clock_was_ahead_does_not_hold_up_the_next(storage: EmbeddedStorage, clock: ManualClock) -> None:
    clock.set_by(YEARS)
    table = make_table(storage, primary_key=("id",))
    (ahead,) = take_snapshots(storage, 1)
    clock.set_by(-YEARS)
    storage.upsert(PATH, cities((9, "b")), "writer", 0)
    clock.advance(60)
    storage.maintenance.run()
    assert storage.kv_snapshots(table)[ONLY].snapshot_id > ahead.snapshot_id


def test_acquiring_again_adds_moves_and_renews_and_an_empty_list_only_renews(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedStorage(tmp_path, clock) as storage:
        table = make_table(storage, bucket_count=2, primary_key=("id",))
        storage.upsert(PATH, orders(0, 20), "writer", 0)
        first = storage.take_kv_snapshots(PATH)
        storage.upsert(PATH, orders(0, 20), "writer", 1)
        second = storage.take_kv_snapshots(PATH)
        left, right = (TableBucket(table.table_id, bucket) for bucket in first)
        storage.acquire_lease("lease", 60_000, {left: first[left.bucket].snapshot_id})
        acquired = clock.now()
        clock.advance(50)
        storage.acquire_lease(
            "lease", 60_000, {left: second[left.bucket].snapshot_id, right: first[right.bucket].snapshot_id, TableBucket(99, ONLY): 1}
        )
        clock.advance(50)
        storage.acquire_lease("lease", 60_000, {})
    with EmbeddedStorage(tmp_path, clock) as storage:
        (lease,) = storage.leases()
        assert (lease.acquired_at, lease.renewed_at) == (acquired, clock.now())
        assert {held.table_bucket: held.snapshot_id for held in lease.snapshots} == {
            left: second[left.bucket].snapshot_id,
            right: first[right.bucket].snapshot_id,
        }
        assert storage.release_lease("lease", [left, TableBucket(99, ONLY)]) == [left]
        assert storage.release_lease("lease", [left]) == []
        assert storage.release_lease("other", [right]) == []
        assert storage.release_lease("lease", [right]) == [right]
        with pytest.raises(UnknownLease, match="'lease'"):
            storage.acquire_lease("lease", 60_000, {})


@pytest.mark.parametrize("ttl_ms", [0, -1, 365 * 24 * HOUR_MS, MAX_TTL_MS + 1])
def test_a_lease_has_a_sensible_length(storage: EmbeddedStorage, ttl_ms: int) -> None:
    with pytest.raises(InvalidArgument, match=f"{ttl_ms} ms; it must be between 1 ms and 7 d"):
        storage.acquire_lease("lease", ttl_ms, {})
    for lease_id in ("", "x" * 201):
        with pytest.raises(InvalidArgument, match="1 to 200 characters"):
            storage.acquire_lease(lease_id, HOUR_MS, {})


def test_a_snapshot_whose_files_are_lost_is_not_leased_and_a_lease_says_so(storage: EmbeddedStorage) -> None:
    table = make_table(storage, primary_key=("id",))
    bucket = TableBucket(table.table_id, ONLY)
    (snapshot,) = take_snapshots(storage, 1)
    storage.acquire_lease("before", HOUR_MS, {bucket: snapshot.snapshot_id})
    for file in snapshot_files(storage):
        file.unlink()
    assert storage.acquire_lease("after", HOUR_MS, {bucket: snapshot.snapshot_id}) == [bucket]
    (lease,) = storage.leases()
    assert [held.available for held in lease.snapshots] == [False]


def test_a_snapshot_that_lost_its_files_is_offered_to_no_reader_and_taken_again(storage: EmbeddedStorage) -> None:
    """The one before it stands in, or the log does. Else rounds planned with it for ever (story 106 of paimon-system-columns)."""
    table = make_table(storage, primary_key=("id",))
    first, second = take_snapshots(storage, 2)
    assert storage.kv_snapshots(table) == {ONLY: second}
    files = snapshot_files(storage)
    max(files, key=lambda file: file.stat().st_mtime_ns).unlink()
    assert storage.kv_snapshots(table) == {ONLY: first}
    third = storage.take_kv_snapshots(PATH)[ONLY]
    assert third.log_offset == second.log_offset, "no row has changed since"
    assert read(storage, table, ONLY, third).num_rows == 2
    for file in snapshot_files(storage):
        file.unlink()
    assert storage.kv_snapshots(table) == {}


def test_what_is_dropped_takes_its_snapshots_and_leases_along(storage: EmbeddedStorage) -> None:
    table = make_table(storage, schema=DAYS, primary_key=("day", "id"), partition_keys=("day",))
    storage.upsert(PATH, days((1, "n", "2024-01-01"), (2, "n", "2024-01-02")), "writer", 0)
    taken = storage.take_kv_snapshots(PATH)
    first, second = taken
    for name, bucket in (("first", first), ("second", second)):
        storage.acquire_lease(name, HOUR_MS, {TableBucket(table.table_id, bucket): taken[bucket].snapshot_id})
    storage.drop_partition(PATH, "2024-01-01")
    assert (list(storage.kv_snapshots(table)), [lease.lease_id for lease in storage.leases()]) == ([second], ["second"])
    assert len(snapshot_files(storage)) == 1
    storage.drop_table(PATH)
    assert (storage.leases(), snapshot_files(storage)) == ([], [])
    with pytest.raises(UnknownTable):
        storage.kv_snapshots(table)


def test_snapshots_are_taken_by_themselves_when_they_are_due_and_something_changed(storage: EmbeddedStorage, clock: ManualClock) -> None:
    table = make_table(storage, primary_key=("id",), properties={"table.kv.snapshot.interval": "5 min"})
    storage.upsert(PATH, cities((1, "a")), "writer", 0)
    clock.advance(299)
    storage.maintenance.run()
    assert storage.kv_snapshots(table) == {}
    clock.advance(1)
    storage.maintenance.run()
    (snapshot,) = storage.kv_snapshots(table).values()
    clock.advance(3_600)
    storage.maintenance.run()
    assert storage.kv_snapshots(table) == {ONLY: snapshot}
    storage.upsert(PATH, cities((1, "b")), "writer", 1)
    storage.maintenance.run()
    assert storage.kv_snapshots(table)[ONLY].log_offset == 3


def test_house_is_kept_while_the_context_is_open(storage: EmbeddedStorage, clock: ManualClock) -> None:
    table = make_table(storage, primary_key=("id",), properties={"table.kv.snapshot.interval": "1 ms"})
    storage.upsert(PATH, cities((1, "a")), "writer", 0)
    clock.advance(1)
    with running_maintenance(storage.maintenance, period_s=0.001):
        wait_for("a snapshot", lambda: storage.kv_snapshots(table))
    storage.close()
    with pytest.raises(ClusterUnavailable, match="was closed"):
        storage.upsert(PATH, cities((1, "b")), "writer", 1)
