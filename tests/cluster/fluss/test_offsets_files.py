"""The offsets files that a real Fluss cluster writes for us: those of earlier commits go, and no other one does (beside-flink.md R6)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.fluss_owner import opened_owner
from support.clusters.fluss_tables import FlussTables
from support.repository import ROOT
from tiering import crash_points
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.cluster import FlussCluster
from tiering.cluster.fluss.memory import FlussMemory
from tiering.cluster.fluss.offsets_files import OffsetsFileLedger, PreparedFile, clean_up, superseded
from tiering.lake.base import FLUSS_OFFSETS_KEY
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.rpc.fluss import fluss_pb2 as pb

B0 = BucketKey(None, 0)
PATH = TablePath("sales", "cleaned_up")
SCHEMA = pa.schema([pa.field("id", pa.int64())])


@pytest.fixture
def owner(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussCluster]:
    with opened_owner(fluss.bootstrap_servers, tmp_path / "cluster") as owner:
        yield owner


@pytest.fixture
def table(tables: FlussTables, owner: FlussCluster) -> Iterator[TableInfo]:
    new_table = tables.create(PATH.table_name, SCHEMA, properties={"table.datalake.enabled": "true"})
    yield owner.table(PATH)
    tables.drop(new_table)


class Lake:
    """Snapshots of ours in a lake table that is not there: number and the path in their summary."""

    def __init__(self, owner: FlussCluster, table: TableInfo) -> None:
        self.owner, self.table = owner, table
        self.paths: dict[int, str] = {}

    def commit(self) -> Path:
        """A lake commit that lands; the file that its summary names."""
        number = len(self.paths) + 1
        self.paths[number] = self.owner.prepare_lake_commit(self.table, {B0: number})[FLUSS_OFFSETS_KEY]
        return file_of(self.paths[number])

    def tell(self) -> None:
        newest = len(self.paths)
        self.owner.record_lake_snapshot(self.table, RecordedLakeSnapshot(newest, {B0: newest}))
        self.owner.clean_up_lake_commits(self.table, newest, self.paths)
        assert self.owner.lake_snapshot(self.table) == RecordedLakeSnapshot(newest, {B0: newest})

    def round(self) -> Path:
        file = self.commit()
        self.tell()
        return file


def file_of(path: str) -> Path:
    return Path("/" + path.removeprefix("file:").lstrip("/"))


def offsets_files(fluss: LocalFlussCluster, table: TableInfo) -> set[Path]:
    folder = fluss.folder / "remote" / "lake" / table.path.database_name / f"{table.path.table_name}-{table.table_id}" / "metadata"
    return set(folder.glob("*.offsets"))


def register(tables: FlussTables, table: TableInfo, snapshot_id: int, path: str) -> None:
    """Registers a snapshot of ours that Fluss lacked, as another service's committer does."""
    request = pb.CommitLakeTableSnapshotRequest()
    request.lake_table_snapshot_metadata.add(
        table_id=table.table_id, snapshot_id=snapshot_id, tiered_bucket_offsets_file_path=path, earliest_snapshot_id_to_keep=-1
    )
    tables.client.coordinator(request)


def test_files_of_commits_that_fluss_knows_no_more_are_removed(fluss: LocalFlussCluster, owner: FlussCluster, table: TableInfo) -> None:
    lake = Lake(owner, table)
    files = [lake.round() for _ in range(5)]
    assert [file.exists() for file in files] == [False, False, False, True, True]
    assert len(offsets_files(fluss, table)) == 4  # two snapshots that are registered, and what their summaries name
    never_landed = file_of(owner.prepare_lake_commit(table, {B0: 9})[FLUSS_OFFSETS_KEY])
    lake.tell()
    assert never_landed.exists()  # its request may be on its way still
    lake.round()
    assert not never_landed.exists()
    assert len(offsets_files(fluss, table)) == 4


def test_a_file_that_another_service_registered_is_left_to_fluss(
    fluss: LocalFlussCluster, tables: FlussTables, owner: FlussCluster, table: TableInfo
) -> None:
    lake = Lake(owner, table)
    lake.round()
    recovered = lake.commit()
    register(tables, table, 2, lake.paths[2])
    lake.tell()
    lake.round()
    assert recovered.exists()
    tables.client.coordinator(pb.GetLakeSnapshotRequest(table_path=tables.path(table), snapshot_id=2))
    lake.round()
    lake.round()
    assert not recovered.exists()
    assert len(offsets_files(fluss, table)) == 4


def test_files_of_others_stay(fluss: LocalFlussCluster, tables: FlussTables, owner: FlussCluster, table: TableInfo, tmp_path: Path) -> None:
    lake = Lake(owner, table)
    lake.round()
    offsets = pb.PbTableOffsets(table_id=table.table_id, table_path=tables.path(table))
    offsets.bucket_offsets.add(bucket_id=0, log_end_offset=7)
    answer = tables.client.coordinator(pb.PrepareLakeTableSnapshotRequest(bucket_offsets=[offsets], ignore_previous_table_offsets=True))
    of_flink = file_of(answer.prepare_lake_table_resp[0].lake_table_offsets_path)
    with opened_owner(fluss.bootstrap_servers, tmp_path / "another deployment") as another:
        of_another = file_of(another.prepare_lake_commit(table, {B0: 1})[FLUSS_OFFSETS_KEY])
    for _ in range(3):
        lake.round()
    assert of_flink.exists()
    assert of_another.exists()


@pytest.mark.parametrize("point", [crash_points.LAKE_RECORD_PREPARED])
def test_one_that_dies_before_it_registers_leaves_a_file_that_goes_later(
    fluss: LocalFlussCluster, owner: FlussCluster, table: TableInfo, tmp_path: Path, point: str
) -> None:
    lake = Lake(owner, table)
    lake.round()
    lake.commit()
    before = offsets_files(fluss, table)
    script = f"""
from pathlib import Path
from support.clusters.fluss_owner import opened_owner
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TablePath
with opened_owner({fluss.bootstrap_servers!r}, Path({str(tmp_path / "cluster")!r})) as owner:
    table = owner.table(TablePath("sales", {PATH.table_name!r}))
    owner.record_lake_snapshot(table, RecordedLakeSnapshot(2, {{BucketKey(None, 0): 2}}))
"""
    environment = {**os.environ, crash_points.VARIABLE: point, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == -signal.SIGKILL
    [orphan] = offsets_files(fluss, table) - before
    assert owner.lake_snapshot(table) == RecordedLakeSnapshot(1, {B0: 1})
    lake.tell()
    assert orphan.exists()
    for _ in range(3):
        lake.round()
    assert not orphan.exists()
    assert len(offsets_files(fluss, table)) == 4


def test_a_coordinator_that_was_overtaken_removes_nothing_newer(
    fluss: LocalFlussCluster, owner: FlussCluster, table: TableInfo, tmp_path: Path
) -> None:
    """The process slept before its clean-up while another one continued with the same folder. It wakes up with its old view of the lake."""
    lake = Lake(owner, table)
    for _ in range(3):
        lake.round()
    old_look = dict(lake.paths)
    with opened_owner(fluss.bootstrap_servers, tmp_path / "cluster") as successor:
        lake.owner = successor
        newer = lake.round()
        prepared = file_of(successor.prepare_lake_commit(table, {B0: 9})[FLUSS_OFFSETS_KEY])
        owner.clean_up_lake_commits(table, 3, old_look)
        assert newer.exists()
        assert prepared.exists()
        assert successor.lake_snapshot(table) == RecordedLakeSnapshot(4, {B0: 4})


def test_what_is_needed_by_whom() -> None:
    files = [
        PreparedFile(1, "a", 1),
        PreparedFile(2, "lost", None),
        PreparedFile(3, "b", 2),
        PreparedFile(4, "c", 3),
        PreparedFile(5, "d", None),
    ]
    assert [file.path for file in superseded(files, "c", lambda snapshot_id: snapshot_id == 2)] == ["a", "lost"]
    assert superseded(files, "of another service", lambda _: False) == []


def test_only_files_of_the_tables_own_folder_are_ever_removed(tmp_path: Path, table: TableInfo) -> None:
    """A server that names another place gets nothing removed there."""
    folder = tmp_path / "lake" / "sales"
    own = f"{table.path.table_name}-{table.table_id}"
    names = ("important.offsets", "orders-1/metadata/x.offsets", f"{own}/metadata/x.json", f"{own}/metadata/../../x.offsets")
    (folder / own / "metadata").mkdir(parents=True)
    (folder / "orders-1" / "metadata").mkdir(parents=True)
    memory = FlussMemory(tmp_path)
    ledger = OffsetsFileLedger(memory.engine)
    for name in names:
        (folder / name).write_text("precious")
        ledger.add(table.table_id, f"{folder}/{name}", None)
    ledger.add(table.table_id, f"{folder}/{own}/metadata/gone-already.offsets", None)
    newest = f"{folder}/{own}/metadata/newest.offsets"
    ledger.add(table.table_id, newest, None)
    clean_up(ledger, table, {5: newest}, 5, lambda _: False, {})
    assert all((folder / name).exists() for name in names)
    assert [file.path for file in ledger.files(table.table_id)] == [newest]
    memory.close()
