"""The lake record of a real Fluss cluster: hazards H1 and H2, and which of its offsets files stay (docs/beside-flink.md R6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.fluss_owner import opened_owner, opened_source
from support.clusters.fluss_tables import FlussTables
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.cluster import FlussCluster
from tiering.cluster.fluss.source import UNREADABLE
from tiering.errors import Fenced, LakeRecordUnreadable, UnknownTable
from tiering.lake.base import FLUSS_COMMIT_USER_KEY, FLUSS_OFFSETS_KEY
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.rpc.fluss import fluss_pb2 as pb

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
PATH = TablePath("sales", "recorded")
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string())])
LAKE = {"table.datalake.enabled": "true"}


@pytest.fixture
def owner(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussCluster]:
    with opened_owner(fluss.bootstrap_servers, tmp_path / "cluster") as owner:
        yield owner


@pytest.fixture
def table(tables: FlussTables, owner: FlussCluster) -> Iterator[TableInfo]:
    new_table = tables.create(PATH.table_name, SCHEMA, buckets=2, properties=LAKE)
    yield owner.table(PATH)
    tables.drop(new_table)


def offsets_files(fluss: LocalFlussCluster, table: TableInfo) -> list[Path]:
    folder = fluss.folder / "remote" / "lake" / table.path.database_name / f"{table.path.table_name}-{table.table_id}" / "metadata"
    return sorted(folder.glob("*.offsets"))


def test_a_lake_snapshot_names_flusss_commit_user_and_an_offsets_file_of_its_own(owner: FlussCluster, table: TableInfo) -> None:
    properties = owner.prepare_lake_commit(table, {B0: 5, B1: 0})
    assert properties[FLUSS_COMMIT_USER_KEY] == "__fluss_lake_tiering"
    document = json.loads(Path(properties[FLUSS_OFFSETS_KEY]).read_text())
    assert document == {"version": 1, "table_id": table.table_id, "bucket_offsets": [5, 0]}
    assert owner.lake_snapshot(table) is None


def test_the_file_that_a_snapshot_names_is_never_the_one_that_is_registered_and_outlives_all_of_them(
    fluss: LocalFlussCluster, owner: FlussCluster, table: TableInfo
) -> None:
    in_snapshot = Path(owner.prepare_lake_commit(table, {B0: 5})[FLUSS_OFFSETS_KEY])
    for number in range(1, 6):
        owner.record_lake_snapshot(table, RecordedLakeSnapshot(number, {B0: 5 + number}))
    assert in_snapshot.is_file()
    assert owner.lake_snapshot(table) == RecordedLakeSnapshot(5, {B0: 10})


def test_what_the_cluster_keeps_of_a_table_does_not_grow_with_its_commits(
    fluss: LocalFlussCluster, owner: FlussCluster, table: TableInfo
) -> None:
    for number in range(1, 8):
        owner.record_lake_snapshot(table, RecordedLakeSnapshot(number, {B0: number}))
    assert len(offsets_files(fluss, table)) == 2


def test_telling_the_same_again_writes_nothing(fluss: LocalFlussCluster, owner: FlussCluster, table: TableInfo) -> None:
    """H1: a repeated registration of a path deletes the live offsets file, so it is looked at first."""
    record = RecordedLakeSnapshot(1, {B0: 5, B1: 0})
    owner.record_lake_snapshot(table, record)
    files = offsets_files(fluss, table)
    owner.record_lake_snapshot(table, record)
    owner.record_lake_snapshot(table, RecordedLakeSnapshot(1, {B0: 5}))
    assert offsets_files(fluss, table) == files
    assert owner.lake_snapshot(table) == record


def test_a_record_whose_file_is_gone_is_named_and_mended_by_the_next_one(
    fluss: LocalFlussCluster, owner: FlussCluster, table: TableInfo
) -> None:
    """H1, brought about by a committer that repeats its registration with `keep` unset."""
    owner.record_lake_snapshot(table, RecordedLakeSnapshot(1, {B0: 5}))
    path = offsets_files(fluss, table)[0]
    request = pb.CommitLakeTableSnapshotRequest()
    request.lake_table_snapshot_metadata.add(table_id=table.table_id, snapshot_id=1, tiered_bucket_offsets_file_path=str(path))
    tables = FlussTables(fluss.bootstrap_servers)
    for _ in range(2):
        tables.client.coordinator(request)
    tables.close()
    assert offsets_files(fluss, table) == []
    assert owner.lake_snapshot(table) == UNREADABLE
    with opened_source(fluss.bootstrap_servers, ServiceMode.SHARED) as beside_others, pytest.raises(LakeRecordUnreadable):
        beside_others.lake_snapshot(table)
    owner.record_lake_snapshot(table, RecordedLakeSnapshot(2, {B0: 7}))
    assert owner.lake_snapshot(table) == RecordedLakeSnapshot(2, {B0: 7})


def test_fluss_takes_offsets_that_go_back_so_they_are_refused_here(owner: FlussCluster, table: TableInfo) -> None:
    """H2: the commit is not fenced there."""
    owner.record_lake_snapshot(table, RecordedLakeSnapshot(1, {B0: 5, B1: 3}))
    for back in ({B0: 4, B1: 3}, {B0: 6}):
        with pytest.raises(Fenced, match="would go back"):
            owner.record_lake_snapshot(table, RecordedLakeSnapshot(2, back))
    owner.rewind_lake_snapshot(table, RecordedLakeSnapshot(3, {B0: 4}))
    assert owner.lake_snapshot(table) == RecordedLakeSnapshot(3, {B0: 4})


def test_a_partition_that_vanished_is_no_offset_that_goes_back(tables: FlussTables, owner: FlussCluster) -> None:
    new_table = tables.create("recorded_by_region", SCHEMA, partition_keys=["region"], properties=LAKE)
    north, south = (tables.add_partition(new_table, {"region": region}) for region in ("north", "south"))
    table = owner.table(new_table.path)
    owner.record_lake_snapshot(table, RecordedLakeSnapshot(1, {BucketKey(north, 0): 5, BucketKey(south, 0): 2}))
    tables.drop_partition(new_table, {"region": "north"})
    owner.record_lake_snapshot(table, RecordedLakeSnapshot(2, {BucketKey(south, 0): 3}))
    assert owner.lake_snapshot(table) == RecordedLakeSnapshot(2, {BucketKey(south, 0): 3})
    tables.drop(new_table)


def test_nothing_is_read_or_told_of_a_table_that_was_made_anew(tables: FlussTables, owner: FlussCluster, table: TableInfo) -> None:
    owner.record_lake_snapshot(table, RecordedLakeSnapshot(1, {B0: 5}))
    tables.create(PATH.table_name, SCHEMA, buckets=2, properties=LAKE)
    again = owner.table(PATH)
    assert again.table_id != table.table_id
    assert owner.lake_snapshot(again) is None
    with pytest.raises(UnknownTable):
        owner.record_lake_snapshot(table, RecordedLakeSnapshot(2, {B0: 6}))
    assert owner.lake_snapshot(again) is None
