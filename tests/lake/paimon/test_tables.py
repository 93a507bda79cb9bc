"""Lake tables as Fluss makes them, read back by pypaimon value by value; what does not fit is refused by name."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pypaimon import CatalogFactory
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange

from support.lake_kinds.without_pypaimon import without_pypaimon
from support.lakes.paimon_kit import COLUMNS, CREATED, PaimonKit
from tiering.errors import DataCorrupt, InvalidArgument, InvalidName, SchemaDrift, UnsupportedType
from tiering.lake.paimon.opening import open_paimon
from tiering.lake.paimon.schema.types import holds, lake_type, written_type
from tiering.lake.writing.paimon_bucket_hash import bucket_ids_of
from tiering.model.tables import BucketKey

POINT = pa.struct([pa.field("x", pa.int32()), pa.field("tags", pa.list_(pa.string()))])
EVERY_TYPE: dict[str, tuple[Any, list[Any]]] = {
    "a_bool": (pa.bool_(), [True, None]),
    "a_byte": (pa.int8(), [-128, None]),
    "a_short": (pa.int16(), [32767, None]),
    "an_int": (pa.int32(), [-(2**31), None]),
    "a_long": (pa.int64(), [2**63 - 1, None]),
    "a_float": (pa.float32(), [1.5, None]),
    "a_double": (pa.float64(), [float("inf"), None]),
    "a_decimal": (pa.decimal128(38, 10), [Decimal("-1.0000000001"), None]),
    "a_small_decimal": (pa.decimal128(5, 2), [Decimal("999.99"), None]),
    "a_string": (pa.string(), ["größer", None]),
    "a_binary": (pa.binary(), [b"\x00\xff", None]),
    "a_date": (pa.date32(), [date(2024, 2, 29), None]),
    "a_time": (pa.timestamp("us"), [datetime(2024, 2, 29, 1, 2, 3, 456789), None]),
    "an_instant": (pa.timestamp("us", "UTC"), [datetime(2024, 2, 29, 1, 2, 3, 456789, UTC), None]),
    "milliseconds": (pa.timestamp("ms"), [datetime(2024, 2, 29, 1, 2, 3, 456000), None]),
    "a_list": (pa.list_(pa.int64()), [[1, None, 3], None]),
    "a_map": (pa.map_(pa.string(), pa.float64()), [[("a", 1.0), ("b", None)], None]),
    "a_struct": (POINT, [{"x": 1, "tags": ["t", None]}, None]),
}


def test_every_type_comes_back(kit: PaimonKit) -> None:
    table = kit.log_table(pa.schema([pa.field(name, kind) for name, (kind, _) in EVERY_TYPE.items()]))
    kit.prepare(table, "r1", {name: values for name, (_, values) in EVERY_TYPE.items()}).commit()
    rows = kit.read(table)
    assert {name: rows[name].to_pylist() for name in EVERY_TYPE} == {name: values for name, (_, values) in EVERY_TYPE.items()}
    assert rows["__timestamp"].type == pa.timestamp("ms", "UTC")
    assert rows["__timestamp"].to_pylist() == [CREATED.replace(microsecond=123_000)] * 2, "microseconds of a log are left out"


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.time32("ms"), pa.uint8(), pa.list_(pa.uint32())])
def test_a_type_that_it_cannot_hold_is_refused(kit: PaimonKit, kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedType, match="'x'"):
        kit.lake.check_schema(kit.log_table(pa.schema([pa.field("x", kind)])))


@pytest.mark.parametrize("name", ["_KEY_id", "_VALUE_KIND", "rowkind"])
def test_a_column_with_a_name_of_paimons_own_is_refused(kit: PaimonKit, name: str) -> None:
    with pytest.raises(InvalidName, match=name):
        kit.lake.ensure_table(kit.log_table(pa.schema([pa.field(name, pa.int32())])))


def test_a_new_table_looks_as_fluss_makes_it(kit: PaimonKit) -> None:
    options = {"table.datalake.enabled": "true", "owner": "me"}
    kit.lake.ensure_table(kit.log_table(properties=options))
    schema = json.loads((kit.folder(kit.log_table()) / "schema" / "schema-0").read_text())
    assert [(field["id"], field["name"], field["type"]) for field in schema["fields"]] == [
        (0, "id", "BIGINT NOT NULL"),
        (1, "name", "STRING"),
        (2, "__bucket", "INT"),
        (3, "__offset", "BIGINT"),
        (4, "__timestamp", "TIMESTAMP_LTZ(3)"),
    ]
    assert schema["options"].items() >= {"bucket": "-1", "partition.legacy-name": "false", "fluss.table.datalake.enabled": "true"}.items()
    assert (schema["partitionKeys"], schema["primaryKeys"]) == ([], [])


def test_rows_of_a_bucket_key_are_where_paimon_looks_for_them(kit: PaimonKit) -> None:
    table = kit.log_table(bucket_keys=("id",))
    ids = list(range(50))
    buckets = bucket_ids_of([pa.array(ids)], 2)
    for bucket_id in (0, 1):
        chosen = [number for number in ids if buckets[number] == bucket_id]
        columns = {"id": chosen, "name": [str(number) for number in chosen]}
        kit.prepare(table, f"r{bucket_id}", columns, BucketKey(None, bucket_id)).commit()
    assert sorted(kit.read(table)["id"].to_pylist()) == ids
    for number in ids:  # a filter on the key reads one bucket alone
        assert kit.read(table, id=number)["name"].to_pylist() == [str(number)]


def test_a_cluster_that_hashes_in_another_way_is_found_out(kit: PaimonKit) -> None:
    table = kit.log_table(bucket_keys=("id",))
    wrong = next(number for number in range(50) if bucket_ids_of([pa.array([number])], 2)[0] == 1)
    with pytest.raises(DataCorrupt, match="does not hash to this bucket"):
        kit.prepare(table, "r1", {"id": [wrong], "name": ["x"]})


def test_partitions_by_string_date_and_number(kit: PaimonKit) -> None:
    columns = pa.schema([*COLUMNS, pa.field("region", pa.string()), pa.field("day", pa.date32()), pa.field("n", pa.int32())])
    table = kit.log_table(columns, partition_keys=("region", "day", "n"))
    for number, region in enumerate(("north", "a:b=c")):
        values = {"id": [number], "name": ["x"], "region": [region], "day": [date(2024, 1, 31)], "n": [-5]}
        kit.prepare(table, f"r{number}", values, BucketKey(number, 0), f"{region}$2024-01-31$-5").commit()
    assert (kit.folder(table) / "region=north" / "day=2024-01-31" / "n=-5" / "bucket-0").is_dir()
    assert sorted(kit.read(table)["region"].to_pylist()) == ["a:b=c", "north"]
    assert kit.read(table, region="north", day=date(2024, 1, 31), n=-5)["id"].to_pylist() == [0]
    offsets = kit.lake.row_offsets(table, kit.view(table), {"north$2024-01-31$-5": 1})
    assert offsets.ranges() == {("north$2024-01-31$-5", 0): (0, 1)}


def test_added_columns_come_before_the_system_columns_with_ids_of_their_own(kit: PaimonKit) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", [1])
    wider = kit.log_table(pa.schema([*COLUMNS, pa.field("at", POINT), pa.field("note", pa.string())]))
    kit.prepare(wider, "r2", {"id": [2], "name": ["2"], "at": [{"x": 5, "tags": ["a"]}], "note": ["new"]}).commit()
    rows = kit.read(wider).sort_by("id")
    assert rows.column_names == ["id", "name", "at", "note", "__bucket", "__offset", "__timestamp"]
    assert rows["note"].to_pylist() == [None, "new"]
    assert rows["at"].to_pylist() == [None, {"x": 5, "tags": ["a"]}]
    schema = json.loads((kit.folder(table) / "schema" / "schema-1").read_text())
    assert schema["highestFieldId"] == 9
    assert kit.lake.ensure_table(wider).head == 2


def test_files_of_a_round_that_began_before_a_column_was_added_are_committed(kit: PaimonKit) -> None:
    table = kit.log_table()
    prepared = kit.prepare(table, "r1", {"id": [1], "name": ["1"]})
    wider = kit.log_table(pa.schema([*COLUMNS, pa.field("note", pa.string())]))
    kit.lake.ensure_table(wider)
    base = kit.view(table)
    prepared.factory.create_committer().commit(prepared.committable, base, prepared.marker)
    assert kit.read(wider)["note"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"options": {"bucket": "3"}}, "has 3 buckets"),
        ({"options": {"deletion-vectors.enabled": "true"}}, "'deletion-vectors.enabled' = 'true'"),
        ({"options": {"deduplicate.ignore-delete": "true"}}, "'deduplicate.ignore-delete' = 'true'"),
        ({"options": {"consumer.expiration-time": "1 h"}}, "'consumer.expiration-time' = '1 h'"),
        ({"options": {"record-level.expire-time": "1 d"}}, "'record-level.expire-time' = '1 d'"),
        ({"options": {"bucket-function.type": "mod"}}, "'bucket-function.type' = 'mod'"),
        ({"rename": ("name", "title")}, "lacks|has the column 'title'"),
        ({"retype": ("id", "INT NOT NULL")}, "has the column 'id' as int32"),
        ({"retype": ("name", "STRING NOT NULL")}, "requires values in the column 'name'"),
        ({"drop": "__offset"}, "lacks the column '__offset'"),
        ({"drop": "name"}, "lacks the column 'name', which it had before"),
    ],
)
def test_a_change_by_another_program_is_named(kit: PaimonKit, change: dict[str, Any], difference: str) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", [1])
    folder = kit.folder(table) / "schema"
    schema = json.loads((folder / "schema-0").read_text())
    schema["id"] = 1
    schema["options"] |= change.get("options", {})
    for field in schema["fields"]:
        if field["name"] == change.get("rename", ("",))[0]:
            field["name"] = change["rename"][1]
        if field["name"] == change.get("retype", ("",))[0]:
            field["type"] = change["retype"][1]
    schema["fields"] = [field for field in schema["fields"] if field["name"] != change.get("drop")]
    (folder / "schema-1").write_text(json.dumps(schema))
    with pytest.raises(SchemaDrift, match=difference):
        kit.lake.ensure_table(table)


def test_the_hint_for_a_widened_column_names_what_gives_it_its_type_again(kit: PaimonKit) -> None:
    table = kit.log_table(pa.schema([*COLUMNS, pa.field("n", pa.int32())]))
    kit.prepare(table, "r1", {"id": [1], "name": ["1"], "n": [7]}).commit()
    catalog = CatalogFactory.create({"warehouse": str(kit.warehouse)})
    catalog.alter_table(str(table.path), [SchemaChange.update_column_type("n", AtomicType("BIGINT"))])
    with pytest.raises(SchemaDrift, match="has the column 'n' as int64") as refused:
        kit.lake.ensure_table(table)
    assert "'n' the type int32 again, with Flink" in refused.value.hint
    assert "SchemaChange.update_column_type" in refused.value.hint
    catalog.alter_table(str(table.path), [SchemaChange.update_column_type("n", AtomicType("INT"))])
    kit.prepare(table, "r2", {"id": [2], "name": ["2"], "n": [8]}).commit()
    assert sorted(kit.read(table)["n"].to_pylist()) == [7, 8]


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"type": "rest", "uri": "http://catalog"}, "a catalog of type 'rest'"),
        ({"warehouse": "gs://bucket/lake"}, "the warehouse 'gs://bucket/lake'"),
        ({"warehouse": "relative"}, "the warehouse 'relative'"),
        ({}, "the warehouse ''"),
    ],
)
def test_a_warehouse_that_is_no_folder_of_this_machine_is_refused(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        open_paimon(properties)


def test_without_pypaimon_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pypaimon(monkeypatch)
    with pytest.raises(InvalidArgument, match="package pypaimon") as refusal:
        open_paimon({"warehouse": "/tmp"})
    assert "[paimon]'" in refusal.value.hint


FLUSS_TYPES = [
    (pa.timestamp("us"), pa.timestamp("ms"), True),
    (pa.timestamp("us", "UTC"), pa.timestamp("s", "UTC"), True),
    (pa.timestamp("us"), pa.timestamp("ns"), False),
    (pa.timestamp("us"), pa.timestamp("us", "UTC"), False),
    (pa.binary(), pa.binary(7), True),
    (pa.binary(), pa.string(), False),
    (pa.list_(pa.timestamp("us")), pa.list_(pa.timestamp("ms")), True),
    (pa.list_(pa.int32()), pa.list_(pa.field("item", pa.int32(), nullable=False)), False),
    (pa.map_(pa.string(), pa.binary()), pa.map_(pa.string(), pa.binary(3)), True),
    (pa.struct([("a", pa.timestamp("us"))]), pa.struct([("a", pa.timestamp("s"))]), True),
    (pa.struct([("a", pa.int32())]), pa.struct([("b", pa.int32())]), False),
    (pa.int64(), pa.int32(), False),
]


@pytest.mark.parametrize(("wanted", "lake", "fits"), FLUSS_TYPES, ids=lambda value: str(value))
def test_a_column_that_fluss_made_takes_rows_of_its_own_precision(wanted: pa.DataType, lake: pa.DataType, fits: bool) -> None:
    assert holds(lake, wanted) is fits
    assert holds(lake, lake_type("c", wanted)) is fits


def test_bytes_of_a_fixed_length_are_written_as_plain_ones() -> None:
    assert written_type(pa.struct([("a", pa.list_(pa.binary(3)))])) == pa.struct([("a", pa.list_(pa.binary()))])
    assert written_type(pa.map_(pa.string(), pa.binary(3))) == pa.map_(pa.string(), pa.binary())
    assert written_type(pa.timestamp("ms")) == pa.timestamp("ms")
