"""Other readers of a lake table get every type, partition values that find the row, and correct counts and bounds."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.transforms import BucketTransform

from support.lakes.lake_files import B0, B1, commit, commit_all, context, write
from tiering.errors import InvalidData
from tiering.lake.iceberg.writing.data_files import decode_files
from tiering.model.tables import BucketKey, TableInfo

EVERY_TYPE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, None, False]),
    "int8": (pa.int8(), [-128, None, 127]),
    "int16": (pa.int16(), [-32768, None, 32767]),
    "int32": (pa.int32(), [-(2**31), None, 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), None, 2**63 - 1]),
    "float": (pa.float32(), [1.5, None, float("inf")]),
    "double": (pa.float64(), [-0.1, None, 1e300]),
    "decimal9": (pa.decimal128(9, 2), [Decimal("-1234567.89"), None, Decimal("0.01")]),
    "decimal18": (pa.decimal128(18, 0), [Decimal(10**18 - 1), None, Decimal(-1)]),
    "decimal38": (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789"), None, Decimal("-0.5")]),
    "string": (pa.string(), ["grün", None, ""]),
    "large_string": (pa.large_string(), ["a" * 40, None, "b"]),
    "binary": (pa.binary(), [b"\x00\xff", None, b""]),
    "date": (pa.date32(), [date(1, 1, 1), None, date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us"), [datetime(1969, 12, 31, 23, 59, 59, 999999), None, datetime(2262, 1, 1)]),
    "timestamptz": (pa.timestamp("us", "UTC"), [datetime(2024, 2, 29, tzinfo=UTC), None, datetime(1900, 1, 1, tzinfo=UTC)]),
    "list": (pa.list_(pa.int32()), [[1, None], None, []]),
    "map": (pa.map_(pa.string(), pa.float64()), [[("k", 1.0)], None, []]),
    "struct": (pa.struct([("a", pa.int16()), ("b", pa.string())]), [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "only_nulls": (pa.string(), [None, None, None]),
}


def every_type(kit: Any) -> tuple[TableInfo, pa.RecordBatch]:
    table = kit.table(schema=pa.schema([(name, kind) for name, (kind, _) in EVERY_TYPE.items()]))
    columns = [pa.array(values, kind) for kind, values in EVERY_TYPE.values()]
    system = kit.rows(kit.table(), B0, 0, 3)
    columns += [system.column(name) for name in ("__bucket", "__offset", "__timestamp")]
    return table, pa.RecordBatch.from_arrays(columns, schema=table.lake_schema())


def test_every_type_and_its_nulls_come_back_by_pyiceberg_and_duckdb(kit: Any) -> None:
    table, batch = every_type(kit)
    iceberg = commit(kit, table, write(kit, table, batch))
    expected = batch.to_pylist()
    assert iceberg.scan().to_arrow().to_pylist() == expected
    (file,) = [task.file.file_path for task in iceberg.scan().plan_files()]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        read = connection.sql(f"SELECT * FROM read_parquet('{file}') ORDER BY __offset").to_arrow_table()
    flat = [name for name in EVERY_TYPE if name != "map"]
    # A map is rows of key and value to duckdb, and pairs to pyarrow.
    assert read.select(flat).to_pylist() == [{name: row[name] for name in flat} for row in expected]


def test_a_files_description_is_that_of_the_file(kit: Any) -> None:
    table, batch = every_type(kit)
    result = write(kit, table, batch)
    (file,) = decode_files(result.payload).files
    path = Path(file.file_path.removeprefix("file://"))
    assert path.parent == Path(kit.catalog().load_table(str(table.path)).location().removeprefix("file://")) / "data/__bucket=0"
    assert (result.records, result.files, result.size_bytes) == (3, 1, path.stat().st_size)
    schema = kit.view(table).handle.schema()
    assert file.null_value_counts[schema.find_field("int8").field_id] == 1
    assert file.null_value_counts[schema.find_field("only_nulls").field_id] == 3
    assert file.lower_bounds[schema.find_field("__offset").field_id] == (0).to_bytes(8, "little")
    assert file.upper_bounds[schema.find_field("__offset").field_id] == (2).to_bytes(8, "little")
    assert file.upper_bounds[schema.find_field("int8").field_id] == (127).to_bytes(4, "little")
    ids = [pq.read_schema(path).field(name).metadata[b"PARQUET:field_id"] for name in ("boolean", "__timestamp")]
    assert ids == [b"1", b"23"]


def test_a_scan_skips_files_by_the_bounds(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    kit.tier(table, "r2", {B0: 20})
    files = list(kit.catalog().load_table(str(table.path)).scan(row_filter="__offset >= 15").plan_files())
    assert len(files) == 1


def test_pyiceberg_and_duckdb_see_the_same_rows(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 3_000, B1: 50})
    kit.tier(table, "r2", {B0: 3_500})
    iceberg = kit.catalog().load_table(str(table.path))
    files = iceberg.inspect.files()["file_path"].to_pylist()
    scanned = iceberg.scan().to_arrow()
    expected = pa.Table.from_batches([kit.rows(table, B0, 0, 3_500), kit.rows(table, B1, 0, 50)]).to_pylist()
    with duckdb.connect() as connection:
        connection.register("scanned", scanned)
        connection.execute("SET TimeZone = 'UTC'")
        rows = f"(SELECT * FROM read_parquet({files}))"
        assert connection.execute(f"SELECT count(*) FROM (FROM scanned EXCEPT ALL {rows})").fetchone() == (0,)
        assert connection.execute(f"SELECT count(*) FROM ({rows} EXCEPT ALL FROM scanned)").fetchone() == (0,)
    assert sorted(scanned.to_pylist(), key=_place) == sorted(expected, key=_place)


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return (row["__bucket"], row["__offset"])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), list(range(200))),
        (pa.int64(), list(range(200))),
        (pa.decimal128(12, 2), [Decimal(n).scaleb(-2) for n in range(200)]),
        (pa.date32(), [date.fromordinal(730_000 + n) for n in range(200)]),
        (pa.timestamp("us"), [datetime.fromtimestamp(n * 7_919, UTC).replace(tzinfo=None) for n in range(200)]),
        (pa.string(), [f"grün {n}" for n in range(200)]),
        (pa.binary(), [bytes([n, 1]) for n in range(200)]),
    ],
    ids=["int", "long", "decimal", "date", "timestamp", "string", "binary"],
)
def test_the_partition_value_of_a_hashed_key_is_the_bucket(kit: Any, kind: pa.DataType, values: list[Any]) -> None:
    """A reader that filters by one key opens only one bucket's files, and finds the row."""
    table = kit.table(schema=pa.schema([pa.field("user-id", kind, nullable=False)]), bucket_keys=("user-id",), bucket_count=4)
    iceberg_type = kit.lake.ensure_table(table).handle.schema().find_field("user-id").field_type
    hashed = BucketTransform(4).pyarrow_transform(iceberg_type)(pa.array(values, kind)).to_pylist()
    factory, view = kit.lake.tiering_factory(table), kit.view(table)
    results = []
    for number in range(4):
        mine = [value for value, target in zip(values, hashed, strict=True) if target == number]
        assert mine
        system = kit.rows(kit.table(), BucketKey(None, number), 0, len(mine))
        columns = [pa.array(mine, kind), *(system.column(name) for name in ("__bucket", "__offset", "__timestamp"))]
        writer = factory.create_writer(context(table, view, BucketKey(None, number)))
        writer.write(pa.RecordBatch.from_arrays(columns, schema=table.lake_schema()))
        results.append(writer.complete(0, len(mine)))
    iceberg = commit_all(kit, table, results)
    assert {entry["partition"]["user-id_bucket"] for entry in iceberg.inspect.files().to_pylist()} == {0, 1, 2, 3}
    for value in values[::40]:
        scan = iceberg.scan(row_filter=EqualTo("user-id", value))
        assert len(list(scan.plan_files())) == 1
        assert scan.to_arrow().num_rows == 1


def test_partition_columns_are_partition_values(kit: Any) -> None:
    fields = [pa.field("day", pa.date32(), nullable=False), pa.field("region", pa.string(), nullable=False)]
    table = kit.table(schema=pa.schema(fields), partition_keys=("day", "region"))
    view = kit.lake.ensure_table(table)
    key = BucketKey(17, 0)
    system = kit.rows(kit.table(), B0, 0, 3)
    columns = [pa.array([date(2024, 2, 29)] * 3), pa.array(["north-1"] * 3), *(system.column(name) for name in system.schema.names[-3:])]
    writer = kit.lake.tiering_factory(table).create_writer(context(table, view, key, "2024-02-29$north-1"))
    writer.write(pa.RecordBatch.from_arrays(columns, schema=table.lake_schema()))
    iceberg = commit(kit, table, writer.complete(0, 3))
    (file,) = iceberg.inspect.files().to_pylist()
    assert file["partition"] == {"day": date(2024, 2, 29), "region": "north-1", "__bucket": 0}
    assert "/day=2024-02-29/region=north-1/__bucket=0/lakeward-round-n-17-0-" in file["file_path"]
    assert iceberg.scan(row_filter="day = '2024-02-29' and region = 'north-1'").to_arrow().num_rows == 3
    for wrong in (None, "2024-02-29", "2024-02-30$north", "a$b$c"):
        with pytest.raises(InvalidData):
            kit.lake.tiering_factory(table).create_writer(context(table, view, key, wrong))
