"""The rows that snapshots of Fluss's own tiering added to a clean Paimon table, as sums per bucket, or per partition where buckets share
files."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from support.flink.flink_paimon_files import FlinkPaimonFiles
from support.lake_kinds.by_hand import PaimonByHand
from support.lakes.paimon_kit import B0, COLUMNS, CREATED, PaimonKit, overwrite
from tiering.errors import DataCorrupt, SchemaDrift
from tiering.lake.foreign import CleanRows
from tiering.lake.paimon.reading.clean_rows import OUT_OF_ORDER, REMOVES_FILES
from tiering.lake.proof.change_sums import ChangeSums, RowSum, sum_of_hashes
from tiering.lake.proof.row_checksum import row_checksum, row_hashes
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TableType

CLEAN = {"table.datalake.layout": "clean"}
B1 = BucketKey(None, 1)
INSERT, BEFORE, AFTER, DELETE = ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE
Change = tuple[ChangeType, int, str]
FIRST: tuple[Change, ...] = tuple((INSERT, key, "first") for key in range(5))
SECOND: tuple[Change, ...] = (
    (BEFORE, 1, "first"),
    (AFTER, 1, "second"),
    (DELETE, 2, "first"),
    (INSERT, 9, "second"),
    (BEFORE, 1, "second"),
    (AFTER, 1, "third"),
    (DELETE, 9, "second"),
)


def rows(ids: range | list[int], name: str = "x") -> pa.Table:
    return pa.table({"id": list(ids), "name": [name] * len(ids)}, schema=COLUMNS)


def changed(table: TableInfo, *changes: Change) -> pa.Table:
    """Returns the changes in the form of a split reader."""
    system = {"__bucket": 0, "__timestamp": CREATED}
    entries = [
        {"id": key, "name": name, **system, "__offset": offset, "__change_type": int(kind)}
        for offset, (kind, key, name) in enumerate(changes)
    ]
    return pa.Table.from_pylist(entries, schema=table.read_schema())


def of(*pairs: tuple[int, str]) -> RowSum:
    data = pa.table({"id": [key for key, _ in pairs], "name": [name for _, name in pairs]}, schema=COLUMNS)
    return RowSum(len(pairs), row_checksum(data))


def keys(*values: int) -> RowSum:
    return sum_of_hashes(row_hashes(pa.record_batch({"id": pa.array(values, pa.int64())})))


def added(kit: PaimonKit, table: TableInfo, data: dict[BucketKey, pa.Table], writer: FlinkPaimonFiles | None = None) -> int:
    """A snapshot of the other service."""
    return (writer or FlinkPaimonFiles(table, kit.view(table))).commit(kit.view(table), data, {})


def summed(kit: PaimonKit, table: TableInfo, *snapshot_ids: int, **partitions: int) -> list[CleanRows]:
    return list(kit.lake.clean_rows(table, kit.view(table), snapshot_ids, partitions))


@pytest.fixture
def log(kit: PaimonKit) -> TableInfo:
    table = kit.log_table(properties=CLEAN)
    kit.tier(table, "r1", [1])
    return table


@pytest.fixture
def planes(kit: PaimonKit) -> TableInfo:
    log = kit.log_table(name="planes", bucket_count=1, properties=CLEAN)
    table = replace(log, table_type=TableType.PRIMARY_KEY, primary_key=("id",))
    kit.lake.ensure_table(table)
    return table


def test_rows_of_several_snapshots_and_buckets_are_summed_together(kit: PaimonKit, log: TableInfo) -> None:
    first = added(kit, log, {B0: rows(range(10)), B1: rows(range(20, 23))})
    second = added(kit, log, {B0: rows([10])})
    assert kit.lake.foreign_snapshot(log, kit.view(log), first, {}).has_clean_rows
    [scope] = summed(kit, log, first, second)
    both = of(*[(key, "x") for key in (*range(11), 20, 21, 22)])
    assert scope == CleanRows(None, None, ChangeSums(both, living=both))


def test_buckets_are_scopes_where_a_key_tells_them(kit: PaimonKit) -> None:
    table = kit.log_table(properties=CLEAN, bucket_keys=("id",))
    kit.lake.ensure_table(table)
    scopes = summed(kit, table, added(kit, table, {B0: rows([1, 2]), B1: rows([3])}))
    assert {scope.bucket_id: scope.sums.written for scope in scopes} == {0: of((1, "x"), (2, "x")), 1: of((3, "x"))}


def written_by_pypaimon(kit: PaimonKit, table: TableInfo, data: pa.Table, **options: str) -> int:
    builder = kit.by_pypaimon(table).copy(options).new_batch_write_builder()
    writer = builder.new_write()
    writer.write_arrow(data)
    builder.new_commit().commit(writer.prepare_commit())
    head = kit.view(table).head
    assert head is not None
    return head


def test_partitions_are_scopes_and_one_that_is_gone_is_left_out(kit: PaimonKit) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False)])
    table = kit.log_table(columns, "visits", partition_keys=("region",), properties=CLEAN)
    kit.lake.ensure_table(table)
    data = pa.table({"id": [1, 2, 3], "region": ["north", "south", "gone"]}, schema=columns)
    scopes = summed(kit, table, written_by_pypaimon(kit, table, data), north=17, south=18)
    expected = {number: RowSum(1, row_checksum(data.slice(place, 1))) for place, number in enumerate((17, 18))}
    assert {scope.partition_id: scope.sums.written for scope in scopes} == expected
    assert {scope.bucket_id for scope in scopes} == {None}


@pytest.mark.parametrize("is_followed", [True, False])
def test_the_newest_change_of_a_key_counts_and_files_of_all_changes_tell_the_rest(
    kit: PaimonKit, planes: TableInfo, is_followed: bool
) -> None:
    """Each commit has two sorted runs that name the same keys."""
    writers = []
    for changes in (FIRST, SECOND):
        kit.by_pypaimon(planes)
        writer = FlinkPaimonFiles(planes, kit.view(planes))
        writer.follows = is_followed
        writers.append(added(kit, planes, {B0: changed(planes, *changes)}, writer))
    if not is_followed:
        schema = kit.folder(planes) / "schema" / "schema-0"
        schema.write_text(schema.read_text().replace('"changelog-producer": "input"', '"changelog-producer": "none"'))
    [scope] = summed(kit, planes, *writers)
    first = [(key, "first") for key in range(5)]
    written, deleted = of(*first, (1, "second"), (9, "second"), (1, "third")), keys(1, 2, 1, 9)
    living, gone = of((0, "first"), (1, "third"), (3, "first"), (4, "first")), keys(2, 9)
    expected = ChangeSums(written, deleted, living, gone) if is_followed else ChangeSums(None, None, living, gone)
    assert scope == CleanRows(None, 0, expected)
    assert sorted(kit.read(planes).to_pylist(), key=lambda row: row["id"])[1] == {"id": 1, "name": "third"}


def test_a_table_that_should_have_files_of_all_changes_and_has_none_does_not_pass_as_one_without(kit: PaimonKit, planes: TableInfo) -> None:
    writer = FlinkPaimonFiles(planes, kit.view(planes))
    writer.follows = False
    [scope] = summed(kit, planes, added(kit, planes, {B0: changed(planes, *FIRST)}, writer))
    assert (scope.sums.written, scope.sums.living.rows) == (RowSum(), 5)


def test_a_key_that_is_gone_counts_again_behind_a_compaction_that_lowers_sequence_numbers(kit: PaimonKit, planes: TableInfo) -> None:
    """A compaction leaves deletes out, and with them the highest numbers: later ones begin below them, and count all the same."""
    first = added(kit, planes, {B0: changed(planes, *FIRST, *((DELETE, key, "first") for key in range(5)))})
    overwrite(kit, planes, rows([77]))
    again = added(kit, planes, {B0: changed(planes, (INSERT, 3, "again"))})
    [scope] = summed(kit, planes, first, again)
    assert (scope.complaint, scope.sums.living) == ("", of((3, "again")))
    assert scope.sums.gone == keys(0, 1, 2, 4)


def test_changes_that_do_not_follow_what_stood_there_are_complained_of(kit: PaimonKit, planes: TableInfo) -> None:
    late = FlinkPaimonFiles(planes, kit.view(planes))
    first = added(kit, planes, {B0: changed(planes, *FIRST)})
    second = added(kit, planes, {B0: changed(planes, *SECOND)}, late)
    assert [scope.complaint for scope in summed(kit, planes, first)] == [""]
    assert [scope.complaint for scope in summed(kit, planes, second)] == [OUT_OF_ORDER]
    assert [scope.complaint for scope in summed(kit, planes, first, second)] == [OUT_OF_ORDER]


def test_a_bucket_that_one_commit_holds_twice_is_complained_of(kit: PaimonKit, planes: TableInfo) -> None:
    changes = changed(planes, *FIRST)
    doubled = added(kit, planes, {B0: changes, BucketKey(99, 0): changes})
    assert [scope.complaint for scope in summed(kit, planes, doubled)] == [OUT_OF_ORDER]


def test_what_removes_rows_is_complained_of(kit: PaimonKit, log: TableInfo) -> None:
    overwrite(kit, log, rows([7]))
    head = kit.view(log).head
    assert head is not None
    looked_at = kit.lake.foreign_snapshot(log, kit.view(log), head, {})
    assert (looked_at.has_clean_rows, looked_at.is_rewrite) == (True, False)
    [scope] = summed(kit, log, head)
    assert scope.complaint in (REMOVES_FILES, "it made a commit of the kind OVERWRITE")


def test_a_column_that_came_later_is_null_in_older_files_and_one_the_lake_lacks_in_all(kit: PaimonKit, log: TableInfo) -> None:
    older = added(kit, log, {B0: rows([5])})
    kit.lake.ensure_table(replace(log, schema=COLUMNS.append(pa.field("note", pa.string()))))
    newest = replace(log, schema=COLUMNS.append(pa.field("note", pa.string())).append(pa.field("size", pa.int32())))
    [scope] = summed(kit, newest, older)
    assert scope.sums.written == of((5, "x"))  # NULL adds nothing to a checksum


def refusal(kit: PaimonKit, table: TableInfo, snapshot_id: int) -> str:
    with pytest.raises((SchemaDrift, DataCorrupt)) as refused:
        summed(kit, table, snapshot_id)
    return refused.value.message


def test_files_that_cannot_be_compared_are_refused(kit: PaimonKit, log: TableInfo) -> None:
    in_orc = written_by_pypaimon(kit, log, rows([5]), **{"file.format": "orc"})
    assert "which is not a Parquet file in the table's folder: its rows cannot be compared with the log" in refusal(kit, log, in_orc)
    number = added(kit, log, {B0: rows([6])})
    PaimonByHand(kit.warehouse).drop_column(log.path, "name")
    PaimonByHand(kit.warehouse).add_text_column(log.path, "name")
    assert "which has a column that was renamed or dropped since" in refusal(kit, log, number)


def test_a_file_that_was_changed_is_refused(kit: PaimonKit, log: TableInfo) -> None:
    number = added(kit, log, {B0: rows([6])})
    [file] = (path for path in kit.folder(log).rglob("data-*.parquet"))
    pa.parquet.write_table(rows([6, 7]), file)  # type: ignore[attr-defined]
    assert "has 2 rows; the lake table says 1" in refusal(kit, log, number)


def test_a_snapshot_that_expired_meanwhile_is_refused(kit: PaimonKit, log: TableInfo) -> None:
    number = added(kit, log, {B0: rows([6])})
    kit.expire(log, number)
    assert f"lost its snapshot {number}, or the one before it" in refusal(kit, log, number)
