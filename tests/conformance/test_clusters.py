"""What every kind of cluster must do for tierers and the coordinator: a new kind adds its line to CLUSTERS and passes.

The rows are made by the kind itself, through `WritableCluster` or in any other way; nothing here knows how it stores them.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.embedded import PATH, SCHEMA, make_table, orders, served, split_of
from support.clusters.fluss_owner import opened_owner, opened_source
from support.clusters.fluss_tables import FlussTables
from support.clusters.memory_cluster import MemoryCluster, log_table
from tiering.cluster.base import ClusterOwner, LogOffsets, SplitReader, SplitSource, TableCatalog
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.registry import BUILT_IN, cluster_kind
from tiering.errors import Fenced, KvSnapshotGone, UnknownLease, UnknownTable
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import BucketKey, TableBucket, TableInfo, TablePath, TableType

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


CLUSTERS: Mapping[str, Callable[[Path], AbstractContextManager[Subject]]] = {
    "embedded": embedded,
    "embedded over RPC": embedded_over_rpc,
    "embedded read-only": embedded_read_only,
    "memory": in_memory,
}
"""Those that need nothing but a folder."""
FLUSS = "fluss"
"""A real cluster, which is booted once for all tests."""


@pytest.fixture(params=[*CLUSTERS, FLUSS])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    folder = tmp_path / "cluster"
    is_fluss = request.param == FLUSS
    with fluss(folder, request.getfixturevalue("fluss").bootstrap_servers) if is_fluss else CLUSTERS[request.param](folder) as opened:
        opened.append(RECORDS)
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
    assert list(catalog.tables(PATH.database_name)) == [table]
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
