"""Iceberg tables as rounds leave them, read by every engine that we can have: each answer is right, or a named limit of its reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyspark.sql import SparkSession

from support.readers.cases import Case
from support.readers.environment import TEST_SECONDS
from support.readers.iceberg_readers import ICEBERG_LIMITS, iceberg_readers
from support.readers.matrix import AskedOnce, asked_once
from support.readers.page import INTRODUCTION, PAGE, section, sections
from support.readers.source_tables import LAYOUTS, Tables, TieredWorld
from support.readers.stories import all_cases
from support.running.spark_sessions import spark_session
from support.values.every_type import CASES, ROWS
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.errors import UnsupportedType

pytestmark = pytest.mark.timeout(TEST_SECONDS)
READERS = ("pyiceberg", "spark", "duckdb", "duckdb-iceberg", "iceberg-go", "datafusion", "polars", "daft")


@dataclass(frozen=True)
class TieredLake:
    world: TieredWorld
    cases: Sequence[Case]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredLake]:
    world = TieredWorld(tmp_path_factory.mktemp("readers"))
    yield TieredLake(world, all_cases(world))
    world.close()


@pytest.fixture(scope="module")
def spark(lake: TieredLake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("warehouse"), lake_properties_for_spark(lake.world.lake_properties)) as session:
        yield session


@pytest.fixture(scope="module")
def cells_of(lake: TieredLake, spark: SparkSession) -> AskedOnce:
    return asked_once(lake.cases, iceberg_readers(lake.world.lake_properties, spark), ICEBERG_LIMITS)


@pytest.mark.in_turn("layout")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("layout", LAYOUTS["iceberg"])
def test_a_reader_has_the_right_rows_or_a_named_limit(cells_of: AskedOnce, layout: str, reader: str) -> None:
    of_reader = cells_of(layout, reader)
    assert len(of_reader) > 60
    assert {cell.case.title: cell.difference for cell in of_reader if not cell.is_explained} == {}


@pytest.mark.soak
def test_the_page_is_made_of_these_results(cells_of: AskedOnce) -> None:
    cells = [cell for reader in READERS for layout in LAYOUTS["iceberg"] for cell in cells_of(layout, reader)]
    introduction, of_format = sections(PAGE.read_text())
    assert (introduction, of_format["Iceberg"]) == (INTRODUCTION, section("Iceberg", cells)), "support.readers.page writes it anew"
    assert set(of_format) == {"Iceberg", "Paimon"}


@pytest.mark.parametrize("kind", [pa.time32("ms"), pa.time64("us"), pa.binary(4), pa.timestamp("ns"), pa.timestamp("ns", "UTC")], ids=str)
def test_a_type_that_no_lake_table_holds_is_refused_by_name(lake: TieredLake, kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedType, match="refused_column"):
        Tables(lake.world, "system-columns").make("refused", pa.schema([pa.field("refused_column", kind)]))


FLAT = [name for name, (kind, values) in CASES.items() if not pa.types.is_nested(kind) and values.count(None) < ROWS]


@pytest.mark.parametrize("layout", LAYOUTS["iceberg"])
@pytest.mark.parametrize("column", FLAT)
def test_a_filter_finds_each_value_and_the_nulls(lake: TieredLake, layout: str, column: str) -> None:
    """Readers skip files by counts and bounds."""
    iceberg = lake.world.iceberg_catalog().load_table(f"{layout.replace('-', '_')}.every_type")
    kind, values = CASES[column]
    # pyiceberg takes a filter for an infinite float32 to be one that no float32 can meet.
    wanted = [value for value in pa.array(values, kind).to_pylist() if value not in (None, float("inf"), float("-inf"))]
    for value in wanted:
        matching_rows = iceberg.scan(row_filter=EqualTo(column, value), selected_fields=(column,)).to_arrow()
        assert matching_rows.num_rows == 2 * wanted.count(value), value
    assert iceberg.scan(row_filter=f"{column} is null", selected_fields=(column,)).to_arrow().num_rows == 2


@pytest.mark.parametrize("layout", LAYOUTS["iceberg"])
def test_spark_finds_nulls_and_nested_fields(spark: SparkSession, lake: TieredLake, layout: str) -> None:
    database = layout.replace("-", "_")
    conditions = {**{f"{name} IS NULL": 2 for name in FLAT}, "a_struct.x = -5": 2, "a_struct.x IS NULL": 4}
    counts = [f'SELECT "{text}", count(*) FROM lake.{database}.every_type WHERE {text}' for text in conditions]
    assert dict(map(tuple, spark.sql(" UNION ALL ".join(counts)).collect())) == conditions
    assert spark.table(f"lake.{database}.grown").where("get(added_later, 0).label = 'later'").count() == 1
    nested = lake.world.iceberg_catalog().load_table(f"{database}.every_type").scan(row_filter=EqualTo("a_struct.x", -5))
    assert nested.to_arrow().num_rows == 2
