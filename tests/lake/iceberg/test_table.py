"""The lake table itself: its layout, who may create it, and columns that do not fit."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from support.repository import ROOT
from tiering.errors import LakewardError, SchemaDrift
from tiering.lake.iceberg.schema.layout import table_layout
from tiering.lake.registry import open_lake
from tiering.model.tables import SYSTEM_COLUMNS, BucketKey, TableInfo, TableType

SALES = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("amount", pa.float64())])


def spec_of(view: Any) -> list[tuple[str, str, str]]:
    metadata = view.handle.metadata
    return [(field.name, metadata.schema().find_column_name(field.source_id), str(field.transform)) for field in metadata.spec().fields]


# --- layout


def test_a_log_table_without_a_key_is_laid_out_as_fluss_does_it(kit: Any) -> None:
    options = {"table.datalake.enabled": "true", "iceberg.write.distribution-mode": "none"}
    view = kit.lake.ensure_table(kit.table(properties=options))
    metadata = view.handle.metadata
    assert [(field.field_id, field.name, str(field.field_type), field.required) for field in metadata.schema().fields] == [
        (1, "id", "long", True),
        (2, "name", "string", False),
        (3, "small", "int", False),
        (4, "__bucket", "int", True),
        (5, "__offset", "long", True),
        (6, "__timestamp", "timestamptz", True),
    ]
    assert spec_of(view) == [("__bucket", "__bucket", "identity")]
    assert str(metadata.sort_order()).split() == ["[", "5", "ASC", "NULLS", "FIRST", "]"]
    assert metadata.sort_order().order_id == 1
    assert metadata.format_version == 2
    assert metadata.properties["fluss.table.datalake.enabled"] == "true"
    assert metadata.properties["write.distribution-mode"] == "none"
    assert not metadata.schema().identifier_field_ids
    assert (view.head, view.tiered, view.marker, view.records) == (None, None, None, 0)


def test_one_bucket_key_partitions_by_its_hash(kit: Any) -> None:
    view = kit.lake.ensure_table(kit.table(schema=SALES, bucket_keys=("id",), bucket_count=3))
    assert spec_of(view) == [("id_bucket", "id", "bucket[3]")]


def test_partition_columns_come_first(kit: Any) -> None:
    view = kit.lake.ensure_table(kit.table(schema=SALES, bucket_keys=("id",), partition_keys=("region",), bucket_count=3))
    assert spec_of(view) == [("region", "region", "identity"), ("id_bucket", "id", "bucket[3]")]


def test_several_bucket_keys_partition_by_the_bucket_column(kit: Any) -> None:
    view = kit.lake.ensure_table(kit.table(schema=SALES, bucket_keys=("id", "region")))
    assert spec_of(view) == [("__bucket", "__bucket", "identity")]


def test_a_primary_key_table_has_its_key_as_identifier_and_is_merged_on_read(kit: Any) -> None:
    table = kit.table(schema=SALES, primary_key=("region", "id"), partition_keys=("region",))
    layout = table_layout(TableInfo(**{**vars(table), "table_type": TableType.PRIMARY_KEY}))
    assert layout.schema.identifier_field_names() == {"region", "id"}
    assert [field.name for field in layout.spec.fields] == ["region", "id_bucket"]
    assert layout.properties["write.delete.mode"] == "merge-on-read"


def test_a_new_table_names_few_former_metadata_files_and_leaves_their_deletion_to_lakeward(kit: Any) -> None:
    properties = kit.lake.ensure_table(kit.table()).handle.metadata.properties
    assert properties["write.metadata.previous-versions-max"] == "20"
    assert "write.metadata.delete-after-commit.enabled" not in properties


def test_a_user_says_how_old_metadata_files_are_deleted(kit: Any) -> None:
    options = {"write.metadata.previous-versions-max": "3", "write.metadata.delete-after-commit.enabled": "true"}
    table = kit.table(properties={f"iceberg.{name}": value for name, value in options.items()})
    assert options.items() <= kit.lake.ensure_table(table).handle.metadata.properties.items()


def test_the_format_version_cannot_be_set_by_a_table_property(kit: Any) -> None:
    assert kit.lake.ensure_table(kit.table(properties={"iceberg.format-version": "1"})).handle.metadata.format_version == 2


# --- creating


def test_creating_again_gives_the_same_table(kit: Any) -> None:
    first, second = kit.lake.ensure_table(kit.table()), kit.lake.ensure_table(kit.table())
    assert first.table_uuid == second.table_uuid


def test_threads_that_create_at_once_get_one_table(kit: Any) -> None:
    gate, uuids, failed = threading.Barrier(6), [], []

    def create() -> None:
        gate.wait()
        try:
            uuids.append(open_lake("iceberg", kit.properties).ensure_table(kit.table()).table_uuid)
        except LakewardError as error:
            failed.append(error)

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(uuids) == 6
    assert len(set(uuids)) == 1


CREATE = """
import sys
sys.path.insert(0, sys.argv[1])
from support.lakes.lake_kit import LakeKit
from pathlib import Path
kit = LakeKit(Path(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
print(kit.lake.ensure_table(kit.table()).table_uuid, flush=True)
"""


def test_processes_that_create_at_once_get_one_table(kit: Any) -> None:
    arguments = [sys.executable, "-c", CREATE, str(ROOT / "tests"), str(kit.folder)]
    creators = [subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for creator in creators:
            assert creator.stdout is not None
            assert creator.stdout.readline() == "ready\n"
        for creator in creators:
            assert creator.stdin is not None
            creator.stdin.write("\n")
            creator.stdin.flush()
        uuids = {creator.communicate(timeout=60)[0].strip() for creator in creators}
    finally:
        for creator in creators:
            creator.kill()
            creator.wait()
    assert len(uuids) == 1
    assert uuids != {""}


# --- columns that do not fit


def change(kit: Any, table: TableInfo, how: str) -> None:
    iceberg = kit.catalog().load_table(str(table.path))
    with iceberg.update_schema(allow_incompatible_changes=True) as schema:
        match how:
            case "extra":
                schema.add_column("by_hand", StringType())
            case "missing":
                schema.delete_column("name")
            case "type":
                schema.delete_column("small")
                schema.add_column("small", DoubleType())
            case "widened":
                schema.update_column("small", field_type=LongType())
            case "required":
                schema.update_column("name", required=True)
            case "nullable offset":
                schema.make_column_optional("__offset")


@pytest.mark.parametrize(
    ("how", "column"),
    [
        ("extra", "by_hand"),
        ("missing", "name"),
        ("type", "small"),
        ("widened", "small"),
        ("required", "name"),
        ("nullable offset", "__offset"),
    ],
)
def test_a_column_that_does_not_fit_is_named(kit: Any, how: str, column: str) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    change(kit, table, how)
    with pytest.raises(SchemaDrift, match=repr(column)) as caught:
        kit.lake.ensure_table(table)
    assert caught.value.ids["column"] == column
    assert ("retier" if how in ("type", "widened") else "CALL sys.tier_table") in caught.value.hint


def test_a_column_that_was_mended_fits_again_under_another_field_id(kit: Any) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    change(kit, table, "type")
    iceberg = kit.catalog().load_table(str(table.path))
    with iceberg.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("small")
        schema.add_column("small", IntegerType())
    view = kit.lake.ensure_table(table)
    assert view.handle.schema().find_field("small").field_id == 8
    assert view.handle.schema().fields[-1].name == "small"


def test_a_nullable_lake_column_takes_a_required_one(kit: Any) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    with kit.catalog().load_table(str(table.path)).update_schema() as schema:
        schema.make_column_optional("id")
    kit.lake.ensure_table(table)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [PartitionField(4, 1000, BucketTransform(2), "id_bucket")],
        [PartitionField(1, 1000, IdentityTransform(), "__bucket_of_id")],
        [PartitionField(4, 1000, IdentityTransform(), "__bucket"), PartitionField(2, 1001, IdentityTransform(), "name")],
    ],
    ids=["unpartitioned", "hashed", "another column", "one more"],
)
def test_another_partition_spec_does_not_fit(kit: Any, fields: list[PartitionField]) -> None:
    table = kit.table()
    catalog = kit.catalog()
    catalog.create_namespace("sales")
    catalog.create_table(str(table.path), table_layout(table).schema, partition_spec=PartitionSpec(*fields))
    with pytest.raises(SchemaDrift, match="partitioned by"):
        kit.lake.ensure_table(table)


def test_another_number_of_buckets_does_not_fit(kit: Any) -> None:
    kit.lake.ensure_table(kit.table(schema=SALES, bucket_keys=("id",), bucket_count=3))
    with pytest.raises(SchemaDrift, match=r"bucket\[4\]"):
        kit.lake.ensure_table(kit.table(schema=SALES, bucket_keys=("id",), bucket_count=4))


def test_an_empty_table_made_by_hand_is_used_if_it_fits(kit: Any) -> None:
    catalog = kit.catalog()
    catalog.create_namespace("sales")
    fields = [("__timestamp", TimestamptzType()), ("__offset", LongType()), ("__bucket", IntegerType()), ("small", IntegerType())]
    schema = Schema(
        *(NestedField(number, name, kind, required=name in SYSTEM_COLUMNS) for number, (name, kind) in enumerate(fields, start=1)),
        NestedField(5, "name", StringType()),
        NestedField(6, "id", LongType(), required=True),
    )
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "__bucket"))
    foreign = catalog.create_table("sales.orders", schema, partition_spec=spec)
    table = kit.table()
    assert kit.lake.ensure_table(table).table_uuid == str(foreign.metadata.table_uuid)
    kit.tier(table, "r1", {BucketKey(None, 1): 30})
    assert kit.offsets_in_lake(table) == [(1, offset) for offset in range(30)]


def test_another_format_version_does_not_fit(kit: Any) -> None:
    table = kit.table()
    catalog = kit.catalog()
    catalog.create_namespace("sales")
    layout = table_layout(table)
    catalog.create_table(str(table.path), layout.schema, partition_spec=layout.spec, properties={"format-version": "1"})
    with pytest.raises(SchemaDrift, match="format version 1"):
        kit.lake.ensure_table(table)
