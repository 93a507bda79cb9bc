"""Databases and tables of the embedded cluster: what is made, what is refused and by which name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.embedded import DAYS, PATH, SCHEMA, EmbeddedCluster, ManualClock, make_table, orders, scan_all
from tiering.cluster.base import SplitSource
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import TableSpec
from tiering.errors import AlreadyExists, InvalidArgument, InvalidName, UnknownDatabase, UnknownTable, UnsupportedType
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import DEFAULT_FRESHNESS_MS, TablePath

LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "30 s", "iceberg.write.format.default": "parquet"}


def test_fits_the_cluster_interface(cluster: EmbeddedCluster) -> None:
    assert isinstance(cluster, SplitSource)


def test_a_table_is_described_as_it_was_made(cluster: EmbeddedCluster, clock: ManualClock) -> None:
    cluster.create_database("sales")

    table = cluster.create_table(PATH, TableSpec(SCHEMA, 3, ("id",), LAKE))

    assert table == cluster.table(PATH)
    assert (table.path, table.schema, table.bucket_count, table.bucket_keys) == (PATH, SCHEMA, 3, ("id",))
    assert (table.lake_enabled, table.freshness_ms, table.lake_format) == (True, 30_000, "iceberg")
    assert table.created_at == table.lake_enabled_at == clock.time
    assert table.properties == {**LAKE, "table.datalake.layout": "clean"}


def test_databases_and_tables_are_listed_sorted(cluster: EmbeddedCluster) -> None:
    for name in ("b.y", "b.x", "a.z"):
        make_table(cluster, path=TablePath(*name.split(".")))

    assert cluster.databases() == ["a", "b"]
    assert [str(table.path) for table in cluster.tables()] == ["a.z", "b.x", "b.y"]
    assert [str(table.path) for table in cluster.tables("b")] == ["b.x", "b.y"]
    assert cluster.partitions(cluster.tables("b")[0]) == ()


def test_unknown_names_are_errors_of_their_own(cluster: EmbeddedCluster) -> None:
    cluster.create_database("sales")
    with pytest.raises(UnknownTable, match=r"sales\.nothing"):
        cluster.table(TablePath("sales", "nothing"))
    with pytest.raises(UnknownDatabase, match="nowhere"):
        cluster.table(TablePath("nowhere", "orders"))
    with pytest.raises(UnknownDatabase, match="nowhere"):
        cluster.tables("nowhere")
    with pytest.raises(UnknownDatabase, match="nowhere"):
        cluster.create_table(TablePath("nowhere", "orders"), TableSpec(SCHEMA))
    with pytest.raises(UnknownTable):
        cluster.drop_table(PATH)


@pytest.mark.parametrize("name", ["../x", "x" * 201, "a b", "'; DROP TABLE x --", "sys", "SYS", "__hidden", "", ".", "ä", "a/b", "a\n"])
def test_bad_database_names_are_refused_at_every_entry(cluster: EmbeddedCluster, name: str) -> None:
    path = TablePath(name, "orders")
    for call in (
        lambda: cluster.create_database(name),
        lambda: cluster.tables(name),
        lambda: cluster.table(path),
        lambda: cluster.create_table(path, TableSpec(SCHEMA)),
        lambda: cluster.drop_table(path),
        lambda: cluster.alter_table(path, {}),
        lambda: cluster.append(path, orders(0, 1), "writer", 0),
    ):
        with pytest.raises(InvalidName):
            call()


@pytest.mark.parametrize("name", ["../x", "x" * 201, "a b", "__bucket", "__offset", "__timestamp", "__other", ""])
def test_bad_table_and_column_names_are_refused(cluster: EmbeddedCluster, name: str) -> None:
    cluster.create_database("sales")
    with pytest.raises(InvalidName):
        cluster.create_table(TablePath("sales", name), TableSpec(SCHEMA))
    with pytest.raises(InvalidName):
        cluster.create_table(PATH, TableSpec(pa.schema([pa.field(name, pa.int64())])))
    assert cluster.tables() == []


def test_names_that_differ_in_case_only_are_refused(cluster: EmbeddedCluster) -> None:
    make_table(cluster)
    with pytest.raises(AlreadyExists, match="'sales'"):
        cluster.create_database("Sales", ignore_if_exists=True)
    with pytest.raises(AlreadyExists, match=r"sales\.orders"):
        cluster.create_table(TablePath("sales", "Orders"), TableSpec(SCHEMA), ignore_if_exists=True)
    with pytest.raises(InvalidName, match="'Id'"):
        cluster.create_table(TablePath("sales", "twice"), TableSpec(pa.schema([pa.field("id", pa.int64()), pa.field("Id", pa.int64())])))


def test_making_twice_is_an_error_unless_told_otherwise(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    with pytest.raises(AlreadyExists):
        cluster.create_database("sales")
    with pytest.raises(AlreadyExists):
        cluster.create_table(PATH, TableSpec(SCHEMA))

    cluster.create_database("sales", ignore_if_exists=True)
    other = TableSpec(pa.schema([pa.field("x", pa.string())]), 7)
    assert cluster.create_table(PATH, other, ignore_if_exists=True) == table


REFUSED_TYPES = {
    "uint8": pa.uint8(),
    "uint64": pa.uint64(),
    "timestamp[ns]": pa.timestamp("ns"),
    "time64[us]": pa.time64("us"),
    "time32[ms]": pa.time32("ms"),
    "month_day_nano_interval": pa.month_day_nano_interval(),
    "duration[s]": pa.duration("s"),
    "struct<>": pa.struct([]),
    "decimal256(50, 2)": pa.decimal256(50, 2),
    "halffloat": pa.float16(),
    "null": pa.null(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "fixed_size_binary[4]": pa.binary(4),
}


@pytest.mark.parametrize("shown", REFUSED_TYPES)
def test_a_type_that_the_lake_lacks_is_refused_with_column_and_type(cluster: EmbeddedCluster, shown: str) -> None:
    cluster.create_database("sales")
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("odd", REFUSED_TYPES[shown])])
    with pytest.raises(UnsupportedType) as error:
        cluster.create_table(PATH, TableSpec(schema))
    assert "'odd'" in error.value.message
    assert shown in error.value.message
    assert cluster.tables() == []


def test_types_that_differ_in_layout_only_are_stored_in_one_form(cluster: EmbeddedCluster) -> None:
    loose = pa.schema(
        [
            pa.field("a", pa.large_string()),
            pa.field("b", pa.large_binary()),
            pa.field("c", pa.timestamp("s")),
            pa.field("d", pa.timestamp("ms", tz="Europe/Berlin")),
            pa.field("e", pa.date64()),
            pa.field("f", pa.decimal128(38, 10)),
        ]
    )
    stored = [pa.string(), pa.binary(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.date32(), pa.decimal128(38, 10)]
    assert make_table(cluster, schema=loose).schema.types == stored


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"table.datalake.enable": "true"}, "table.datalake.enable"),
        ({"table.datalake.enabled": "yes"}, "table.datalake.enabled"),
        ({"table.datalake.freshness": "soon"}, "table.datalake.freshness"),
        ({"table.datalake.freshness": "0 s"}, "table.datalake.freshness"),
        ({"table.datalake.format": "delta"}, "table.datalake.format"),
        ({"x" * 3_000: "1"}, "xxx"),
        ({f"x{number}": "1" for number in range(201)}, "at most 200 options"),
    ],
)
def test_bad_options_are_refused_by_name(cluster: EmbeddedCluster, properties: dict[str, str], named: str) -> None:
    table = make_table(cluster)
    with pytest.raises(InvalidArgument, match=named):
        cluster.create_table(TablePath("sales", "other"), TableSpec(SCHEMA, properties=properties))
    with pytest.raises(InvalidArgument, match=named):
        cluster.alter_table(PATH, properties)
    assert cluster.tables() == [table]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (TableSpec(SCHEMA, primary_key=("nothing",)), "'nothing' is not a column"),
        (TableSpec(SCHEMA, primary_key=("id", "id")), "named twice"),
        (TableSpec(SCHEMA, primary_key=("id", "city")), "'city' is nullable"),
        (TableSpec(pa.schema([pa.field("x", pa.float64(), nullable=False)]), primary_key=("x",)), "'x' of type double"),
        (TableSpec(pa.schema([pa.field("flag", pa.bool_(), nullable=False)]), primary_key=("flag",)), "'flag' of type bool"),
        (TableSpec(DAYS, primary_key=("id",), partition_keys=("day",)), "'day' is not part of the primary key"),
        (TableSpec(DAYS, primary_key=("day",), partition_keys=("day",)), "only partition columns"),
        (TableSpec(DAYS, 2, ("region",), primary_key=("id",)), "'region' is not part of the primary key"),
        (TableSpec(SCHEMA, partition_keys=("id",)), "'id' of type int64 cannot be a partition column"),
        (TableSpec(SCHEMA, partition_keys=("city",)), "'city' is nullable"),
        (TableSpec(SCHEMA, partition_keys=("nothing",)), "'nothing' is not a column"),
        (TableSpec(DAYS, partition_keys=("day", "day")), "named twice"),
        (TableSpec(DAYS, 2, ("region",), partition_keys=("region",)), "'region' cannot be a partition column and a bucket key"),
        (TableSpec(DAYS, partition_keys=tuple("abcde")), "at most 4 partition columns"),
        (TableSpec(SCHEMA, 0), "bucket count"),
        (TableSpec(SCHEMA, 5_000), "bucket count"),
        (TableSpec(SCHEMA, 2, ("nothing",)), "'nothing' is not a column"),
        (TableSpec(SCHEMA, 2, ("id", "id")), "named twice"),
        (TableSpec(SCHEMA, 2, ("city",)), "nullable"),
        (TableSpec(pa.schema([pa.field("flag", pa.bool_(), nullable=False)]), 2, ("flag",)), "'flag' of type bool"),
        (TableSpec(pa.schema([pa.field("x", pa.float64(), nullable=False)]), 2, ("x",)), "'x' of type double"),
        (TableSpec(pa.schema([])), "at least one column"),
        (TableSpec(pa.schema([pa.field(f"c{number}", pa.int64()) for number in range(2_001)])), "at most 2000"),
    ],
)
def test_tables_that_cannot_be_are_refused_with_the_reason(cluster: EmbeddedCluster, spec: TableSpec, reason: str) -> None:
    cluster.create_database("sales")
    with pytest.raises((InvalidArgument, UnsupportedType), match=reason):
        cluster.create_table(PATH, spec)


def test_altering_sets_options_and_keeps_the_others(cluster: EmbeddedCluster, clock: ManualClock) -> None:
    make_table(cluster)
    enabled_at = clock.advance(60)
    assert cluster.alter_table(PATH, {"table.datalake.enabled": "true"}).lake_enabled_at == enabled_at
    clock.advance(60)

    altered = cluster.alter_table(PATH, {"table.datalake.freshness": "PT5M"})

    assert (altered.lake_enabled, altered.lake_enabled_at, altered.freshness_ms) == (True, enabled_at, 300_000)
    assert cluster.alter_table(PATH, {"table.datalake.enabled": "false"}).lake_enabled_at is None


def test_one_option_is_set_and_taken_back_to_its_default(cluster: EmbeddedCluster, clock: ManualClock) -> None:
    make_table(cluster, properties={"comment": "kept"})
    enabled_at = clock.advance(60)
    assert cluster.set_table_option(PATH, "table.datalake.enabled", "true").lake_enabled_at == enabled_at
    clock.advance(60)
    assert cluster.set_table_option(PATH, "table.datalake.freshness", "PT5M").freshness_ms == 300_000

    table = cluster.set_table_option(PATH, "table.datalake.freshness", None)

    assert table.freshness_ms == DEFAULT_FRESHNESS_MS
    assert table.properties == {"comment": "kept", "table.datalake.enabled": "true", "table.datalake.layout": "clean"}
    assert table.lake_enabled_at == enabled_at
    assert cluster.set_table_option(PATH, "table.datalake.freshness", None) == table == cluster.table(PATH)
    assert not cluster.set_table_option(PATH, "table.datalake.enabled", None).lake_enabled


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("table.datalake.freshness", "soon", "table.datalake.freshness"),
        ("table.log.tl", "7 d", "unknown table option"),
        ("table.log.tl", None, "unknown table option"),
        ("", None, "is empty"),
        ("iceberg.py-io-impl", "os.system", "is not one that a table may have"),
        ("iceberg.comment", "two\nlines", "control character"),
        ("note", "mine", "there is no table option 'note'"),
        ("datalake.freshness", "1 s", "there is no table option 'datalake.freshness'"),
    ],
)
def test_an_option_that_no_table_is_made_with_cannot_be_set_either(
    cluster: EmbeddedCluster, name: str, value: str | None, reason: str
) -> None:
    table = make_table(cluster)
    with pytest.raises(InvalidArgument, match=reason):
        cluster.set_table_option(PATH, name, value)
    assert cluster.table(PATH) == table


def test_the_lake_format_is_fixed_once_a_lake_snapshot_is_recorded(storage: EmbeddedStorage, cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    assert cluster.set_table_option(PATH, "table.datalake.format", "paimon").lake_format == "paimon"
    assert cluster.set_table_option(PATH, "table.datalake.format", None).lake_format == "iceberg"
    storage.record_lake_snapshot(table, RecordedLakeSnapshot(1, {}))

    with pytest.raises(InvalidArgument, match="its lake table is iceberg already"):
        cluster.set_table_option(PATH, "table.datalake.format", "paimon")
    with pytest.raises(InvalidArgument, match="its lake table is iceberg already"):
        cluster.alter_table(PATH, {"table.datalake.format": "paimon"})
    assert cluster.set_table_option(PATH, "table.datalake.format", "iceberg").lake_format == "iceberg"


def test_the_lake_format_of_a_table_with_bucket_keys_is_that_of_its_buckets(cluster: EmbeddedCluster) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    keyed = TableSpec(columns, 3, ("id",), properties={"table.datalake.format": "paimon"})
    cluster.create_database("sales", ignore_if_exists=True)
    cluster.create_table(TablePath("sales", "keyed"), keyed)
    with pytest.raises(InvalidArgument, match="in buckets by the formula paimon"):
        cluster.set_table_option(TablePath("sales", "keyed"), "table.datalake.format", "iceberg")
    cluster.create_table(TablePath("sales", "single"), replace(keyed, bucket_count=1))
    assert cluster.set_table_option(TablePath("sales", "single"), "table.datalake.format", "iceberg").lake_format == "iceberg"


def test_a_table_made_anew_has_a_new_id_and_no_rows(cluster: EmbeddedCluster) -> None:
    earlier_ids = set()
    for _ in range(3):
        table = make_table(cluster)
        assert table.table_id not in earlier_ids
        earlier_ids.add(table.table_id)
        assert scan_all(cluster, table).num_rows == 0
        cluster.append(PATH, orders(0, 10), "writer", 0)
        cluster.drop_table(PATH)
        with pytest.raises(UnknownTable):
            cluster.offsets(table)


def test_a_dropped_table_leaves_no_files(storage: EmbeddedStorage, tmp_path: Path) -> None:
    make_table(storage)
    storage.append(PATH, orders(0, 10), "writer", 0)
    assert list((tmp_path / "cluster").rglob("*.arrow"))

    storage.drop_table(PATH)

    assert not list((tmp_path / "cluster").rglob("*.arrow"))


def test_hundreds_of_wide_tables_are_listed_in_pages(cluster: EmbeddedCluster) -> None:
    columns = pa.schema([pa.field(f"{'column' * 20}_{number}", pa.string()) for number in range(150)])
    names = [f"t{number:03}" for number in range(120)]
    for name in names:
        make_table(cluster, schema=columns, path=TablePath("wide", name))

    assert [table.path.table_name for table in cluster.tables("wide")] == names
