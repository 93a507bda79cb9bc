"""The rows that snapshots of Fluss's own tiering added to a clean Iceberg table, as sums per partition value."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from support.lakes.foreign.tiering import appended, committed, written
from support.lakes.lake_kit import COLUMNS, LakeKit, bucket
from tiering.errors import SchemaDrift
from tiering.lake.foreign import CleanRows
from tiering.lake.proof.change_sums import RowSum
from tiering.lake.proof.row_checksum import row_checksum
from tiering.model.tables import TableInfo, TableType

CLEAN = {"table.datalake.layout": "clean"}
DATA, BY_KEY, BY_POSITION = DataFileContent.DATA, DataFileContent.EQUALITY_DELETES, DataFileContent.POSITION_DELETES


def clean_rows(kit: LakeKit, table: TableInfo, *snapshot_ids: int, **partitions: int) -> list[CleanRows]:
    return list(kit.lake.clean_rows(table, kit.view(table), snapshot_ids, partitions))


def rows(kit: LakeKit, start: int, stop: int) -> pa.Table:
    return pa.Table.from_batches([kit.rows(kit.table(), bucket(0), start, stop).select(COLUMNS.names)])


def of(data: pa.Table) -> RowSum:
    return RowSum(data.num_rows, row_checksum(data))


@pytest.fixture
def planes(kit: LakeKit) -> TableInfo:
    log = kit.table("planes", bucket_count=1, properties=CLEAN)
    table = replace(log, table_type=TableType.PRIMARY_KEY, primary_key=("id",))
    kit.lake.ensure_table(table)
    return table


def test_rows_of_several_snapshots_and_buckets_are_summed_together(kit: LakeKit) -> None:
    table = kit.table(properties=CLEAN)
    kit.lake.ensure_table(table)
    first, second = appended(kit, table, rows(kit, 0, 10)), appended(kit, table, rows(kit, 10, 15))
    assert kit.lake.foreign_snapshot(table, kit.view(table), first, {}).has_clean_rows
    [added] = clean_rows(kit, table, first, second)
    assert (added.partition_id, added.bucket_id, added.complaint) == (None, None, "")
    assert added.sums.written == added.sums.living == of(rows(kit, 0, 15))
    assert added.sums.deleted == RowSum()


def test_partitions_are_scopes_and_one_that_is_gone_is_left_out(kit: LakeKit) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False)])
    table = kit.table("visits", schema=schema, partition_keys=("region",), properties=CLEAN)
    kit.lake.ensure_table(table)
    data = pa.table({"id": [1, 2, 3], "region": ["north", "south", "gone"]}, schema=schema)
    scopes = clean_rows(kit, table, appended(kit, table, data), north=17, south=18)
    assert {(scope.partition_id, scope.bucket_id): scope.sums.written for scope in scopes} == {
        (17, None): of(data.slice(0, 1)),
        (18, None): of(data.slice(1, 1)),
    }


@pytest.mark.parametrize("columns", [COLUMNS.names, ["id"]], ids=["whole old rows", "keys alone"])
def test_deletes_by_key_kill_rows_of_older_snapshots_only(kit: LakeKit, planes: TableInfo, columns: list[str]) -> None:
    data = rows(kit, 0, 10)
    first = committed(kit, planes, [written(kit, planes, data)])
    old = written(kit, planes, data.slice(0, 3).select(columns), BY_KEY)
    again = committed(kit, planes, [old, written(kit, planes, data.slice(2, 1))])
    [added] = clean_rows(kit, planes, first, again)
    assert (added.bucket_id, added.complaint) == (0, "")
    assert added.sums.written == of(data) + of(data.slice(2, 1))
    assert added.sums.deleted == of(data.slice(0, 3).select(["id"]))
    assert added.sums.living == of(data.slice(2))


def positions(kit: LakeKit, table: TableInfo, file: DataFile, *places: int) -> DataFile:
    rows = pa.table({"file_path": [file.file_path] * len(places), "pos": pa.array(places, pa.int64())})
    return written(kit, table, rows, BY_POSITION)


def test_rows_that_are_deleted_by_position_count_as_deleted(kit: LakeKit, planes: TableInfo) -> None:
    data = rows(kit, 0, 10)
    file = written(kit, planes, data)
    [added] = clean_rows(kit, planes, committed(kit, planes, [file, positions(kit, planes, file, 1, 2)]))
    assert added.sums.deleted == of(data.slice(1, 2).select(["id"]))
    assert added.sums.living == of(pa.concat_tables([data.slice(0, 1), data.slice(3)]))


def test_deletes_of_rows_of_others_and_removed_files_are_complained_of(kit: LakeKit, planes: TableInfo) -> None:
    ours = written(kit, planes, rows(kit, 0, 10))
    committed(kit, planes, [ours])
    of_ours = committed(kit, planes, [positions(kit, planes, ours, 1)])
    assert kit.lake.foreign_snapshot(planes, kit.view(planes), of_ours, {}).has_clean_rows
    [added] = clean_rows(kit, planes, of_ours)
    assert added.complaint == "its deletes name rows that it did not write, or rows twice"
    gone = committed(kit, planes, [written(kit, planes, rows(kit, 0, 3))], replaced=frozenset({(0,)}))
    [added] = clean_rows(kit, planes, gone)
    assert added.complaint == "it removed data files without rewriting their rows"


def test_files_that_cannot_be_compared_are_refused(kit: LakeKit, planes: TableInfo) -> None:
    file = written(kit, planes, rows(kit, 0, 3))
    orc = DataFile.from_args(
        content=DATA,
        file_path=file.file_path,
        file_format=FileFormat.ORC,
        partition=Record(0),
        record_count=3,
        file_size_in_bytes=1,
        equality_ids=None,
    )
    orc.spec_id = file.spec_id
    in_orc = committed(kit, planes, [orc])
    with pytest.raises(SchemaDrift, match="cannot be compared with the log"):
        clean_rows(kit, planes, in_orc)
    by_name = written(kit, planes, rows(kit, 0, 3), BY_KEY)
    by_name.equality_ids[0] = 2  # type: ignore[index]
    with pytest.raises(SchemaDrift, match="do not use its key"):
        clean_rows(kit, planes, committed(kit, planes, [by_name]))
