"""Some changes must not become a snapshot of a primary-key table: wrong changes, deletes of rows that moved, two writers of a bucket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import IdentityTransform

from support.clusters.primary_key_table import PRIMARY_KEY_SCHEMA, PrimaryKeyTable, primary_key_info
from tiering.errors import BaseMoved, BucketStopped, DataCorrupt, InvalidArgument, InvalidData, RoundFailed, SchemaDrift, UnsupportedType
from tiering.lake.base import LakeWriter, WriterInitContext
from tiering.lake.iceberg.primary_key import bucket_files as bases
from tiering.lake.iceberg.schema.layout import table_layout
from tiering.lake.rules.base_check import Base, CommitOutcome, resolve_commit
from tiering.lake.writing.packed import Packed
from tiering.model.tables import BucketKey, ChangeType, TableInfo

B0 = BucketKey(None, 0)


@pytest.fixture
def table(kit: Any) -> PrimaryKeyTable:
    table = PrimaryKeyTable(kit, primary_key_info("orders", bucket_count=1))
    table.put(*table.rows(100))
    table.tier("r1")
    return table


def writer_of(table: PrimaryKeyTable, base: bytes = b"") -> LakeWriter:
    view = table.kit.lake.ensure_table(table.info)
    context = WriterInitContext(table.info, view.table_uuid, B0, None, "wrong", "n", base)
    return table.kit.lake.tiering_factory(table.info).create_writer(context)


# --- wrong changes


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([(ChangeType.INSERT, 100, {"id": None})], "stands at offset 100: its column 'id' is NOT NULL and has no value"),
        ([(ChangeType.INSERT, 100, {"id": 1}), (ChangeType.APPEND, 101, {"id": 2})], "the row at offset 101 has the change type 0"),
        ([(9, 100, {"id": 1})], "the change type 9"),
        ([(ChangeType.INSERT, 100, {"id": 1}), (ChangeType.INSERT, 100, {"id": 2})], "the offsets 100 to 100"),
        ([(ChangeType.INSERT, -1, {"id": 1}), (ChangeType.INSERT, 7, {"id": 2})], "KV snapshot"),
        ([(ChangeType.DELETE, -1, {"id": 1})], "KV snapshot"),
    ],
    ids=["null key", "append", "unknown type", "offset twice", "mixed", "deleted in a snapshot"],
)
def test_wrong_changes_are_named_and_leave_the_lake_alone(table: PrimaryKeyTable, records: Any, complaint: str) -> None:
    files = sorted(table.kit.folder.rglob("*.parquet"))
    nullable = replace(table.info, schema=pa.schema([field.with_nullable(True) for field in PRIMARY_KEY_SCHEMA]))
    batch = PrimaryKeyTable(table.kit, nullable).encode(B0, records)
    writer = writer_of(table)
    with pytest.raises((BucketStopped, DataCorrupt), match=complaint):
        writer.write(batch)
    writer.abort()
    assert sorted(table.kit.folder.rglob("*.parquet")) == files
    table.put(*table.rows(5, name="later"))
    table.tier("r2")
    table.check()


def test_a_kv_snapshot_after_the_log_is_refused(table: PrimaryKeyTable) -> None:
    writer = writer_of(table)
    writer.write(table.batch(B0, 0, 10))
    with pytest.raises(DataCorrupt, match="after the offset 9"):
        writer.write(table.snapshot_batch(B0, table.rows(3)))


def test_rows_without_change_types_are_refused(table: PrimaryKeyTable) -> None:
    with pytest.raises(InvalidData, match="__change_type"):
        writer_of(table).write(table.batch(B0, 0, 10).drop_columns(["__change_type"]))


def test_a_data_file_that_was_changed_is_not_believed(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(5, name="later"))
    [path] = [path for path in table.kit.folder.rglob("*.parquet") if "r1" in path.name]
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(DataCorrupt, match="has 99 rows; the lake table says 100"):
        table.prepare("r2")


@pytest.mark.parametrize(
    ("changes", "error", "complaint"),
    [
        ({"schema": pa.schema([pa.field("id", pa.int64()), PRIMARY_KEY_SCHEMA.field("name")])}, InvalidArgument, "'id' is nullable"),
        ({"schema": pa.schema([pa.field("id", pa.float64(), nullable=False)])}, UnsupportedType, "'id' of type double"),
        ({"schema": pa.schema([pa.field("id", pa.list_(pa.int64()), nullable=False)])}, UnsupportedType, "'id' of type list"),
        ({"primary_key": ("nothing",)}, InvalidArgument, "no column 'nothing'"),
        ({"primary_key": ()}, InvalidArgument, "no key columns"),
        ({"partition_keys": ("name",)}, InvalidArgument, "'name' of sales.orders is not part"),
    ],
)
def test_a_key_that_no_lake_table_can_have_is_named(changes: dict[str, Any], error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        table_layout(TableInfo(**{**vars(primary_key_info("orders")), **changes}))


# --- a base that moved


def test_rows_that_a_user_adds_meanwhile_are_looked_up_too(table: PrimaryKeyTable, observed: Any) -> None:
    table.put(*table.rows(1, start=500, name="ours"))
    prepared = table.prepare("r2")
    theirs = table.encode(B0, [(0, 900, {"id": 500, "name": "theirs"})]).drop_columns(["__change_type"])
    table.kit.catalog().load_table(str(table.info.path)).append(pa.Table.from_batches([theirs]))
    catalogs: list[Any] = []
    watched = prepared.with_catalog(lambda catalog: catalogs.append(observed(catalog)) or catalogs[0])
    with pytest.raises(BaseMoved):
        watched.commit(base=table.kit.view(table.info))
    assert not catalogs[0].requests
    prepared.committer().abort(prepared.committable)
    table.tier("r2")
    table.check()


def test_a_file_that_a_user_rewrote_is_looked_up_again(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(3, name="ours"))
    prepared = table.prepare("r2")
    user = table.kit.catalog().load_table(str(table.info.path))
    user.overwrite(user.scan().to_arrow())
    with pytest.raises(BaseMoved):
        prepared.commit(base=table.kit.view(table.info))
    table.tier("r2")
    table.check()


def test_a_foreign_commit_to_another_bucket_does_not_matter(kit: Any) -> None:
    table = PrimaryKeyTable(kit, primary_key_info("two"))
    table.put(*table.rows(100))
    table.tier("r1")
    table.put(*(row for row in table.rows(20, name="ours") if table._hashed(row)[0] == B0))
    prepared = table.prepare("r2", {B0: len(table.logs[B0])})
    [row] = [row for row in table.rows(50, start=700) if table._hashed(row)[0] != B0][:1]
    theirs = table.encode(BucketKey(None, 1), [(0, 900, row)]).drop_columns(["__change_type"])
    kit.catalog().load_table(str(table.info.path)).append(pa.Table.from_batches([theirs]))
    prepared.commit(base=kit.view(table.info))
    assert [row for row in table.in_lake() if row["__offset"] != 900] == table.expected()


def test_a_new_bucket_in_which_rows_turned_up_is_looked_at_again(kit: Any) -> None:
    table = PrimaryKeyTable(kit, primary_key_info("orders", bucket_count=1))
    table.put(*table.rows(10))
    prepared = table.prepare("r1")
    theirs = table.encode(B0, [(0, 900, {"id": 3})]).drop_columns(["__change_type"])
    kit.catalog().load_table(str(table.info.path)).append(pa.Table.from_batches([theirs]))
    with pytest.raises(BaseMoved):
        prepared.commit(base=kit.view(table.info))


def test_of_two_stale_rounds_one_lands(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(60, name="new"))
    view = table.kit.view(table.info)
    late, early = table.prepare("late", view=view), table.prepare("early", {B0: 104}, view=view)
    early.commit()
    with pytest.raises(Exception, match="outcome is unknown"):
        late.commit()
    assert resolve_commit(table.kit.view(table.info), "late", Base(view, view.marker, False)).outcome is CommitOutcome.OTHER_ROUND
    table.check()
    table.tier("next")
    table.check()


def test_two_writers_of_one_bucket_in_a_round_are_refused(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(4, name="new"))
    view = table.kit.view(table.info)
    base = table.kit.lake.bucket_files(table.info, view, {B0: None})[B0]
    prepared = table.prepare("r2")
    results = [table.write(table.kit.lake, view, "r2", B0, *part, base) for part in ((100, 104), (104, 108))]
    twice = replace(prepared, committable=replace(prepared.committable, results=tuple(results)))
    with pytest.raises(RoundFailed, match="two writers"):
        twice.commit()


# --- files


def test_an_abort_deletes_data_and_delete_files(table: PrimaryKeyTable) -> None:
    before = sorted(table.kit.folder.rglob("*.parquet"))
    table.put(*table.rows(5, name="later"))
    prepared = table.prepare("r2")
    assert len(list(table.kit.folder.rglob("*.parquet"))) == len(before) + 2
    prepared.committer().abort(prepared.committable)
    assert sorted(table.kit.folder.rglob("*.parquet")) == before


def test_a_failed_writer_deletes_what_it_wrote(table: PrimaryKeyTable, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(table.kit.folder.rglob("*.parquet"))
    table.put(*table.rows(5, name="later"))
    base = table.kit.lake.bucket_files(table.info, table.kit.view(table.info), {B0: None})[B0]
    writer = writer_of(table, base)
    writer.write(table.batch(B0, 100, 110))

    def full(*_: Any, **__: Any) -> Any:
        raise OSError("No space left on device")

    monkeypatch.setattr("tiering.lake.iceberg.primary_key.writer.write_deletes", full)
    with pytest.raises(Exception, match="No space left"):
        writer.complete(100, 110)
    assert len(list(table.kit.folder.rglob("*.parquet"))) > len(before)
    writer.abort()
    assert sorted(table.kit.folder.rglob("*.parquet")) == before


def test_the_sweep_knows_delete_files_and_keeps_the_live_ones(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(5, name="later"))
    view = table.tier("r2")
    table.put(*table.rows(5, name="never"))
    prepared = table.prepare("dead")
    lake = table.kit.lake
    live = lake.live_files(view)
    stored = {file.location: file.name for file in lake.stored_files(view)}
    assert {Path(path).name for path in live if "-r2-" in path and path.endswith(".parquet")} == {
        name for name in stored.values() if name.startswith("lakeward-r2-") and name.endswith(".parquet")
    }
    left = [path for path, name in stored.items() if name.startswith("lakeward-dead-")]
    assert len(left) == 2
    assert not set(left) & set(live)
    prepared.commit()
    assert set(left) <= set(lake.live_files(table.kit.view(table.info)))


def test_files_of_a_former_partition_spec_are_refused_by_name(table: PrimaryKeyTable) -> None:
    iceberg = table.kit.catalog().load_table(str(table.info.path))
    with iceberg.update_spec() as update:
        update.add_field("__bucket", IdentityTransform(), "extra")
    iceberg.append(pa.Table.from_batches([table.encode(B0, [(0, 900, {"id": 500})]).drop_columns(["__change_type"])]))
    with iceberg.update_spec() as update:
        update.remove_field("extra")
    table.put(*table.rows(5, name="later"))
    with pytest.raises(SchemaDrift, match="former partition spec"):
        table.prepare("r2")


# --- what travels, and what the rows do not tell


def test_a_base_travels_whole() -> None:
    files = tuple(bases.LiveFile(f"file:///a/ö{number}", number, 2 * number) for number in range(3))
    base = bases.BucketFiles(5, files[:1], files[1:2], files[2:])
    assert bases.decode_bucket_files(bases.encode_bucket_files(base)) == base
    assert bases.decode_bucket_files(b"") == bases.NOTHING
    assert base.digest() != base.data_digest() == bases.BucketFiles(6, files[:1]).data_digest()
    with pytest.raises(ValueError, match="cannot be decompressed"):
        bases.decode_bucket_files(b"nonsense")


def test_an_unknown_version_of_a_base_is_named() -> None:
    newer = Packed(bases.BucketFiles, "the files of a bucket", version=9).encode(bases.NOTHING)
    with pytest.raises(ValueError, match="version 9"):
        bases.decode_bucket_files(newer)


def test_of_a_primary_key_table_manifests_tell_where_rows_stand(table: PrimaryKeyTable) -> None:
    assert table.kit.lake.row_offsets(table.info, table.kit.view(table.info), {}).places == {(None, 0)}
    table.kit.catalog().load_table(str(table.info.path)).delete()
    assert not table.kit.lake.row_offsets(table.info, table.kit.view(table.info), {}).places
