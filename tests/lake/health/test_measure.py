"""The health of real lake tables of both formats."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent

from support.lakes.foreign.tiering import committed, replaced, written
from support.lakes.lake_kit import COLUMNS, LakeKit, bucket
from support.lakes.paimon_kit import KeyedRounds, PaimonKit
from support.worlds.validated import local
from tiering.lake.health.measure import LakeMeasure, MeasuredLake
from tiering.lake.health.score import score_of
from tiering.lake.iceberg.reading import health
from tiering.lake.table_options import LAYOUT
from tiering.model.tables import ChangeType, TableInfo, TableType

CLEAN = {LAYOUT.name: "clean"}


@pytest.fixture
def paimon(tmp_path: Path) -> PaimonKit:
    return PaimonKit(tmp_path / "paimon")


def measured(kit: LakeKit | PaimonKit, table: TableInfo) -> LakeMeasure:
    lake: Any = kit.lake
    assert isinstance(lake, MeasuredLake)
    return lake.measure(table, kit.view(table))


def size_of(*folders: Path) -> tuple[int, int]:
    sizes = [file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file()]
    return len(sizes), sum(sizes)


def with_target_size(paimon: PaimonKit, table: TableInfo, size: str) -> None:
    """A user sets the option of the lake table itself."""
    paimon.lake.ensure_table(table)
    schema = paimon.folder(table) / "schema" / "schema-0"
    document = json.loads(schema.read_text())
    document["options"]["target-file-size"] = size
    schema.write_text(json.dumps(document))


def rows(kit: LakeKit, start: int, stop: int) -> pa.Table:
    return pa.Table.from_batches([kit.rows(kit.table(), bucket(0), start, stop).select(COLUMNS.names)])


@pytest.fixture
def planes(kit: LakeKit) -> TableInfo:
    table = replace(kit.table("planes", bucket_count=1, properties=CLEAN), table_type=TableType.PRIMARY_KEY, primary_key=("id",))
    kit.lake.ensure_table(table)
    return table


def test_rounds_of_an_iceberg_table_add_files_until_a_compaction(kit: LakeKit) -> None:
    table = kit.table()
    for number in range(1, 13):
        view = kit.tier(table, f"r{number}", {bucket(0): number * 10, bucket(1): number * 10})
    crowded, head = measured(kit, table), view.snapshots[view.head or 0]
    oldest = min(snapshot.committed_at for snapshot in view.snapshots.values())
    files = crowded.files
    assert (files.data_files, files.data_bytes) == (view.files, view.size_bytes) == (24, files.data_bytes)
    assert (files.small_files, files.ideal_files, files.buckets, files.surplus_files) == (24, 2, 2, 6)
    assert (files.delete_files, files.rows, files.dead_share) == (0, 240, 0.0)
    assert files.average_bytes == files.data_bytes // 24
    assert (files.target_bytes, files.rewrite_bytes) == (512 << 20, files.data_bytes)
    assert (crowded.snapshots, crowded.oldest_snapshot_time) == (12, oldest)
    assert crowded.oldest_snapshot_time <= head.committed_at <= datetime.now(UTC)
    location = local(kit.catalog().load_table(str(table.path)).location())
    assert (crowded.metadata_files, crowded.metadata_bytes) == size_of(location / "metadata")
    assert crowded.manifests == len(view.handle.current_snapshot().manifests(view.handle.io)) <= 9
    assert score_of(crowded).reason == "24 small files in 2 buckets: a scan opens 12 times as many files as needed"

    user = kit.catalog().load_table(str(table.path))
    user.overwrite(user.scan().to_arrow())
    healed = measured(kit, table).files
    assert (healed.data_files, healed.ideal_files, healed.rewrite_bytes) == (2, 2, 0)
    assert score_of(measured(kit, table)).score == 100


def test_nine_rounds_leave_an_iceberg_table_healthy(kit: LakeKit) -> None:
    table = kit.table()
    for number in range(1, 10):
        kit.tier(table, f"r{number}", {bucket(0): number, bucket(1): number})
    assert score_of(measured(kit, table)).score == 100


def test_the_target_size_is_the_one_of_the_tables_properties(kit: LakeKit) -> None:
    table = kit.table(properties={"iceberg.write.target-file-size-bytes": "1000"})
    kit.tier(table, "r1", {bucket(0): 5})
    files = measured(kit, table).files
    assert (files.target_bytes, files.small_files) == (1_000, 0)
    assert files.ideal_files == -(-files.data_bytes // 1_000)


def test_an_empty_lake_table_is_healthy(kit: LakeKit, paimon: PaimonKit) -> None:
    for lake in (kit, paimon):
        table = kit.table()
        lake.lake.ensure_table(table)
        measure = measured(lake, table)
        assert (measure.files.data_files, measure.files.average_bytes, measure.files.dead_share) == (0, None, 0.0)
        assert (measure.snapshots, measure.oldest_snapshot_time, measure.manifests) == (0, None, 0)
        assert score_of(measure).score == 100


def test_buckets_of_a_clean_iceberg_table_share_their_files(kit: LakeKit) -> None:
    table = kit.table(properties=CLEAN)
    kit.lake.ensure_table(table)
    kit.catalog().load_table(str(table.path)).append(rows(kit, 0, 10))
    files = measured(kit, table).files
    assert (files.buckets, files.ideal_files) == (2, 1)


def test_partitions_of_an_iceberg_table_have_buckets_of_their_own(kit: LakeKit) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False)])
    table = kit.table("visits", schema=schema, partition_keys=("region",), properties=CLEAN)
    kit.lake.ensure_table(table)
    kit.catalog().load_table(str(table.path)).append(pa.table({"id": [1, 2, 3], "region": ["a", "b", "b"]}, schema=schema))
    files = measured(kit, table).files
    assert (files.data_files, files.ideal_files, files.buckets, files.rows) == (2, 2, 4, 3)


def test_position_deletes_are_dead_rows_and_a_rewrite_ends_them(kit: LakeKit, planes: TableInfo) -> None:
    file = written(kit, planes, rows(kit, 0, 10))
    places = pa.table({"file_path": [file.file_path] * 4, "pos": pa.array(range(4), pa.int64())})
    committed(kit, planes, [file, written(kit, planes, places, DataFileContent.POSITION_DELETES)])
    files = measured(kit, planes).files
    assert (files.delete_files, files.dead_rows, files.dead_share) == (1, 4, 0.4)
    assert files.rewrite_bytes == files.data_bytes > 0
    assert score_of(measured(kit, planes)).reason == "40 % of the rows are deleted: a scan reads and drops them"
    replaced(kit, planes, rows(kit, 4, 10))
    healed = measured(kit, planes).files
    assert (healed.delete_files, healed.dead_share, healed.rewrite_bytes) == (0, 0.0, 0)


def test_how_many_rows_equality_deletes_kill_is_unknown(kit: LakeKit, planes: TableInfo) -> None:
    committed(kit, planes, [written(kit, planes, rows(kit, 0, 10))])
    committed(kit, planes, [written(kit, planes, rows(kit, 0, 3).select(["id"]), DataFileContent.EQUALITY_DELETES)])
    files = measured(kit, planes).files
    assert (files.delete_files, files.dead_rows, files.dead_share, files.rewrite_bytes) == (1, None, None, 0)


def test_rounds_of_a_paimon_log_table_add_files_and_metadata(paimon: PaimonKit) -> None:
    table = paimon.log_table()
    for number in range(1, 11):
        paimon.tier(table, f"r{number}", [number])
    measure, view = measured(paimon, table), paimon.view(table)
    files = measure.files
    assert (files.data_files, files.data_bytes) == (view.files, view.size_bytes)
    assert (files.data_files, files.small_files, files.ideal_files, files.rows, files.dead_share) == (10, 10, 2, 10, 0.0)
    assert files.target_bytes == 256 << 20
    assert (measure.snapshots, measure.manifests) == (10, 2)
    assert measure.oldest_snapshot_time == min(snapshot.committed_at for snapshot in view.snapshots.values())
    folder = paimon.folder(table)
    assert (measure.metadata_files, measure.metadata_bytes) == size_of(folder / "snapshot", folder / "manifest")
    paimon.expire(table, 9)
    assert measured(paimon, table).snapshots == 2


def test_runs_of_a_paimon_primary_key_bucket_are_small_files_whatever_their_size(paimon: PaimonKit) -> None:
    table = paimon.log_table(table_type=TableType.PRIMARY_KEY, primary_key=("id",), bucket_count=1)
    with_target_size(paimon, table, "1 b")
    rounds = KeyedRounds(paimon, table)
    rounds.tier("r1", [(ChangeType.INSERT, {"id": 1, "name": "a"})])
    single = measured(paimon, table).files
    assert (single.target_bytes, single.small_files, single.dead_rows, single.dead_share) == (1, 1, 0, 0.0)
    for number in range(2, 11):
        rounds.tier(f"r{number}", [(ChangeType.INSERT, {"id": number, "name": "a"})])
    files = measured(paimon, table).files
    assert (files.small_files, files.surplus_files, files.delete_files) == (10, 1, 0)
    assert (files.dead_rows, files.dead_share) == (None, None), "the metadata does not tell which rows the runs replace"
    assert files.rewrite_bytes == files.data_bytes


def test_small_files_of_a_partition_that_gets_no_more_rows_are_to_be_merged(kit: LakeKit, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kit.table(bucket_count=2)
    for number in range(3):
        kit.tier(table, f"first-{number}", {bucket(0): 5 * number + 5})
    assert measured(kit, table).files.rewrite_bytes == 0
    monkeypatch.setattr(health, "REST_MS", 0)
    files = measured(kit, table).files
    assert (files.small_files, files.surplus_files) == (3, 2)
    assert files.rewrite_bytes > 0
