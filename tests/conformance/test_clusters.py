"""Every kind of cluster must pass these tests for tierers and the coordinator. A new kind adds its line to CLUSTERS.

One that has primary-key tables adds another line to PRIMARY_KEY_CLUSTERS.

The rows are made by the kind itself, through `WritableCluster` or in any other way; nothing here knows how it stores them.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.embedded import PATH, SCHEMA, cities, make_table, order_ids, orders, served, split_of
from support.clusters.fluss_owner import opened_owner, opened_source
from support.clusters.fluss_tables import FlussTables
from support.clusters.memory_cluster import MemoryCluster, log_table
from support.running.processes import wait_for
from tiering.cluster.base import ClusterOwner, LogOffsets, SplitReader, SplitSource, TableCatalog
from tiering.cluster.capabilities import RewritableLogs
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.writing.writer import fluss_writer
from tiering.cluster.registry import BUILT_IN, cluster_kind
from tiering.cluster.writable import TableSpec
from tiering.errors import Fenced, KvSnapshotGone, UnknownLease, UnknownTable
from tiering.model.leases import KvSnapshot
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringSnapshotSplit, TieringSplit
from tiering.model.tables import (
    CHANGE_TYPE_COLUMN,
    OFFSET_COLUMN,
    SNAPSHOT_OFFSET,
    BucketKey,
    ChangeType,
    TableBucket,
    TableInfo,
    TablePath,
    TableType,
)

B0 = BucketKey(None, 0)
RECORDS = 20


@dataclass(frozen=True)
class Subject:
    """A cluster with one log table of one bucket, and the owner of the same cluster."""

    cluster: SplitSource
    owner: ClusterOwner
    append: Callable[[int], None]
    """Appends that many records to the table."""

    @property
    def table(self) -> TableInfo:
        return self.cluster.table(PATH)


@contextmanager
def embedded(folder: Path) -> Iterator[Subject]:
    with EmbeddedStorage(folder) as storage:
        yield _subject(storage, storage)


@contextmanager
def embedded_over_rpc(folder: Path) -> Iterator[Subject]:
    with EmbeddedStorage(folder) as storage, served(storage) as remote:
        yield _subject(remote, storage)


@contextmanager
def embedded_read_only(folder: Path) -> Iterator[Subject]:
    with EmbeddedStorage(folder) as storage:
        subject = _subject(storage, storage)
        cluster = cluster_kind("embedded").open_read_only(folder)
        try:
            yield Subject(cluster, storage, subject.append)
        finally:
            cluster.close()


def _subject(cluster: SplitSource, storage: EmbeddedStorage) -> Subject:
    make_table(storage)
    sequences = itertools.count()

    def append(count: int) -> None:
        storage.append(PATH, orders(0, count), "writer", next(sequences))

    return Subject(cluster, storage, append)


@contextmanager
def in_memory(folder: Path) -> Iterator[Subject]:
    table = log_table(1, PATH, 1)
    cluster = MemoryCluster(table)
    yield Subject(cluster, cluster, lambda count: cluster.append(table, 0, count))


@contextmanager
def fluss(folder: Path, servers: str) -> Iterator[Subject]:
    tables = FlussTables(servers)
    try:
        table = tables.create(PATH.table_name, SCHEMA, properties={"table.datalake.enabled": "true"})
        numbers = itertools.count()

        def append(count: int) -> None:
            tables.append(table, [orders(next(numbers), count)])

        with opened_owner(servers, folder) as owner, opened_source(servers) as source:
            yield Subject(source, owner, append)
        tables.drop(table)
    finally:
        tables.close()


@dataclass(frozen=True)
class PrimaryKeySubject:
    """A cluster with one primary-key table of one bucket, and the owner of the same cluster."""

    cluster: SplitSource
    owner: ClusterOwner
    upsert: Callable[[pa.RecordBatch], object]
    delete: Callable[[pa.RecordBatch], object]
    """Deletes the keys of rows with the columns of `cities`."""
    take_snapshot: Callable[[], object]
    """Returns once there is a KV snapshot with all changes, and superseded snapshots that no lease holds are gone."""
    superseding_snapshots: int = 4
    """More than the cluster keeps of a bucket without a lease."""

    @property
    def table(self) -> TableInfo:
        return self.cluster.table(PATH)

    @property
    def bucket(self) -> TableBucket:
        return TableBucket(self.table.table_id, B0)

    def snapshot(self) -> KvSnapshot:
        return self.cluster.kv_snapshots(self.table)[B0]

    def read(self, split: TieringSplit) -> list[tuple[ChangeType, int, str | None]]:
        """Change type, id and city of what a copy of the split's reader reads, after a look at the offsets."""
        reader: SplitReader = pickle.loads(pickle.dumps(self.cluster.reader(self.table, split)))
        assert reader.split == split
        rows = pa.Table.from_batches(reader.read(), schema=self.table.read_schema())
        offsets = rows.column(OFFSET_COLUMN).to_pylist()
        if isinstance(split, TieringSnapshotSplit):
            assert set(offsets) <= {SNAPSHOT_OFFSET}
        else:
            assert offsets == sorted(set(offsets))
            assert all(split.starting_offset <= offset < split.stopping_offset for offset in offsets)
        columns = (rows.column(name).to_pylist() for name in (CHANGE_TYPE_COLUMN, "id", "city"))
        return [(ChangeType(kind), number, city) for kind, number, city in zip(*columns, strict=True)]

    def read_log(self, start: int | None = None, stop: int | None = None) -> list[tuple[ChangeType, int, str | None]]:
        ends = self.cluster.offsets(self.table)[B0]
        return self.read(split_of(self.table, 0, ends.log_start if start is None else start, ends.log_end if stop is None else stop))

    def read_snapshot(self, snapshot: KvSnapshot) -> list[tuple[ChangeType, int, str | None]]:
        """Returns the rows of a KV snapshot, by id."""
        split = TieringSnapshotSplit(PATH, B0, None, snapshot.snapshot_id, snapshot.log_offset, snapshot.log_offset)
        return sorted(self.read(split), key=lambda row: row[1])


@contextmanager
def embedded_primary_key(folder: Path) -> Iterator[PrimaryKeySubject]:
    with EmbeddedStorage(folder) as storage:
        yield _primary_key_subject(storage, storage)


@contextmanager
def embedded_primary_key_over_rpc(folder: Path) -> Iterator[PrimaryKeySubject]:
    with EmbeddedStorage(folder) as storage, served(storage) as remote:
        yield _primary_key_subject(remote, storage)


@contextmanager
def embedded_primary_key_read_only(folder: Path) -> Iterator[PrimaryKeySubject]:
    with EmbeddedStorage(folder) as storage:
        subject = _primary_key_subject(storage, storage)
        cluster = cluster_kind("embedded").open_read_only(folder)
        try:
            yield replace(subject, cluster=cluster)
        finally:
            cluster.close()


def _primary_key_subject(cluster: SplitSource, storage: EmbeddedStorage) -> PrimaryKeySubject:
    make_table(storage, primary_key=("id",))
    sequences = itertools.count()

    def take_snapshot() -> None:
        storage.take_kv_snapshots(PATH)
        storage.primary_key_tables.sweep()

    return PrimaryKeySubject(
        cluster,
        storage,
        upsert=lambda rows: storage.upsert(PATH, rows, "writer", next(sequences)),
        delete=lambda keys: storage.delete(PATH, keys, "writer", next(sequences)),
        take_snapshot=take_snapshot,
    )


@contextmanager
def fluss_primary_key(folder: Path, servers: str) -> Iterator[PrimaryKeySubject]:
    """A Fluss cluster that takes KV snapshots at the interval of the tests."""
    with fluss_writer(FlussConnection.parse(servers)) as writer, opened_owner(servers, folder) as owner, opened_source(servers) as source:
        writer.create_database(PATH.database_name, ignore_if_exists=True)
        spec = TableSpec(SCHEMA, 1, properties={"table.datalake.enabled": "true"}, primary_key=("id",))
        if PATH in [table.path for table in writer.tables(PATH.database_name)]:
            writer.drop_table(PATH)  # of a test that failed
        writer.create_table(PATH, spec)

        def take_snapshot() -> None:
            end = source.offsets(source.table(PATH))[B0].log_end

            def is_there() -> bool:
                newest = source.kv_snapshots(source.table(PATH))
                return B0 in newest and newest[B0].log_offset == end

            wait_for("a KV snapshot with all changes", is_there)

        try:
            yield PrimaryKeySubject(
                source,
                owner,
                upsert=lambda rows: writer.upsert(PATH, rows, "writer", 0),
                delete=lambda keys: writer.delete(PATH, keys, "writer", 0),
                take_snapshot=take_snapshot,
                superseding_snapshots=2,
            )
        finally:
            writer.drop_table(PATH)


PRIMARY_KEY_CLUSTERS: Mapping[str, Callable[[Path], AbstractContextManager[PrimaryKeySubject]]] = {
    "embedded": embedded_primary_key,
    "embedded over RPC": embedded_primary_key_over_rpc,
    "embedded read-only": embedded_primary_key_read_only,
}

CLUSTERS: Mapping[str, Callable[[Path], AbstractContextManager[Subject]]] = {
    "embedded": embedded,
    "embedded over RPC": embedded_over_rpc,
    "embedded read-only": embedded_read_only,
    "memory": in_memory,
}
"""The kinds of cluster that need only a folder."""
FLUSS = "fluss"
"""A real cluster, which is booted once for all tests."""


@pytest.fixture(params=[*CLUSTERS, FLUSS])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    folder = tmp_path / "cluster"
    is_fluss = request.param == FLUSS
    with fluss(folder, request.getfixturevalue("fluss").bootstrap_servers) if is_fluss else CLUSTERS[request.param](folder) as opened:
        opened.append(RECORDS)
        yield opened


@pytest.fixture(params=[*PRIMARY_KEY_CLUSTERS, FLUSS])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PrimaryKeySubject]:
    folder = tmp_path / "cluster"
    if request.param == FLUSS:
        with fluss_primary_key(folder, request.getfixturevalue("fluss").bootstrap_servers) as opened:
            yield opened
    else:
        with PRIMARY_KEY_CLUSTERS[request.param](folder) as opened:
            yield opened


def test_every_kind_of_the_registry_is_here() -> None:
    assert BUILT_IN.keys() <= {*CLUSTERS, FLUSS}


def test_a_cluster_offers_a_tierers_view_and_its_owner_the_coordinators(subject: Subject) -> None:
    assert isinstance(subject.cluster, TableCatalog)
    assert isinstance(subject.cluster, LogOffsets)
    assert isinstance(subject.cluster, SplitSource)
    assert isinstance(subject.owner, ClusterOwner)
    assert subject.cluster.cluster_id == subject.owner.cluster_id != ""


def test_the_catalog_lists_what_it_finds(subject: Subject) -> None:
    catalog, table = subject.cluster, subject.table
    assert PATH.database_name in catalog.databases()
    assert table in catalog.tables()
    of_the_database = [other for other in catalog.tables() if other.path.database_name == PATH.database_name]
    assert list(catalog.tables(PATH.database_name)) == of_the_database
    assert (table.path, table.table_type, table.bucket_count) == (PATH, TableType.LOG, 1)
    assert list(catalog.partitions(table)) == []
    with pytest.raises(UnknownTable):
        catalog.table(TablePath(PATH.database_name, "nowhere"))


def test_offsets_say_what_the_log_holds_and_grow_with_it(subject: Subject) -> None:
    table = subject.table
    [(bucket, before)] = subject.cluster.offsets(table).items()
    assert (bucket, before.log_start, before.log_end) == (B0, 0, RECORDS)
    assert before.bytes_per_record is None or before.bytes_per_record > 0
    subject.append(5)
    assert subject.cluster.offsets(table)[B0].log_end == RECORDS + 5
    assert subject.cluster.offsets_of([table]) == {table.table_id: subject.cluster.offsets(table)}


def test_a_record_that_is_there_has_a_commit_time_and_one_to_come_has_none(subject: Subject) -> None:
    first = subject.cluster.oldest_timestamps(subject.table, {B0: 0})[B0]
    assert first.tzinfo is not None
    assert first <= subject.cluster.oldest_timestamps(subject.table, {B0: RECORDS - 1})[B0]
    assert not subject.cluster.oldest_timestamps(subject.table, {B0: RECORDS})


@pytest.mark.parametrize(("start", "stop"), [(0, RECORDS), (3, 11), (7, 8), (5, 5)])
def test_a_reader_pickles_and_reads_exactly_its_range(subject: Subject, start: int, stop: int) -> None:
    table, split = subject.table, split_of(subject.table, 0, start, stop)
    reader = subject.cluster.reader(table, split)
    assert isinstance(reader, SplitReader)
    copy: SplitReader = pickle.loads(pickle.dumps(reader))
    assert copy.split == split
    rows = pa.Table.from_batches(copy.read(), schema=table.read_schema())
    assert rows.column("__offset").to_pylist() == list(range(start, stop))
    assert set(rows.column("__bucket").to_pylist()) <= {0}


def test_the_trace_of_a_record_stays_while_the_log_grows(subject: Subject) -> None:
    """For clusters that can lose the end of a log, or be put back to an older copy."""
    cluster, table = subject.cluster, subject.table
    if not isinstance(cluster, RewritableLogs):
        assert subject.owner is cluster  # one that lives in memory alone
        return
    cluster.settle(table)
    before = cluster.record_traces(table, {B0: RECORDS})
    assert before.keys() == {B0}
    assert not cluster.record_traces(table, {B0: RECORDS + 1})
    subject.append(5)
    assert cluster.record_traces(table, {B0: RECORDS}) == before
    assert cluster.record_traces(table, {B0: RECORDS + 5}) != before


def test_a_log_table_has_no_kv_snapshots(subject: Subject) -> None:
    assert not subject.cluster.kv_snapshots(subject.table)


def test_the_lake_record_is_what_the_owner_wrote_last(subject: Subject) -> None:
    table = subject.table
    assert subject.cluster.lake_snapshot(table) is None
    for record in (RecordedLakeSnapshot(11, {B0: 5}), RecordedLakeSnapshot(12, {B0: 9})):
        subject.owner.record_lake_snapshot(table, record)
        subject.owner.record_lake_snapshot(table, record)
        assert subject.cluster.lake_snapshot(table) == record
    with pytest.raises(Fenced):
        subject.owner.record_lake_snapshot(table, RecordedLakeSnapshot(13, {B0: 8}))
    assert subject.cluster.lake_snapshot(table) == RecordedLakeSnapshot(12, {B0: 9})
    subject.owner.rewind_lake_snapshot(table, RecordedLakeSnapshot(14, {B0: 2}))
    assert subject.cluster.lake_snapshot(table) == RecordedLakeSnapshot(14, {B0: 2})


def test_of_a_snapshot_that_is_not_there_nothing_is_leased_and_nothing_is_read(subject: Subject) -> None:
    table = subject.table
    missing = TableBucket(table.table_id, B0)
    assert list(subject.owner.acquire_lease("lease", 60_000, {missing: 99})) == [missing]
    assert list(subject.owner.release_lease("lease", [missing])) == []
    assert subject.owner.drop_lease("lease") is False
    assert list(subject.owner.leases()) == []
    with pytest.raises(KvSnapshotGone):
        subject.cluster.reader(table, TieringSnapshotSplit(PATH, B0, None, 99, 0, 0))


def test_a_lease_that_is_not_there_cannot_be_renewed(subject: Subject) -> None:
    with pytest.raises(UnknownLease):
        subject.owner.acquire_lease("lease", 60_000, {})


INSERT, BEFORE, AFTER, DELETE = (
    ChangeType.INSERT,
    ChangeType.UPDATE_BEFORE,
    ChangeType.UPDATE_AFTER,
    ChangeType.DELETE,
)


def test_the_catalog_says_the_primary_key_of_a_table(keys: PrimaryKeySubject) -> None:
    table = keys.table
    assert (table.table_type, tuple(table.primary_key), tuple(table.bucket_keys)) == (TableType.PRIMARY_KEY, ("id",), ("id",))
    assert not table.schema.field("id").nullable


def test_the_log_of_a_primary_key_table_has_every_change_with_the_row_before_an_update(keys: PrimaryKeySubject) -> None:
    keys.upsert(cities((1, "Oslo"), (2, None)))
    keys.upsert(cities((1, "Rome")))
    keys.delete(order_ids(2, 3))
    changes = [(INSERT, 1, "Oslo"), (INSERT, 2, None), (BEFORE, 1, "Oslo"), (AFTER, 1, "Rome"), (DELETE, 2, None)]
    assert keys.read_log() == changes
    assert keys.read_log(1, 3) == changes[1:3]


def test_a_table_without_a_kv_snapshot_has_none_and_the_newest_is_the_one_that_counts(keys: PrimaryKeySubject) -> None:
    assert not keys.cluster.kv_snapshots(keys.table)
    keys.upsert(cities((1, "Oslo")))
    keys.take_snapshot()
    first = keys.snapshot()
    keys.upsert(cities((1, "Rome"), (2, "Bonn")))
    keys.take_snapshot()
    newest = keys.snapshot()
    assert newest.snapshot_id > first.snapshot_id
    assert first.log_offset < newest.log_offset == keys.cluster.offsets(keys.table)[B0].log_end


def test_a_kv_snapshot_has_the_rows_as_of_its_offset_and_the_log_goes_on_there(keys: PrimaryKeySubject) -> None:
    keys.upsert(cities((1, "Oslo"), (2, "Rome"), (3, None)))
    keys.delete(order_ids(2))
    keys.take_snapshot()
    snapshot = keys.snapshot()
    keys.upsert(cities((1, "Bonn")))
    assert keys.read_snapshot(snapshot) == [(INSERT, 1, "Oslo"), (INSERT, 3, None)]
    assert keys.read_log(snapshot.log_offset) == [(BEFORE, 1, "Oslo"), (AFTER, 1, "Bonn")]


def _supersede(keys: PrimaryKeySubject) -> None:
    for number in range(keys.superseding_snapshots):
        keys.upsert(cities((1, f"city {number}")))
        keys.take_snapshot()


def test_a_superseded_kv_snapshot_goes_unless_a_lease_holds_it(keys: PrimaryKeySubject) -> None:
    keys.upsert(cities((1, "Oslo")))
    keys.take_snapshot()
    loose = keys.snapshot()
    keys.upsert(cities((1, "Rome")))
    keys.take_snapshot()
    leased = keys.snapshot()
    assert list(keys.owner.acquire_lease("lease", 600_000, {keys.bucket: leased.snapshot_id})) == []
    _supersede(keys)
    assert keys.read_snapshot(leased) == [(INSERT, 1, "Rome")]
    with pytest.raises(KvSnapshotGone):
        keys.read_snapshot(loose)
    assert keys.owner.drop_lease("lease") is True
    _supersede(keys)
    with pytest.raises(KvSnapshotGone):
        keys.read_snapshot(leased)


def test_a_lease_is_listed_with_what_it_holds_renewed_and_released(keys: PrimaryKeySubject) -> None:
    keys.upsert(cities((1, "Oslo")))
    keys.take_snapshot()
    snapshot_id = keys.snapshot().snapshot_id
    assert list(keys.owner.acquire_lease("lease", 600_000, {keys.bucket: snapshot_id}, owner="ann")) == []
    [lease] = keys.owner.leases()
    assert (lease.lease_id, lease.ttl_ms, lease.owner) == ("lease", 600_000, "ann")
    assert [(held.table_bucket, held.snapshot_id) for held in lease.snapshots] == [(keys.bucket, snapshot_id)]
    assert lease.snapshots[0].available in (True, None)  # The size is None if the cluster does not know it.
    assert list(keys.owner.acquire_lease("lease", 900_000, {})) == []
    [renewed] = keys.owner.leases()
    assert (renewed.acquired_at, renewed.ttl_ms) == (lease.acquired_at, 900_000)
    assert renewed.expires_at > lease.expires_at
    assert list(keys.owner.release_lease("lease", [keys.bucket])) == [keys.bucket]
    assert list(keys.owner.leases()) == []


def test_a_bucket_that_is_leased_again_moves_to_the_newer_kv_snapshot(keys: PrimaryKeySubject) -> None:
    keys.upsert(cities((1, "Oslo")))
    keys.take_snapshot()
    keys.owner.acquire_lease("lease", 600_000, {keys.bucket: keys.snapshot().snapshot_id})
    keys.upsert(cities((1, "Rome")))
    keys.take_snapshot()
    newer = keys.snapshot()
    assert list(keys.owner.acquire_lease("lease", 600_000, {keys.bucket: newer.snapshot_id})) == []
    [lease] = keys.owner.leases()
    assert [(held.snapshot_id, held.log_offset) for held in lease.snapshots] == [(newer.snapshot_id, newer.log_offset)]
