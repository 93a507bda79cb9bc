"""The Paimon tables that Fluss 0.9.1 makes and alters, and what its plugin refuses: what a table of ours has to be like."""

from __future__ import annotations

import pyarrow as pa
import pytest
from fluss import FlussError

from support.clusters.fluss_owner import opened_source
from support.clusters.fluss_tables import FlussTables
from support.fluss_paimon.flink_tiering import FlinkTiering
from support.fluss_paimon.lake_files import LakeTable
from support.running.fluss_deployment import LAKE
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.errors import AlreadyExists, InvalidArgument
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import TableInfo

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False), pa.field("text", pa.string())]
)
COLUMNS = [(0, "id", "BIGINT NOT NULL"), (1, "region", "STRING NOT NULL"), (2, "text", "STRING")]
SYSTEM_COLUMNS = [("__bucket", "INT"), ("__offset", "BIGINT"), ("__timestamp", "TIMESTAMP(3) WITH LOCAL TIME ZONE")]
OF_FLUSS = {
    "fluss.table.datalake.enabled": "true",
    "fluss.table.datalake.format": "paimon",
    "fluss.table.datalake.freshness": "1s",
    "fluss.table.replication.factor": "1",
    "partition.legacy-name": "false",
}
OF_PRIMARY_KEYS = {**OF_FLUSS, "changelog-producer": "input", "fluss.table.kv.format-version": "2"}

TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.decimal128(10, 2): "DECIMAL(10, 2)",
    pa.decimal128(38, 10): "DECIMAL(38, 10)",
    pa.string(): "STRING",
    pa.binary(): "BYTES",
    pa.binary(7): "BINARY(7)",
    pa.date32(): "DATE",
    pa.time32("ms"): "TIME(0)",
    pa.time64("ns"): "TIME(0)",
    pa.timestamp("s"): "TIMESTAMP(0)",
    pa.timestamp("ms"): "TIMESTAMP(3)",
    pa.timestamp("us"): "TIMESTAMP(6)",
    pa.timestamp("ns"): "TIMESTAMP(9)",
    pa.timestamp("s", "UTC"): "TIMESTAMP(0) WITH LOCAL TIME ZONE",
    pa.timestamp("ns", "UTC"): "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    pa.list_(pa.int32()): {"type": "ARRAY", "element": "INT"},
    pa.map_(pa.string(), pa.int64()): {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"},
}
"""Paimon's column for a nullable column of each type."""


def test_every_type_has_its_column_and_the_system_columns_come_last(tables: FlussTables, lake: LakeTable) -> None:
    nested = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.list_(pa.string()))])
    fields = [pa.field(f"c{place}", kind) for place, kind in enumerate(TYPES)]
    table = tables.create("types", pa.schema([*fields, pa.field("nested", nested)]), properties=LAKE, comment="every type")
    columns, count = lake("types").columns(), len(TYPES)
    assert columns[:count] == [(place, f"c{place}", kind) for place, kind in enumerate(TYPES.values())]
    inner = [{"id": count + 1, "name": "x", "type": "INT"}, {"id": count + 2, "name": "y", "type": {"type": "ARRAY", "element": "STRING"}}]
    assert columns[count] == (count, "nested", {"type": "ROW", "fields": inner})
    assert columns[count + 1 :] == [(count + 3 + place, *column) for place, column in enumerate(SYSTEM_COLUMNS)]
    assert lake("types").schemas()[0]["comment"] == "every type"
    tables.drop(table)


def test_buckets_keys_and_partitions_are_as_in_fluss(tables: FlussTables, lake: LakeTable) -> None:
    created = [
        tables.create("log", SCHEMA, buckets=3, properties=LAKE),
        tables.create("log_of_keys", SCHEMA, buckets=3, properties=LAKE, bucket_keys=["id", "text"], partition_keys=["region"]),
        tables.create("keys", SCHEMA, ["region", "id"], buckets=3, properties=LAKE),
        tables.create("regions", SCHEMA, ["region", "id"], buckets=3, partition_keys=["region"], properties=LAKE),
    ]
    layouts = {table.path.table_name: lake(table.path.table_name) for table in created}
    assert {name: folder.options() for name, folder in layouts.items()} == {
        "log": {**OF_FLUSS, "bucket": "-1"},
        "log_of_keys": {**OF_FLUSS, "bucket": "3", "bucket-key": "id,text"},
        "keys": {**OF_PRIMARY_KEYS, "bucket": "3", "bucket-key": "region,id"},
        "regions": {**OF_PRIMARY_KEYS, "bucket": "3", "bucket-key": "id"},
    }
    schemas = {name: folder.schemas()[0] for name, folder in layouts.items()}
    assert {name: (schema["partitionKeys"], schema["primaryKeys"]) for name, schema in schemas.items()} == {
        "log": ([], []),
        "log_of_keys": (["region"], []),
        "keys": ([], ["region", "id"]),
        "regions": (["region"], ["region", "id"]),
    }
    assert {tuple(folder.columns()[:3]) for folder in layouts.values()} == {tuple(COLUMNS)}
    for table in created:
        tables.drop(table)


def test_fluss_puts_rows_into_the_buckets_of_paimon(fluss_on_paimon: LocalFlussCluster, tables: FlussTables, flink: FlinkTiering) -> None:
    rows = [{"id": number * 7_919, "region": f"region {'x' * (number % 20)}", "text": None} for number in range(40)]
    for name, primary_key, bucket_keys in (("of_id", [], ["id"]), ("of_text", [], ["region"]), ("of_both", ["region", "id"], None)):
        description = {} if bucket_keys is None else {"bucket_keys": bucket_keys}
        table = tables.create(name, SCHEMA, primary_key, buckets=5, properties=LAKE, **description)
        if primary_key:
            tables.upsert(table, rows)
        else:
            tables.append(table, [pa.RecordBatch.from_pylist([row], schema=SCHEMA) for row in rows])
        flink.plan(tables, table)
        of_paimon = {row["id"]: flink.bucket(list(row.values())) for row in rows}
        assert _buckets(fluss_on_paimon.bootstrap_servers, table) == of_paimon, name
        assert len(set(of_paimon.values())) == 5
        tables.drop(table)


def test_properties_stand_there_under_a_prefix_and_those_of_paimon_without_it(tables: FlussTables, lake: LakeTable) -> None:
    own = {"owner": "ada", "paimon.file.format": "orc", "paimon.snapshot.num-retained.min": "3"}
    table = tables.create("options", SCHEMA, properties={**LAKE, "table.log.ttl": "3 d"}, custom_properties=own)
    expected = {"fluss.owner": "ada", "file.format": "orc", "snapshot.num-retained.min": "3", "fluss.table.log.ttl": "3 d"}
    assert lake("options").options() == {**OF_FLUSS, "bucket": "-1", **expected}
    tables.drop(table)


def test_what_fluss_sets_itself_is_refused_at_the_making(tables: FlussTables) -> None:
    for name in ("paimon.bucket", "paimon.bucket-key", "paimon.path", "paimon.partition.legacy-name"):
        with pytest.raises(FlussError, match="will be set automatically by Fluss"):
            tables.create("refused", SCHEMA, properties=LAKE, custom_properties={name: "1"})
    with pytest.raises(FlussError, match="conflicts with a system column name"):
        tables.create("refused", SCHEMA.append(pa.field("__offset", pa.int64())), properties=LAKE)


def test_an_alteration_reaches_the_lake_first_and_a_column_stands_before_the_system_columns(tables: FlussTables, lake: LakeTable) -> None:
    table = tables.create("altered", SCHEMA, properties=LAKE)
    wider = tables.add_column(table, pa.field("note", pa.int32()))
    system = [(3 + place, *column) for place, column in enumerate(SYSTEM_COLUMNS)]
    assert lake("altered").columns() == [*COLUMNS, (6, "note", "INT"), *system]
    tables.set_option(wider, "table.datalake.freshness", "5s")
    tables.set_option(wider, "owner", "ada")
    assert [schema["options"].get("fluss.table.datalake.freshness") for schema in lake("altered").schemas()] == ["1s", "1s", "5s", "5s"]
    assert lake("altered").options()["fluss.owner"] == "ada"
    for option in ("table.datalake.auto-compaction", "paimon.snapshot.num-retained.min"):
        with pytest.raises(InvalidArgument, match="not supported to alter"):
            tables.set_option(wider, option, "5")
    tables.drop(wider)


def test_a_column_that_came_while_the_lake_was_off_keeps_it_off(tables: FlussTables, lake: LakeTable) -> None:
    table = tables.create("off_and_on", SCHEMA, properties=LAKE)
    for enabled in ("false", "true", "false"):
        tables.set_option(table, "table.datalake.enabled", enabled)
    assert lake("off_and_on").options()["fluss.table.datalake.enabled"] == "false"
    wider = tables.add_column(table, pa.field("note", pa.int32()))
    assert [name for _, name, _ in lake("off_and_on").columns()] == ["id", "region", "text", "__bucket", "__offset", "__timestamp"]
    with pytest.raises(AlreadyExists, match="the table schema is not compatible"):
        tables.set_option(wider, "table.datalake.enabled", "true")
    tables.drop(wider)


def test_the_lake_table_outlives_its_table_and_is_taken_again_only_empty_and_alike(
    tables: FlussTables, lake: LakeTable, flink: FlinkTiering
) -> None:
    tables.drop(tables.create("outlived", SCHEMA, properties=LAKE))
    assert lake("outlived").schemas()
    for other in ({"buckets": 1, "properties": {**LAKE, "table.datalake.freshness": "9s"}}, {"properties": LAKE, "bucket_keys": ["id"]}):
        with pytest.raises(FlussError, match="the table schema is not compatible"):
            tables.create("outlived", SCHEMA, **other)
    table = tables.create("outlived", SCHEMA, properties=LAKE)
    flink.plan(tables, table)
    flink.write(0, [(0, "APPEND_ONLY", [1, "north", "x"])])
    flink.commit()
    tables.drop(table)
    with pytest.raises(FlussError, match="the table is not empty"):
        tables.create("outlived", SCHEMA, properties=LAKE)


def _buckets(servers: str, table: TableInfo) -> dict[int, int]:
    """Bucket of each id, in the log."""
    buckets = {}
    with opened_source(servers) as source:
        info = source.table(table.path)
        for bucket, log in source.offsets(info).items():
            split = TieringLogSplit(info.path, bucket, None, 0, log.log_end, None)
            for batch in source.reader(info, split).read():
                buckets |= dict.fromkeys(batch["id"].to_pylist(), bucket.bucket_id)
    return buckets
