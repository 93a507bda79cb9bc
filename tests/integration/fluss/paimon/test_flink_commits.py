"""Fluss 0.9.1 writes into a Paimon table and commits, with its own writer, committer and reader."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.clusters.fluss_tables import FlussTables
from support.fluss_paimon.flink_tiering import WHEN_MS, FlinkTiering, TieringError
from support.fluss_paimon.lake_files import LakeTable
from support.running.fluss_deployment import LAKE

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
LAST_IDENTIFIER = 2**63 - 1
"""Commit identifier of every commit of Fluss (Paimon, BatchWriteBuilder.COMMIT_IDENTIFIER)."""


def test_a_log_tables_buckets_share_a_folder_and_the_snapshot_names_user_and_offsets(
    tables: FlussTables, lake: LakeTable, flink: FlinkTiering
) -> None:
    table = tables.create("rows", SCHEMA, buckets=2, properties=LAKE)
    flink.plan(tables, table)
    for bucket in (0, 1):
        flink.write(bucket, [(offset, "APPEND_ONLY", [10 * bucket + offset, None]) for offset in range(2)])
    assert flink.commit("/remote/first.offsets") == 1
    (snapshot,) = lake("rows").snapshots()
    stated = {
        name: snapshot[name] for name in ("version", "commitUser", "commitIdentifier", "commitKind", "totalRecordCount", "properties")
    }
    assert stated == {
        "version": 3,
        "commitUser": "__fluss_lake_tiering",
        "commitIdentifier": LAST_IDENTIFIER,
        "commitKind": "APPEND",
        "totalRecordCount": 4,
        "properties": {"fluss-offsets": "/remote/first.offsets"},
    }
    rows = lake("rows").rows("**/*.parquet")
    places = {(row["__bucket"], row["__offset"], row["id"]) for row in rows["bucket-0"]}
    assert (rows.keys(), places) == ({"bucket-0"}, {(0, 0, 0), (0, 1, 1), (1, 0, 10), (1, 1, 11)})
    assert not (lake("rows").path / "tag").exists()
    tables.drop(table)


def test_a_primary_key_round_has_the_last_record_of_each_key_and_a_changelog_of_all(
    tables: FlussTables, lake: LakeTable, flink: FlinkTiering
) -> None:
    table = tables.create("keys_of_a_round", SCHEMA, ["id"], properties=LAKE)
    flink.plan(tables, table)
    changes = [("INSERT", [1, "a"]), ("INSERT", [2, "a"]), ("UPDATE_BEFORE", [1, "a"]), ("UPDATE_AFTER", [1, "b"]), ("DELETE", [2, "a"])]
    flink.write(0, [(100 + place, kind, values) for place, (kind, values) in enumerate(changes)])
    flink.commit()
    flink.write(0, [(105, "INSERT", [2, "c"])])
    flink.commit()
    columns = ("_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", "text", "__offset")
    folder = lake("keys_of_a_round")
    data, changelog = (
        [tuple(row[name] for name in columns) for row in folder.rows(f"bucket-0/{kind}-*.parquet")["bucket-0"]]
        for kind in ("data", "changelog")
    )
    assert data == [(1, 3, 2, "b", 103), (2, 4, 3, "a", 104), (2, 5, 0, "c", 105)]
    all_changes = [(1, 0, 0, "a", 100), (1, 2, 1, "a", 102), (1, 3, 2, "b", 103), (2, 1, 0, "a", 101), (2, 4, 3, "a", 104)]
    assert changelog == [*all_changes, (2, 5, 0, "c", 105)]
    assert [snapshot["changelogRecordCount"] for snapshot in folder.snapshots()] == [5, 1]
    tables.drop(table)


def test_parquet_has_the_ids_of_the_schema_and_paimons_types(tables: FlussTables, lake: LakeTable, flink: FlinkTiering) -> None:
    kinds = {
        "dec": (pa.decimal128(10, 2), "1.50"),
        "big": (pa.decimal128(38, 10), "-2.5"),
        "fixed": (pa.binary(3), b"abc"),
        "at": (pa.time64("us"), 43_200_123),
        "us": (pa.timestamp("us"), f"{WHEN_MS} 456000"),
        "ns": (pa.timestamp("ns", "UTC"), f"{WHEN_MS} 456789"),
        "items": (pa.list_(pa.int32()), None),
    }
    table = tables.create("parquet", pa.schema([pa.field(name, kind) for name, (kind, _) in kinds.items()]), properties=LAKE)
    flink.plan(tables, table)
    flink.write(0, [(0, "APPEND_ONLY", [value for _, value in kinds.values()])])
    flink.commit()
    (file,) = lake("parquet").path.glob("bucket-0/*.parquet")
    columns = re.findall(r"(\S+) field_id=(\d+) (\S+)(?: \((\S+))?", str(pq.ParquetFile(file).schema))
    assert [(name.rstrip(";"), int(field_id), kind) for kind, field_id, name, _ in columns] == [
        ("dec", 0, "int64"),
        ("big", 1, "fixed_len_byte_array(16)"),
        ("fixed", 2, "binary"),
        ("at", 3, "int32"),
        ("us", 4, "int64"),
        ("ns", 5, "int96"),
        ("items", 6, "group"),
        ("element", 536_870_911 + 6 * 1_024 + 1, "int32"),
        ("__bucket", 7, "int32"),
        ("__offset", 8, "int64"),
        ("__timestamp", 9, "int64"),
    ]
    tables.drop(table)


def test_two_incarnations_that_planned_the_same_rows_both_commit(
    tables: FlussTables, lake: LakeTable, flink: FlinkTiering, second_flink: FlinkTiering
) -> None:
    """Paimon puts the stale one on top of the other; only the look before the commit could have told, and it was before."""
    table = tables.create("twice", SCHEMA, properties=LAKE)
    for tiering in (flink, second_flink):
        tiering.plan(tables, table)
        tiering.write(0, [(0, "APPEND_ONLY", [1, "x"])])
    assert (flink.commit("/first"), second_flink.commit("/second")) == (1, 2)
    assert [row["__offset"] for row in lake("twice").rows("**/*.parquet")["bucket-0"]] == [0, 0]
    assert flink.missing(1) == "2 {fluss-offsets=/second}"
    assert flink.missing(2) == ""
    tables.drop(table)


def test_ids_are_used_again_after_a_roll_back_and_the_look_before_the_commit_misses_it(
    tables: FlussTables, lake: LakeTable, flink: FlinkTiering
) -> None:
    table = tables.create("rolled_back", SCHEMA, properties=LAKE)
    for offset in range(3):
        flink.plan(tables, table)
        flink.write(0, [(offset, "APPEND_ONLY", [offset, "x"])])
        flink.commit(f"/{offset}")
    lake("rolled_back").roll_back(1)
    assert flink.missing(3) == ""
    flink.write(0, [(3, "APPEND_ONLY", [3, "x"])])
    assert flink.commit("/after") == 2
    assert flink.missing(3) == ""
    tables.drop(table)


def test_with_auto_compaction_some_rounds_make_a_second_snapshot_of_the_same_properties(
    tables: FlussTables, lake: LakeTable, flink: FlinkTiering
) -> None:
    table = tables.create("compacted", SCHEMA, ["id"], properties={**LAKE, "table.datalake.auto-compaction": "true"})
    flink.plan(tables, table)
    ids = []
    for offset in range(5):
        flink.write(0, [(offset, "INSERT", [offset, "x"])])
        ids.append(flink.commit(f"/{offset}"))
    assert ids == [1, 2, 3, 4, 6]
    snapshots = [(snapshot["commitKind"], snapshot["commitUser"], snapshot["properties"]) for snapshot in lake("compacted").snapshots()]
    user, offsets = "__fluss_lake_tiering", {"fluss-offsets": "/4"}
    assert snapshots[4:] == [("APPEND", user, offsets), ("COMPACT", user, offsets)]
    tables.drop(table)


def test_a_round_without_rows_makes_no_snapshot(tables: FlussTables, lake: LakeTable, flink: FlinkTiering) -> None:
    table = tables.create("no_rows", SCHEMA, properties=LAKE)
    flink.plan(tables, table)
    with pytest.raises(TieringError, match="committed snapshot id must be non-null"):
        flink.commit()
    assert lake("no_rows").snapshots() == []
    tables.drop(table)


def test_fluss_reads_offsets_from_the_rows_and_their_times_a_thousand_times_too_small(tables: FlussTables, flink: FlinkTiering) -> None:
    """Fluss reads the milliseconds of `__timestamp` as microseconds. An added column is null in older rows."""
    table = tables.create("read_back", SCHEMA, properties=LAKE)
    flink.plan(tables, table)
    wider = tables.add_column(table, pa.field("note", pa.int32()))
    flink.write(0, [(7, "APPEND_ONLY", [1, "narrow"])])
    flink.commit()
    flink.plan(tables, wider)
    flink.write(0, [(8, "APPEND_ONLY", [2, "wide", 5])])
    snapshot_id = flink.commit()
    seconds = str(WHEN_MS // 1_000)
    assert flink.read(snapshot_id) == [["7", seconds, "INSERT", "1", "narrow", "\\N"], ["8", seconds, "INSERT", "2", "wide", "5"]]
    tables.drop(wider)
