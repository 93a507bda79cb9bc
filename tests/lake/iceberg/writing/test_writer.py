"""Data files: how many, how big, whose; and rows that must not become part of one."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.lakes.lake_files import B0, B1, commit, context, write
from tiering.errors import BucketStopped, DataCorrupt, InvalidArgument, InvalidData, LakeTableReplaced, LakeUnavailable
from tiering.lake.iceberg.writing.data_files import decode_files
from tiering.lake.writing import parquet_stream
from tiering.lake.writing.encodings import choose_encodings
from tiering.lake.writing.serializers import deserialize_write_result, serialize_write_result

# --- files


def test_a_split_without_rows_leaves_no_file(kit: Any) -> None:
    table = kit.table()
    result = write(kit, table, kit.rows(table, B0, 0, 0), stop=5)
    assert (result.records, result.files, result.reached_offset) == (0, 0, 5)
    assert not list(kit.folder.rglob("*.parquet"))


def test_many_small_batches_become_one_row_group(kit: Any) -> None:
    table = kit.table()
    result = write(kit, table, *(kit.rows(table, B0, number * 10, number * 10 + 10) for number in range(50)))
    (file,) = decode_files(result.payload).files
    assert pq.read_metadata(file.file_path.removeprefix("file://")).num_row_groups == 1


def test_memory_is_bounded_by_a_row_group(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_stream, "ROW_GROUP_ROWS", 100)
    table = kit.table()
    result = write(kit, table, *(kit.rows(table, B0, number * 60, number * 60 + 60) for number in range(10)))
    (file,) = decode_files(result.payload).files
    metadata = pq.read_metadata(file.file_path.removeprefix("file://"))
    assert max(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)) <= 100
    assert metadata.num_rows == 600


def test_files_end_at_the_tables_target_size(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_stream, "ROW_GROUP_ROWS", 1_000)
    table = kit.table(properties={"iceberg.write.target-file-size-bytes": "10000"})
    result = write(kit, table, kit.rows(table, B0, 0, 3_000), kit.rows(table, B0, 3_000, 9_000))
    iceberg = commit(kit, table, result)
    sizes = iceberg.inspect.files()["file_size_in_bytes"].to_pylist()
    assert result.files == len(sizes) > 1
    assert min(sizes[:-1]) >= 10_000
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(9_000)]


def test_two_attempts_of_one_split_never_share_a_file(kit: Any) -> None:
    table = kit.table()
    view = kit.lake.ensure_table(table)
    for nonce in ("first", "second"):
        writer = kit.lake.tiering_factory(table).create_writer(context(table, view, nonce=nonce))
        writer.write(kit.rows(table, B0, 0, 5))
        writer.complete(0, 5)
    assert len(list(kit.folder.rglob("*.parquet"))) == 2


def test_an_attempt_never_overwrites_a_file_that_is_there(kit: Any) -> None:
    table = kit.table()
    write(kit, table, kit.rows(table, B0, 0, 5))
    with pytest.raises(LakeUnavailable, match="exist"):
        write(kit, table, kit.rows(table, B0, 0, 5))


def test_an_abort_deletes_its_own_files_only_and_never_raises(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_stream, "ROW_GROUP_ROWS", 10)
    table = kit.table(properties={"iceberg.write.target-file-size-bytes": "100"})
    kit.tier(table, "r0", {B0: 5})
    view = kit.view(table)
    before = sorted(kit.folder.rglob("*.parquet"))
    writer = kit.lake.tiering_factory(table).create_writer(context(table, view))
    for number in range(5):
        writer.write(kit.rows(table, B0, number * 15, number * 15 + 15))
    assert len(list(kit.folder.rglob("*.parquet"))) > len(before) + 1
    next(iter(set(kit.folder.rglob("*.parquet")) - set(before))).unlink()
    writer.abort()
    writer.abort()
    assert sorted(kit.folder.rglob("*.parquet")) == before


def test_a_folder_that_cannot_be_written_is_the_lakes_trouble(kit: Any) -> None:
    table = kit.table()
    location = kit.lake.ensure_table(table).handle.location().removeprefix("file://")
    (Path(location) / "data").write_text("a file where the folder should be")
    with pytest.raises(LakeUnavailable, match=r"cannot write a data file of sales\.orders"):
        write(kit, table, kit.rows(table, B0, 0, 5))


# --- the factory


def test_the_factory_travels_and_leaves_the_catalogs_secrets_behind(kit: Any) -> None:
    table = kit.table()
    kit.properties.update({"password": "topsecret", "s3.secret-access-key": "storage-key"})
    lake = type(kit.lake)(kit.properties)
    view = lake.ensure_table(table)
    carried = pickle.dumps(lake.tiering_factory(table))
    assert b"topsecret" not in carried
    assert b"sqlite" not in carried
    assert b"storage-key" in carried
    assert "storage-key" not in repr(lake.tiering_factory(table))
    factory = pickle.loads(carried)
    writer = factory.create_writer(context(table, view))
    writer.write(kit.rows(table, B0, 0, 5))
    result = deserialize_write_result(serialize_write_result(writer.complete(0, 5)))
    commit(kit, table, result)
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(5)]
    with pytest.raises(InvalidArgument, match="on the driver"):
        factory.create_committer()


def test_a_writer_for_a_replaced_table_is_refused(kit: Any) -> None:
    table = kit.table()
    view = kit.lake.ensure_table(table)
    with pytest.raises(LakeTableReplaced):
        kit.lake.tiering_factory(table).create_writer(context(table, replace(view, table_uuid="another")))
    with pytest.raises(LakeTableReplaced):
        kit.lake.tiering_factory(kit.table("nowhere"))


# --- rows that must not be written


def test_rows_of_another_bucket_are_refused(kit: Any) -> None:
    table = kit.table()
    with pytest.raises(DataCorrupt, match="bucket 1"):
        write(kit, table, kit.rows(table, B1, 0, 5))


def test_rows_whose_key_hashes_elsewhere_are_refused(kit: Any) -> None:
    table = kit.table(bucket_keys=("id",), bucket_count=2)
    with pytest.raises(DataCorrupt, match="'id'"):
        write(kit, table, kit.rows(table, B0, 0, 50))


@pytest.mark.parametrize(
    ("ranges", "start", "stop"),
    [([(0, 5), (4, 8)], 0, 8), ([(5, 8), (0, 5)], 0, 8), ([(0, 5)], 1, 5), ([(0, 5)], 0, 4)],
    ids=["twice", "backwards", "before the start", "beyond the end"],
)
def test_rows_outside_of_the_splits_range_are_refused(kit: Any, ranges: list[tuple[int, int]], start: int, stop: int) -> None:
    table = kit.table()
    with pytest.raises(DataCorrupt, match="offsets"):
        write(kit, table, *(kit.rows(table, B0, *bounds) for bounds in ranges), start=start, stop=stop)


def test_a_null_in_a_required_column_is_refused(kit: Any) -> None:
    table = kit.table()
    rows = kit.rows(table, B0, 0, 3)
    wrong = rows.set_column(0, pa.field("id", pa.int64()), pa.array([1, None, 3], pa.int64()))
    with pytest.raises(BucketStopped, match="offset 1: its column 'id' is NOT NULL and has no value"):
        write(kit, table, wrong)


def test_a_column_that_is_missing_or_does_not_fit_is_named(kit: Any) -> None:
    table = kit.table()
    rows = kit.rows(table, B0, 0, 3)
    with pytest.raises(InvalidData, match="'name'"):
        write(kit, table, rows.drop_columns(["name"]))
    with pytest.raises(BucketStopped, match="its column 'small' does not fit"):
        write(kit, table, rows.set_column(2, pa.field("small", pa.int64()), pa.array([2**40] * 3)))


# --- encodings


def test_encodings_follow_type_and_repetition() -> None:
    count = 10_000
    sample = pa.table(
        {
            "long": pa.array(range(count)),
            "time": pa.array(range(count), pa.timestamp("us")),
            "unique": [f"value {n}" for n in range(count)],
            "repeated": [f"carrier {n % 15}" for n in range(count)],
            "measure": pa.array([n * 1.1 for n in range(count)]),
            "rate": pa.array([float(n % 4) for n in range(count)]),
            "flag": pa.array([n % 2 == 0 for n in range(count)]),
            "tags": pa.array([["x"]] * count),
            "nothing": pa.array([None] * count, pa.string()),
        }
    )
    chosen = choose_encodings(sample)
    assert chosen.dictionary == ["repeated", "rate", "nothing"]
    assert chosen.encoding == {"long": "DELTA_BINARY_PACKED", "time": "DELTA_BINARY_PACKED", "measure": "BYTE_STREAM_SPLIT"}
