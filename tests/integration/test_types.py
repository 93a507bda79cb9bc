"""Every type, written by Lakeward, reads back equal in pyiceberg, in Spark with the Iceberg runtime, and in DuckDB.

One table of cases. One exception is written down: pyiceberg 0.12 reads a NULL list of structs, or map to structs, as an
empty one; the files have it right, as the other two show. The lake table has two rounds: the second one brings a column
that was added meanwhile. A second lake table has no rows at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyspark.sql import SparkSession

from support.lakes.lake_kit import LakeKit, bucket
from support.running.spark_sessions import spark_session
from support.values.every_type import CASES, LATER, LATER_VALUES, ROWS
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.lake.base import Committable, WriterInitContext
from tiering.lake.marker import TieredRange
from tiering.model.tables import TableInfo

B0 = bucket(0)


def _table(kit: LakeKit, name: str, table_id: int) -> TableInfo:
    columns = [pa.field(name, kind) for name, (kind, _) in CASES.items()]
    return kit.table(name, table_id, pa.schema(columns), bucket_count=1)


def _batch(kit: LakeKit, table: TableInfo, start: int) -> pa.RecordBatch:
    system = kit.rows(kit.table(), B0, start, start + ROWS)
    values = {**{name: case[1] for name, case in CASES.items()}, LATER.name: LATER_VALUES}
    arrays = [
        pa.array(values[field.name], field.type) if field.name in values else system.column(field.name) for field in table.lake_schema()
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.lake_schema())


def _tier(kit: LakeKit, table: TableInfo, round_id: str, start: int, batches: list[pa.RecordBatch]) -> None:
    base = kit.lake.ensure_table(table)
    factory = kit.lake.tiering_factory(table)
    writer = factory.create_writer(WriterInitContext(table, base.table_uuid, B0, None, round_id, "nonce"))
    for batch in batches:
        writer.write(batch)
    stop = start + sum(batch.num_rows for batch in batches)
    committer = factory.create_committer()
    marker = replace(kit.prepare(table, round_id, {}).marker, buckets={B0: TieredRange(0, stop)})
    committer.commit(Committable(round_id, (writer.complete(start, stop),)), base, marker)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> LakeKit:
    kit = LakeKit(tmp_path_factory.mktemp("types"))
    table = _table(kit, "every_type", 1)
    _tier(kit, table, "r1", 0, [_batch(kit, table, 0)])
    later = replace(table, schema=table.schema.append(LATER))
    _tier(kit, later, "r2", ROWS, [_batch(kit, later, ROWS)])
    _tier(kit, _table(kit, "no_rows", 2), "r3", 0, [])
    return kit


@pytest.fixture(scope="module")
def spark(kit: LakeKit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("warehouse"), lake_properties_for_spark(kit.properties)) as session:
        yield session


Reader = Callable[[str], pa.Table]


@pytest.fixture(scope="module")
def readers(kit: LakeKit, spark: SparkSession) -> Mapping[str, Reader]:
    """Each reads a lake table of `sales` whole."""

    def by_pyiceberg(name: str) -> pa.Table:
        return kit.catalog().load_table(f"sales.{name}").scan().to_arrow()

    def by_spark(name: str) -> pa.Table:
        return spark.table(f"lake.sales.{name}").toArrow()

    def by_duckdb(name: str) -> pa.Table:
        iceberg = kit.catalog().load_table(f"sales.{name}")
        files = [task.file.file_path for task in iceberg.scan().plan_files()]
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.execute("FROM read_parquet(?, union_by_name => true)", [files]).to_arrow_table()

    return {"pyiceberg": by_pyiceberg, "spark": by_spark, "duckdb": by_duckdb}


@pytest.fixture(scope="module")
def read(readers: Mapping[str, Reader]) -> Mapping[str, dict[str, list[Any]]]:
    """By reader: every column of `every_type`, in the order of offsets."""
    return {name: reader("every_type").sort_by("__offset").to_pydict() for name, reader in readers.items()}


def _same(value: Any) -> Any:
    """A map is pairs to one reader, and a list of key and value to another."""
    if isinstance(value, dict):
        return tuple(_same(part) for part in value.values())
    if isinstance(value, list | tuple):
        return tuple(_same(part) for part in value)
    return bytes(value) if isinstance(value, bytearray) else value


def _as_pyiceberg_reads(value: Any, kind: pa.DataType) -> Any:
    """`value` with its NULL lists of structs and maps to structs empty (see the module's docstring)."""
    if pa.types.is_struct(kind):
        return None if value is None else {child.name: _as_pyiceberg_reads(value[child.name], child.type) for child in kind}
    if pa.types.is_list(kind):
        empty = [] if pa.types.is_struct(kind.value_type) else None
        return empty if value is None else [_as_pyiceberg_reads(child, kind.value_type) for child in value]
    if pa.types.is_map(kind):
        empty = [] if pa.types.is_struct(kind.item_type) else None
        return empty if value is None else [(key, _as_pyiceberg_reads(child, kind.item_type)) for key, child in value]
    return value


def _expected(values: list[Any], kind: pa.DataType, reader: str) -> list[Any]:
    read = pa.array(values, kind).to_pylist()
    return [_same(_as_pyiceberg_reads(value, kind) if reader == "pyiceberg" else value) for value in read]


@pytest.mark.parametrize("reader", ["pyiceberg", "spark", "duckdb"])
@pytest.mark.parametrize("column", CASES)
def test_a_type_reads_back_equal(read: Mapping[str, dict[str, list[Any]]], column: str, reader: str) -> None:
    kind, values = CASES[column]
    assert [_same(value) for value in read[reader][column]] == _expected(values, kind, reader) * 2


@pytest.mark.parametrize("reader", ["pyiceberg", "spark", "duckdb"])
def test_a_column_that_came_later_is_null_in_the_rows_before_it(read: Mapping[str, dict[str, list[Any]]], reader: str) -> None:
    column_values = read[reader][LATER.name]
    assert column_values[:ROWS] == [None] * ROWS
    assert [_same(value) for value in column_values[ROWS:]] == _expected(LATER_VALUES, LATER.type, reader)


@pytest.mark.parametrize("reader", ["pyiceberg", "spark"])
def test_a_table_without_rows_has_its_columns(readers: Mapping[str, Reader], reader: str) -> None:
    columns_read = readers[reader]("no_rows")
    assert columns_read.num_rows == 0
    assert columns_read.column_names == [*CASES, "__bucket", "__offset", "__timestamp"]


FLAT = [name for name, (kind, values) in CASES.items() if not pa.types.is_nested(kind) and values.count(None) < ROWS]


@pytest.mark.parametrize("column", FLAT)
def test_a_filter_finds_each_value_and_the_nulls(kit: LakeKit, spark: SparkSession, column: str) -> None:
    """Readers skip files by counts and bounds."""
    iceberg = kit.catalog().load_table("sales.every_type")
    kind, values = CASES[column]
    # pyiceberg takes a filter for an infinite float32 to be one that no float32 can meet.
    wanted = [value for value in pa.array(values, kind).to_pylist() if value not in (None, float("inf"), float("-inf"))]
    for value in wanted:
        matching_rows = iceberg.scan(row_filter=EqualTo(column, value), selected_fields=(column,)).to_arrow()
        assert matching_rows.num_rows == 2 * wanted.count(value), value
    assert iceberg.scan(row_filter=f"{column} is null", selected_fields=(column,)).to_arrow().num_rows == 2
    assert spark.table("lake.sales.every_type").where(f"{column} IS NULL").count() == 2


def test_a_filter_on_a_nested_field_finds_its_row(kit: LakeKit, spark: SparkSession) -> None:
    iceberg = kit.catalog().load_table("sales.every_type")
    assert iceberg.scan(row_filter=EqualTo("a_struct.x", -5), selected_fields=("__offset",)).to_arrow().num_rows == 2
    lake = spark.table("lake.sales.every_type")
    assert [lake.where(text).count() for text in ("a_struct.x = -5", "a_struct.x IS NULL", "get(added_later, 0).label = 'later'")] == [
        2,
        4,
        1,
    ]
