"""Damage that no table should have: each kind on a real copy is named, and none ends the validation with a crash."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, data_files, faults, read, replace_column, replace_marker, rewrite, untold
from tiering.cluster.embedded.metadata.database import FORMAT_VERSION
from tiering.cluster.registry import EMBEDDED
from tiering.errors import MarkerCorrupt, SetupError
from tiering.lake.marker import Marker, TieredRange
from tiering.model.schema.changes import additions
from tiering.model.tables import BucketKey, TableInfo
from tiering.validate.child import ClusterValidation
from tiering.validate.results import Level

B0, B7 = BucketKey(None, 0), BucketKey(None, 7)


def marker_of(world: LakeWorld, table: TableInfo) -> Marker:
    marker = world.view(table).marker
    assert marker is not None
    return marker


def test_a_marker_with_a_bucket_that_the_table_does_not_have_is_named(world: LakeWorld, table: TableInfo) -> None:
    marker = marker_of(world, table)
    replace_marker(world, table, replace(marker, buckets={**marker.buckets, B7: TieredRange(0, 5)}))
    assert faults(check(world, table)) == [("base", "table", "the marker names buckets that the table does not have: 7")]


def test_a_marker_that_cannot_be_read_is_named(world: LakeWorld, table: TableInfo) -> None:
    file = Path(world.iceberg(table).metadata_location.removeprefix("file://"))
    file.write_text(file.read_text().replace('\\"version\\":1,\\"cluster_id', '\\"version\\":99,\\"cluster_id'))
    with pytest.raises(MarkerCorrupt, match="its version is 99; this Lakeward reads version 1"):
        check(world, table)


def test_a_log_that_ends_before_the_lake_is_named(world: LakeWorld, table: TableInfo) -> None:
    marker = marker_of(world, table)
    replace_marker(world, table, replace(marker, buckets={**marker.buckets, B0: TieredRange(0, 150)}))
    assert faults(check(world, table))[0] == (
        "log",
        "0",
        "bucket 0: the lake is tiered up to offset 150, but the log ends at 100",
    )


def test_a_log_that_begins_behind_the_lake_is_named(world: LakeWorld, table: TableInfo, tmp_path: Path) -> None:
    with sa.create_engine(f"sqlite:///{tmp_path / 'cluster' / 'meta.db'}").begin() as connection:
        connection.execute(sa.text("UPDATE buckets SET log_start = 130, log_end = 160 WHERE bucket_id = 1"))
    details = "bucket 1: the lake is tiered up to offset 100, but the log begins at 130: offsets 100 to 129 are in neither"
    assert faults(check(world, table))[0] == ("log", "1", details)


def test_a_log_whose_old_part_was_cut_is_said_and_the_rest_is_compared(world: LakeWorld) -> None:
    table = world.table("kept", buckets=1)
    schema = table.schema
    world.storage.alter_table(table.path, {"table.log.ttl": "1 h"})
    for number in range(3):
        rows = pa.table({"id": range(number * 10, number * 10 + 10), "text": ["x"] * 10}, schema=schema)
        world.storage.append(table.path, rows, "w", number)
        world.clock.advance(60)
    world.tier(table)
    world.clock.advance(3_600 - 150)  # the last segment is younger than an hour
    world.storage.maintenance.run()
    [log] = world.storage.offsets(table).values()
    assert 0 < log.log_start < 30
    results = check(world, table)
    assert not faults(results)
    text = f"bucket 0: the log no longer holds offsets 0 to {log.log_start - 1}: their rows cannot be compared"
    assert untold(results) == [("values", "0", text)]
    file = data_files(world, table)[0]
    replace_column(file, "text", [*["x"] * 29, "wrong"])
    details = "bucket 0: offset 29 has other values in the lake than in the log, in text"
    assert faults(check(world, table)) == [("values", "0", details)]
    rewrite(file, read(file).slice(1))
    assert ("offsets", "0", "bucket 0: offset 0 is missing") in faults(check(world, table))


def test_a_log_that_is_cut_while_it_is_read_is_read_again(world: LakeWorld, table: TableInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    world.storage.alter_table(table.path, {"table.log.ttl": "1 h"})
    reader = world.storage.reader
    readings: list[int] = []

    def cut_first(*arguments: object) -> object:
        opened = reader(*arguments)  # type: ignore[arg-type]
        readings.append(1)
        if len(readings) == 1:
            world.clock.advance(7_200)
            world.storage.maintenance.run()
        return opened

    monkeypatch.setattr(world.storage, "reader", cut_first)
    results = check(world, table)
    assert readings
    assert not faults(results)
    assert [scope for _, scope, _ in untold(results)] == ["0", "1"]


@pytest.mark.parametrize("column", ["__bucket", "__offset", "__timestamp"])
def test_null_where_none_may_be_is_named(world: LakeWorld, table: TableInfo, column: str) -> None:
    file = data_files(world, table)[0]
    replace_column(file, column, [*read(file)[column].to_pylist()[:-1], None], nullable=True)
    expected = {
        "__bucket": ("rows", "NULL", "the marker names no such bucket: another program wrote these rows"),
        "__offset": ("offsets", "0", "bucket 0: 1 row without an offset (NULL)"),
        "__timestamp": ("values", "0", "bucket 0: offset 99 has other values in the lake than in the log, in __timestamp"),
    }
    assert expected[column] in faults(check(world, table))


def test_a_file_without_a_column_and_one_with_a_column_of_another_type_are_named(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    rows = read(file)
    rewrite(file, rows.drop_columns(["text"]))
    assert faults(check(world, table)) == [("values", "0", "bucket 0: offset 0 has other values in the lake than in the log, in text")]
    place = rows.schema.get_field_index("__offset")
    rewrite(file, rows.set_column(place, "__offset", pa.array(["?"] * rows.num_rows)))
    [(name, _, details)] = faults(check(world, table))
    assert name == "files"
    assert details is not None


def test_a_flipped_bit_anywhere_in_a_lake_file_is_found_wherever_it_changes_a_value(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    content, right = file.read_bytes(), read(file)
    places = random.Random(7).sample(range(len(content)), 40)
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(bytes(damaged))
        differences = faults(check(world, table))
        for _, _, details in differences:
            assert details is None or str(file) in details or "bucket 0" in details, (place, details)
        if not differences:
            assert read(file).rename_columns(right.column_names).equals(right), place  # columns are found by their ids


def test_a_footer_that_duckdb_alone_can_read_is_named(world: LakeWorld, table: TableInfo) -> None:
    """Arrow wrote the file, as a compaction does: DuckDB does not read the schema that Arrow leaves there."""
    file = data_files(world, table)[0]
    rewrite(file, read(file))
    assert not faults(check(world, table))
    content = bytearray(file.read_bytes())
    content[content.index(b"ARROW:schema") + 40] = 0
    file.write_bytes(bytes(content))
    for level in (Level.OFFSETS, Level.ROWS):
        [(name, _, details)] = faults(check(world, table, level))
        assert name == "files"
        assert details is not None
        assert f"the lake file {file} cannot be read" in details


def test_a_footer_that_is_no_text_is_named(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    content = bytearray(file.read_bytes())
    footer_begins = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[content.index(b"text", footer_begins)] = 0xFF
    file.write_bytes(bytes(content))
    [(name, _, details)] = faults(check(world, table))
    assert name == "files"
    assert details is not None
    assert f"the lake file {file} cannot be read" in details


def test_map_keys_that_arrow_alone_minds_are_no_damage(world: LakeWorld) -> None:
    """Older writers let them be NULL in a file's schema."""
    kind = pa.map_(pa.string(), pa.struct([("first", pa.int64()), ("second", pa.string())]))
    schema = pa.schema([("id", pa.int64()), ("entries", kind), ("place", pa.struct([("x", pa.int64())]))])
    table = world.table("maps", buckets=1, schema=schema)
    world.storage.append(table.path, pa.table({"id": [1, 2], "entries": [None, None], "place": [{"x": 1}, {"x": 2}]}, schema), "w", 0)
    assert world.tier(table).error is None
    [file] = data_files(world, table)
    content = file.read_bytes()
    required, optional = b"\x25\x00\x18\x03key", b"\x25\x02\x18\x03key"
    assert content.count(required) == 1
    file.write_bytes(content.replace(required, optional))
    with pytest.raises(pa.ArrowException, match="Map keys must be annotated as required"):
        read(file)
    assert not faults(check(world, table))
    assert not faults(check(world, world.storage.alter_table(table.path, {}, additions([pa.field("note", pa.string())]))))


@pytest.mark.parametrize("damage", ["empty", "half", "text"])
def test_a_file_that_is_no_parquet_is_named(world: LakeWorld, table: TableInfo, damage: str) -> None:
    file = data_files(world, table)[1]
    content = file.read_bytes()
    file.write_bytes({"empty": b"", "half": content[: len(content) // 2], "text": b"this was a file once" * 20}[damage])
    [(name, _, details)] = faults(check(world, table))
    assert name == "files"
    assert details is not None
    assert f"the lake file {file} cannot be read" in details


def test_columns_that_were_added_are_compared_also_where_older_files_lack_them(world: LakeWorld, table: TableInfo) -> None:
    added = [pa.field("note", pa.string()), pa.field("tags", pa.list_(pa.int8()))]
    wider = world.storage.alter_table(table.path, {}, additions(added))
    assert not faults(check(world, wider))  # no file has them yet
    rows = {"id": [1_000, 1_001], "text": ["a", None], "note": ["n", None], "tags": [[1, None], None]}
    world.storage.append(table.path, pa.table(rows, schema=wider.schema), "more", 0)
    world.tier(wider)
    results = check(world, wider)
    assert all(result.ok for result in results), results
    newest = min(data_files(world, wider), key=lambda file: read(file).num_rows)
    replace_column(newest, "note", [None] * read(newest).num_rows)
    [(name, _, details)] = faults(check(world, wider))
    assert name == "values"
    assert details is not None
    assert details.endswith("has other values in the lake than in the log, in note")


def test_a_cluster_that_a_newer_version_wrote_is_refused_by_the_child(world: LakeWorld, table: TableInfo, tmp_path: Path) -> None:
    world.close()
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "cluster", copy)
    with sa.create_engine(f"sqlite:///{copy / 'meta.db'}").begin() as connection:
        connection.execute(sa.text("UPDATE facts SET value = '99' WHERE name = 'format_version'"))
    before = (copy / "meta.db").read_bytes()
    validation = ClusterValidation(EMBEDDED, copy, "iceberg", world.lake_properties)
    with pytest.raises(SetupError, match=rf"was written by a newer version \(format 99, known {FORMAT_VERSION}\)") as raised:
        validation.run(table.path, Level.ROWS)
    assert raised.value.hint == "Upgrade Lakeward."
    assert (copy / "meta.db").read_bytes() == before


def test_a_lake_catalog_that_is_damaged_is_an_error_that_names_it(world: LakeWorld, table: TableInfo) -> None:
    file = Path(world.iceberg(table).metadata_location.removeprefix("file://"))
    file.write_text(json.dumps({"format-version": 2}))
    with pytest.raises(Exception, match=r"sales\.orders") as raised:
        check(world, table)
    assert type(raised.value).__module__ == "tiering.errors"
