"""A Fluss table's description as a table of ours: what is read, what is left out, and what is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tiering.cluster.fluss.settings import UpkeepDefaults, read_settings
from tiering.cluster.fluss.table_json import TableDescription, lake_type, table_info
from tiering.errors import UnsupportedType
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import TablePath, TableType

PATH = TablePath("sales", "orders")
COLUMNS = [
    {"name": "id", "data_type": {"type": "BIGINT", "nullable": False}, "id": 0},
    {"name": "city", "data_type": {"type": "STRING"}, "id": 1},
    {"name": "at", "data_type": {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3}, "id": 2},
]
DOCUMENT: dict[str, Any] = {
    "version": 1,
    "schema": {"version": 1, "columns": COLUMNS, "primary_key": ["id"], "highest_field_id": 2},
    "partition_key": [],
    "bucket_key": ["id"],
    "bucket_count": 3,
    "properties": {
        "table.datalake.enabled": "true",
        "table.datalake.freshness": "5s",
        "table.datalake.format": "iceberg",
        "table.datalake.iceberg.jdbc.password": "hunter2",
    },
    "custom_properties": {"owner": "ada"},
}


def described(document: object) -> TableDescription:
    return TableDescription(PATH, 7, 1, json.dumps(document).encode(), 1_700_000_000_123)


def with_type(kind: dict[str, Any]) -> dict[str, Any]:
    schema = {**DOCUMENT["schema"], "columns": [*COLUMNS, {"name": "odd", "data_type": kind, "id": 3}]}
    return {**DOCUMENT, "schema": schema}


@pytest.mark.parametrize("defaults", [UpkeepDefaults(), UpkeepDefaults(auto_compaction=True), UpkeepDefaults(auto_expire_snapshot=True)])
def test_tierers_get_the_defaults_of_upkeep_with_the_settings(defaults: UpkeepDefaults) -> None:
    settings = read_settings({"bootstrap.servers": "host:9123", "cluster-id": "x", **defaults.as_text()})
    assert settings.upkeep == defaults
    assert read_settings(settings.as_text()) == settings


def test_options_of_upkeep_are_off_as_in_fluss_unless_the_deployment_or_the_table_says_otherwise() -> None:
    on = UpkeepDefaults(auto_compaction=True, auto_expire_snapshot=True)
    plain = described(DOCUMENT)
    options = ("table.datalake.auto-compaction", "table.datalake.auto-expire-snapshot")
    refuses = described({**DOCUMENT, "properties": {**DOCUMENT["properties"], **dict.fromkeys(options, "false")}})
    shown = [(info.auto_compaction, info.snapshot_retention is not None) for info in (table_info(plain), table_info(plain, None, on))]
    assert shown == [(False, False), (True, True)]
    info = table_info(refuses, None, on)
    assert (info.auto_compaction, info.snapshot_retention) == (False, None)


def test_a_table_has_its_columns_keys_buckets_and_lake_options() -> None:
    info = table_info(described(DOCUMENT))
    assert (info.table_id, info.path, info.table_type) == (7, PATH, TableType.PRIMARY_KEY)
    assert info.schema == pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string()), pa.field("at", pa.timestamp("us"))]
    )
    assert (info.primary_key, info.bucket_keys, info.partition_keys, info.bucket_count) == (("id",), ("id",), (), 3)
    assert (info.lake_enabled, info.freshness_ms, info.lake_format) == (True, 5_000, "iceberg")
    assert info.created_at == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert info.refusal is None


def test_a_table_without_a_key_is_a_log_table_whose_lake_is_off_by_default() -> None:
    info = table_info(described({**DOCUMENT, "schema": {"columns": COLUMNS}, "properties": {}, "bucket_key": []}))
    assert (info.table_type, info.lake_enabled, info.freshness_ms) == (TableType.LOG, False, 180_000)


def test_the_clusters_lake_catalog_stays_out_of_the_options_of_its_tables() -> None:
    """Fluss repeats `datalake.iceberg.*` of its configuration in each table's description, passwords included."""
    info = table_info(described(DOCUMENT))
    assert info.properties == {
        "owner": "ada",
        "table.datalake.enabled": "true",
        "table.datalake.freshness": "5s",
        "table.datalake.format": "iceberg",
    }


def test_options_that_the_coordinator_keeps_go_before_those_of_fluss() -> None:
    assert table_info(described(DOCUMENT), {"owner": "grace"}).properties["owner"] == "grace"


def test_a_freshness_that_cannot_be_read_is_the_default_one() -> None:
    info = table_info(described({**DOCUMENT, "properties": {"table.datalake.freshness": "a while"}}))
    assert info.freshness_ms == 180_000


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
        (pa.binary(4), pa.binary()),
        (pa.decimal128(10, 2), pa.decimal128(10, 2)),
        (pa.list_(pa.timestamp("ms")), pa.list_(pa.timestamp("us"))),
        (pa.map_(pa.string(), pa.binary(2)), pa.map_(pa.string(), pa.binary())),
        (pa.struct([pa.field("x", pa.timestamp("ms"))]), pa.struct([pa.field("x", pa.timestamp("us"))])),
        (pa.timestamp("ns"), pa.timestamp("ns")),
    ],
)
def test_values_go_into_the_lake_in_a_type_that_loses_nothing(kind: pa.DataType, expected: pa.DataType) -> None:
    assert lake_type(kind).equals(expected)


def test_an_unknown_type_is_named_and_the_table_is_still_listed() -> None:
    info = table_info(described(with_type({"type": "VARIANT"})))
    assert info.schema.names == ["id", "city", "at", "odd"]
    assert info.refusal == "column 'odd' has the Fluss type VARIANT, which Lakeward does not know"


@pytest.mark.parametrize(
    "kind", [{"type": "TIME_WITHOUT_TIME_ZONE", "precision": 3}, {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 9}]
)
def test_a_type_that_no_lake_table_holds_is_refused_by_the_lake_by_name(kind: dict[str, Any]) -> None:
    info = table_info(described(with_type(kind)))
    with pytest.raises(UnsupportedType, match="'odd'"):
        IcebergLake({}).check_schema(info)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"schema": {}}', b'{"schema": {"columns": [{}]}, "bucket_count": 1}', b'"x"'])
def test_a_description_that_cannot_be_read_says_so_and_harms_no_other_table(text: bytes) -> None:
    info = table_info(replace(described(DOCUMENT), table_json=text))
    assert (info.path, info.lake_enabled) == (PATH, False)
    assert info.refusal is not None
    assert "cannot be read" in info.refusal


ODD = "its log is in the format 'ODD' (table.log.format), which Lakeward cannot read"


@pytest.mark.parametrize(
    ("options", "kind", "refusal"),
    [
        (
            {"table.log.format": "odd"},
            {"type": "STRING"},
            "its log is in the format 'ODD' (table.log.format), which Lakeward cannot read",
        ),
        ({"table.log.format": "indexed"}, {"type": "STRING"}, None),
        ({"table.kv.format": "COMPACTED", "table.log.format": "compacted"}, {"type": "CHAR", "length": 3}, None),
        (
            {"table.kv.format": "INDEXED"},
            {"type": "ARRAY", "element_type": {"type": "CHAR", "length": 3}},
            "it has a column of type CHAR and rows in the format INDEXED, which Lakeward cannot read",
        ),
    ],
)
def test_a_format_of_rows_that_cannot_be_read_is_named(options: dict[str, str], kind: dict[str, Any], refusal: str | None) -> None:
    document = with_type(kind)
    assert table_info(described({**document, "properties": {**document["properties"], **options}})).refusal == refusal
