"""Clean tables with several bucket keys: buckets share a partition value, and a user's compaction puts their rows into one file."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.clusters.primary_key_table import PrimaryKeyTable, TwoKeysTable, primary_key_info
from support.lakes.lake_kit import CLUSTER_ID
from tiering.errors import BaseMoved, DataCorrupt
from tiering.lake.base import Committable, WriterInitContext
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.primary_key import bucket_files as rewrite_rule
from tiering.lake.iceberg.primary_key.bucket_files import BucketFiles, decode_bucket_files
from tiering.lake.iceberg.reading import lake_parquet
from tiering.lake.iceberg.writing.data_files import decode_files
from tiering.lake.maintenance import Removal
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import advanced
from tiering.model.tables import BucketKey, TableInfo

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)


@pytest.fixture
def table(kit: Any) -> TwoKeysTable:
    table = TwoKeysTable(kit)
    table.put(*table.rows(400))
    table.tier("r1")
    return table


def bases(table: PrimaryKeyTable) -> dict[BucketKey, BucketFiles]:
    view = table.kit.view(table.info)
    encoded = table.kit.lake.bucket_files(table.info, view, table.partition_names)
    return {bucket: decode_bucket_files(base) for bucket, base in encoded.items()}


def bucket_rows(table: TwoKeysTable, bucket_id: int) -> list[dict[str, Any]]:
    return [row for row in table.in_lake() if table.bucket_of(row).bucket_id == bucket_id]


# --- whose a file is


def test_buckets_share_a_partition_value_and_footers_tell_their_files(table: TwoKeysTable) -> None:
    loaded = table.kit.catalog().load_table(str(table.info.path))
    assert loaded.spec().fields == ()
    assert sorted(footer["lakeward.bucket"] for footer in table.footers()) == ["0", "1"]
    table.put(*table.rows(30, name="new"))
    table.tier("r2")
    table.check()
    standing = bases(table)
    assert [(len(base.data), len(base.deletes), len(base.shared)) for base in standing.values()] == [(2, 1, 0), (2, 1, 0)]
    assert not {*standing[B0].data, *standing[B0].deletes} & {*standing[B1].data, *standing[B1].deletes}
    deletes = table.footers(content=1)
    assert sorted((footer["lakeward.bucket"], footer["lakeward.round"]) for footer in deletes) == [("0", "r2"), ("1", "r2")]
    assert sum(int(footer["lakeward.rows"]) for footer in deletes) == 30


def test_a_file_that_another_program_rewrote_counts_for_every_bucket(table: TwoKeysTable) -> None:
    table.compact()
    standing = bases(table)
    assert standing[B0].data == standing[B1].data
    assert standing[B0].shared == {standing[B0].data[0].location}
    assert standing[B0].own.data == ()


def test_footers_are_read_once(table: TwoKeysTable, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = lake_parquet.read_footer
    monkeypatch.setattr(lake_parquet, "read_footer", lambda io, file: read.append(file.file_path) or original(io, file))
    table.kit.lake = IcebergLake(table.kit.properties)
    first = bases(table)
    assert len(read) == 2
    assert bases(table) == first
    assert len(read) == 2
    table.put(*table.rows_of(0, 1, name="new"))
    table.tier("r2")
    bases(table)
    assert len(read) == 4  # the round's own file, and its deletes
    monkeypatch.setattr(lake_parquet, "REMEMBERED_FILES", 1)
    table.kit.lake = IcebergLake(table.kit.properties)
    bases(table)
    bases(table)
    assert len(read) == 4 + 4 + 3


def test_a_file_of_another_lake_table_stands_in_every_bucket(table: TwoKeysTable) -> None:
    """Whatever its footer says: its rows may be of any bucket here."""
    other = TwoKeysTable(table.kit, "other", bucket_count=1)
    other.put(*other.rows(5, start=900))
    other.tier("o1")
    loaded = table.kit.catalog().load_table(str(table.info.path))
    loaded.add_files([entry["file_path"] for entry in other.files()])
    standing = bases(table)
    assert len(standing[B0].shared) == len(standing[B1].shared) == 1
    table.put(*table.rows(5, start=900, name="ours"))
    table.tier("r2")
    table.check()


# --- rounds after a compaction


def test_deletes_of_two_buckets_on_one_file_both_land(table: TwoKeysTable) -> None:
    table.compact()
    table.put(*table.rows(40, name="new"))
    table.delete(*table.rows(20, start=100))
    prepared = table.prepare("r2")
    payloads = [decode_files(result.payload) for result in prepared.committable.results]
    assert all(result.deletes > 0 for result in prepared.committable.results)
    assert sum(result.deletes for result in prepared.committable.results) == 60
    assert [payload.change is not None and payload.change.rewritten for payload in payloads] == [False, False]
    prepared.commit()
    table.check()
    [compacted] = [entry["file_path"] for entry in table.files() if "lakeward" not in entry["file_path"].rsplit("/", 1)[1]]
    named = [named_files(entry["file_path"]) for entry in table.files(content=1)]
    assert named == [{compacted}, {compacted}]


def named_files(location: str) -> set[str]:
    return set(pq.read_table(location.removeprefix("file://"), partitioning=None)["file_path"].to_pylist())


def test_a_bucket_that_merges_its_deletes_leaves_those_of_others(table: TwoKeysTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else rows that others deleted in a file of all buckets would come back."""
    monkeypatch.setattr(rewrite_rule, "MANY_DELETE_FILES", 2)
    monkeypatch.setattr(rewrite_rule, "DEAD_SHARE", 1.1)
    table.compact()
    table.delete(*table.rows_of(1, 10))
    table.tier("r2")
    table.check()
    for number in range(5):
        table.put(*table.rows_of(0, 4, start=number * 20, name=f"changed {number}"))
        table.tier(f"r{number + 3}")
        table.check()
    assert sorted(footer["lakeward.bucket"] for footer in table.footers(content=1)) == ["0", "1"]


def test_a_bucket_that_is_rewritten_leaves_files_of_others_and_shared_ones(table: TwoKeysTable) -> None:
    table.compact()
    table.put(*table.rows_of(0, 60, name="second"), *table.rows_of(1, 5, name="second"))
    table.tier("r2")
    table.put(*table.rows_of(0, 60, name="third"))
    prepared = table.prepare("r3")
    changes = [decode_files(result.payload).change for result in prepared.committable.results]
    assert [change is not None and change.rewritten for change in changes if change is not None and change.bucket == 0] == [True]
    prepared.commit()
    table.check()
    # The compacted file, bucket 1's, and the new one of bucket 0; what deletes rows of the compacted one stays, too.
    assert sorted(footer.get("lakeward.bucket", "") for footer in table.footers()) == ["", "0", "1"]
    assert sorted(footer["lakeward.bucket"] for footer in table.footers(content=1)) == ["0", "1"]
    table.put(*table.rows(50, name="fourth"))
    table.tier("r4")
    table.check()


def test_deletes_of_a_user_are_seen_and_never_taken_away(table: TwoKeysTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delete file of another writer may name rows of any bucket, in any file."""
    monkeypatch.setattr(rewrite_rule, "MANY_DELETE_FILES", 1)
    table.put(*table.rows(30, name="new"))
    table.tier("r2")
    strip_delete_footers(table)
    assert [len(base.shared) for base in bases(table).values()] == [2, 2]
    for number in range(3):
        table.put(*table.rows_of(number % 2, 20, name=f"changed {number}"))
        table.delete(*table.rows_of(1, 5, start=200))
        table.tier(f"r{number + 3}")
        table.check()
    assert sum(not footer for footer in table.footers(content=1)) == 2


def strip_delete_footers(table: TwoKeysTable) -> None:
    """Makes the delete files look like another writer's; the catalog is not informed, nor our cache of footers."""
    for entry in table.files(content=1):
        path = entry["file_path"].removeprefix("file://")
        rows = pq.read_table(path, partitioning=None)
        pq.write_table(rows.replace_schema_metadata(None), path)
    table.kit.lake = IcebergLake(table.kit.properties)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_kv_snapshot_replaces_the_rows_of_its_bucket_alone(table: TwoKeysTable, is_compacted: bool) -> None:
    table.put(*table.rows(20, name="second"))
    table.tier("r2")
    if is_compacted:
        table.compact()
    table.put(*table.rows_of(0, 10, name="third"), *table.rows_of(1, 10, name="third"))
    table.tier("r3")
    others = bucket_rows(table, 1)
    assert len(bucket_rows(table, 0)) + len(others) == 400
    view = table.kit.lake.ensure_table(table.info)
    base = table.kit.lake.bucket_files(table.info, view, {B0: None})[B0]
    snapshot = table.rows_of(0, 7, start=5_000)
    writer = writer_of(table, "r4", base, replaces=True)
    writer.write(table.snapshot_batch(B0, snapshot))
    result = writer.complete(len(table.logs[B0]), len(table.logs[B0]))
    commit(table, "r4", result)
    assert bucket_rows(table, 1) == others
    assert bucket_rows(table, 0) == sorted(snapshot, key=lambda row: row["id"])
    assert table.kit.view(table.info).records == len(others) + 7
    table.put(*table.rows_of(1, 30, name="after"))
    table.tier("r5")
    assert len(table.in_lake()) == len(others) + 7


def writer_of(table: TwoKeysTable, round_id: str, base: bytes, *, replaces: bool = False) -> Any:
    view = table.kit.view(table.info)
    context = WriterInitContext(table.info, view.table_uuid, B0, None, round_id, "n", base, replaces)
    return table.kit.lake.tiering_factory(table.info).create_writer(context)


def commit(table: TwoKeysTable, round_id: str, *results: Any) -> None:
    view = table.kit.view(table.info)
    assert view.marker is not None
    after = {**view.marker.buckets, **{result.bucket: TieredRange(0, result.reached_offset) for result in results}}
    proofs = advanced(view.marker.proofs, view.marker.buckets, after, results, round_id)
    marker = Marker(CLUSTER_ID, table.info.table_id, view.table_uuid, round_id, 1, view.marker.round_id, after, proofs=proofs)
    factory = table.kit.lake.tiering_factory(table.info)
    factory.create_committer().commit(Committable(round_id, tuple(results)), view, marker)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_bucket_that_is_emptied_loses_its_rows_and_no_others(table: TwoKeysTable, is_compacted: bool) -> None:
    if is_compacted:
        table.compact()
    table.put(*table.rows_of(0, 10, name="second"), *table.rows_of(1, 10, name="second"))
    table.tier("r2")
    others = bucket_rows(table, 1)
    view = table.kit.view(table.info)
    removal = Removal({B0: (None, 0)}, emptied=frozenset([B0]))
    results = table.kit.lake.remove_rows(table.info, view, "r3", removal)
    assert [result.bucket for result in results] == [B0]
    assert view.marker is not None
    buckets = {B1: view.marker.buckets[B1]}
    marker = Marker(CLUSTER_ID, table.info.table_id, view.table_uuid, "r3", 1, "r2", buckets, proofs={B1: view.marker.proofs[B1]})
    table.kit.lake.tiering_factory(table.info).create_committer().commit(Committable("r3", tuple(results)), view, marker)
    assert table.in_lake() == others
    assert table.kit.view(table.info).records == len(others)
    survey = table.kit.lake.row_offsets(table.info, table.kit.view(table.info), {})
    assert survey.places == ({(None, 0), (None, 1)} if is_compacted else {(None, 1)})
    table.put(*table.rows_of(1, 5, name="third"))
    table.tier("r4", {B1: len(table.logs[B1])})
    assert len(table.in_lake()) == len(others)


# --- a base that moved


def test_a_file_that_a_user_wrote_anew_meanwhile_is_looked_at_again(table: TwoKeysTable) -> None:
    table.put(*table.rows_of(0, 3, name="ours"))
    prepared = table.prepare("r2")
    table.compact()
    with pytest.raises(BaseMoved):
        prepared.commit(base=table.kit.view(table.info))
    table.tier("r2")
    table.check()


def test_a_foreign_commit_to_another_partition_does_not_matter(kit: Any) -> None:
    table = TwoKeysTable(kit, is_partitioned=True)
    table.put(*table.rows(200))
    table.tier("r1")
    table.check()
    north = [row for row in table.rows(40, name="ours") if row["region"] == "north"]
    table.put(*north)
    prepared = table.prepare("r2", {bucket: len(log) for bucket, log in table.logs.items() if bucket.partition_id == 11})
    theirs = {"id": 900, "city": "Bern", "name": "theirs", "region": "south"}
    loaded = kit.catalog().load_table(str(table.info.path))
    loaded.append(pa.Table.from_pylist([theirs], schema=table.info.schema))
    prepared.commit(base=kit.view(table.info))
    assert [row for row in table.in_lake() if row["id"] != 900] == table.expected()


def test_deletes_of_a_user_meanwhile_stop_a_bucket_that_is_rewritten(table: TwoKeysTable) -> None:
    """Else the rows would come back; a bucket that only adds and deletes goes on."""
    table.put(*table.rows_of(0, 100, name="second"))
    prepared = table.prepare("r2")
    changes = [decode_files(result.payload).change for result in prepared.committable.results]
    assert [change.rewritten for change in changes if change is not None] == [True]
    table.kit.catalog().load_table(str(table.info.path)).delete("id = 399")  # copy-on-write: files of both kinds change
    with pytest.raises(BaseMoved):
        prepared.commit(base=table.kit.view(table.info))


# --- what is refused


def test_rows_that_another_bucket_should_have_are_refused(table: TwoKeysTable) -> None:
    """Which rows of a shared file are a bucket's is told by this hash when the bucket is replaced."""
    writer = writer_of(table, "wrong", b"")
    with pytest.raises(DataCorrupt, match="a key in column 'id', 'city' does not hash to this bucket"):
        writer.write(table.snapshot_batch(B0, table.rows_of(1, 3)))
    writer.abort()


def test_a_table_of_one_bucket_key_still_has_it_in_its_partitions(kit: Any) -> None:
    info: TableInfo = primary_key_info("single", properties={"table.datalake.layout": "clean"})
    table = PrimaryKeyTable(kit, info)
    table.put(*table.rows(40))
    table.tier("r1")
    table.check()
    assert [field.name for field in kit.catalog().load_table("sales.single").spec().fields] == ["id_bucket"]
