"""Iceberg tables as rounds leave them, read by every engine that we can have: each answer is right, or a named limit of its reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyspark.sql import SparkSession

from support.readers.cases import Case, all_cases
from support.readers.iceberg_readers import ICEBERG_LIMITS, iceberg_readers
from support.readers.matrix import Cell, difference_of, matrix
from support.readers.page import PAGE, page
from support.readers.source_tables import LAYOUTS, Tables, TieredWorld
from support.running.spark_sessions import spark_session
from support.values.every_type import CASES, ROWS
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.errors import UnsupportedType

READERS = ("pyiceberg", "spark", "duckdb", "datafusion", "polars", "daft")


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
def cells(lake: TieredLake, spark: SparkSession) -> Sequence[Cell]:
    return matrix(lake.cases, iceberg_readers(lake.world.lake_properties, spark), ICEBERG_LIMITS)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reader_has_the_right_rows_or_a_named_limit(cells: Sequence[Cell], layout: str, reader: str) -> None:
    of_reader = [cell for cell in cells if (cell.case.layout, cell.reader.name) == (layout, reader)]
    assert len(of_reader) > 60
    assert {cell.case.title: cell.difference for cell in of_reader if not cell.is_explained} == {}


def test_the_page_is_made_of_these_results(cells: Sequence[Cell]) -> None:
    assert {cell.reader.name for cell in cells} == set(READERS)
    assert PAGE.read_text() == page({"Iceberg": cells}), "PYTHONPATH=tests .venv/bin/python -m support.readers.page writes it anew"


def test_a_difference_is_seen() -> None:
    """Of rows, of their number, of types and of columns; else the matrix would be equal whatever a reader answers."""
    right = pa.table({"id": [1, 2], "text": ["a", None]})
    assert difference_of(right.take([1, 0]), right) is None
    assert difference_of(pa.table({"id": [1, 2], "text": ["a", ""]}), right) == "{'id': 2, 'text': ''} for {'id': 2, 'text': None}"
    assert difference_of(right.slice(0, 1), right) == "1 rows for 2"
    assert difference_of(pa.concat_tables([right, right.slice(0, 1)]), right) == "3 rows for 2"
    assert difference_of(right.rename_columns(["id", "name"]), right) == "columns ['id', 'name']"
    assert str(difference_of(right.set_column(0, "id", pa.array([1, 2], pa.int32())), right)).startswith("types ")
    assert difference_of("ValueError: no", right) == "ValueError: no"


@pytest.mark.parametrize("kind", [pa.time32("ms"), pa.time64("us"), pa.binary(4), pa.timestamp("ns"), pa.timestamp("ns", "UTC")], ids=str)
def test_a_type_that_no_lake_table_holds_is_refused_by_name(lake: TieredLake, kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedType, match="refused_column"):
        Tables(lake.world, "system-columns").make("refused", pa.schema([pa.field("refused_column", kind)]))


FLAT = [name for name, (kind, values) in CASES.items() if not pa.types.is_nested(kind) and values.count(None) < ROWS]


@pytest.mark.parametrize("layout", LAYOUTS)
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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_spark_finds_nulls_and_nested_fields(spark: SparkSession, lake: TieredLake, layout: str) -> None:
    database = layout.replace("-", "_")
    conditions = {**{f"{name} IS NULL": 2 for name in FLAT}, "a_struct.x = -5": 2, "a_struct.x IS NULL": 4}
    counts = [f'SELECT "{text}", count(*) FROM lake.{database}.every_type WHERE {text}' for text in conditions]
    assert dict(map(tuple, spark.sql(" UNION ALL ".join(counts)).collect())) == conditions
    assert spark.table(f"lake.{database}.grown").where("get(added_later, 0).label = 'later'").count() == 1
    nested = lake.world.iceberg_catalog().load_table(f"{database}.every_type").scan(row_filter=EqualTo("a_struct.x", -5))
    assert nested.to_arrow().num_rows == 2
