"""Values of every type in `fluss.db.t`, from the lake and from the log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from support.values.every_type import CASES, ROWS
from tiering.cli.spark.properties import CATALOG
from tiering.model.tables import TablePath

ID = pa.field("id", pa.int64(), nullable=False)
SCHEMA = pa.schema([ID, *(pa.field(name, case[0]) for name, case in CASES.items())])
FLAT = [name for name in SCHEMA.names if not pa.types.is_nested(SCHEMA.field(name).type)]
SAME = [name for name in FLAT if name not in ("a_byte", "a_short")]
"""Columns whose types the lake has, too. Spark combines the columns of both parts, not their rows."""
LARGE = TablePath("sales", "large_values")
LARGE_SCHEMA = pa.schema([ID, pa.field("text", pa.string()), pa.field("texts", pa.list_(pa.string()))])
LARGE_ROWS = 20


def every_value(start: int) -> pa.Table:
    """Returns ROWS rows whose ids begin at `start`."""
    values = {name: pa.array(case[1], case[0]) for name, case in CASES.items()}
    return pa.table({"id": range(start, start + ROWS), **values}, schema=SCHEMA)


@pytest.fixture(scope="module")
def names(service: Deployment) -> dict[str, str]:
    """A log table and a primary-key table. The lake copy has every value, and the log has every value again in rows of its own."""
    keys: dict[str, tuple[str, ...]] = {"log_values": (), "keyed_values": ("id",)}
    with service.cluster() as cluster:
        for name, key in keys.items():
            path = TablePath("sales", name)
            service.create(path, "1 h", SCHEMA, 1, None, primary_key=key)
            write = cluster.upsert if key else cluster.append
            write(path, every_value(0), "w", 0)
            service.lakeward("tier", str(path))
            write(path, every_value(ROWS), "w", 1)
    return {name: f"{CATALOG}.sales.{name}" for name in keys}


@pytest.mark.parametrize("table", ["log_values", "keyed_values"])
@pytest.mark.parametrize("columns", [SAME, FLAT, SCHEMA.names], ids=["types of the lake", "flat types", "all types"])
def test_lake_and_log_have_the_values_that_were_written(
    fresh_spark: SparkSession, names: dict[str, str], table: str, columns: list[str]
) -> None:
    rows = fresh_spark.table(names[table]).select(columns).toArrow().sort_by("id").to_pylist()
    assert rows == pa.concat_tables([every_value(0), every_value(ROWS)]).select(columns).to_pylist()


@pytest.mark.parametrize("table", ["log_values", "keyed_values"])
@pytest.mark.parametrize("condition", ["an_int <> 0", "a_byte <> 0", "size(lists_of_lists) <> 1"])
def test_a_condition_and_a_computed_column_see_both_parts(
    fresh_spark: SparkSession, names: dict[str, str], table: str, condition: str
) -> None:
    statement = f"SELECT id, an_int + 1L AS more FROM {names[table]} WHERE {condition} AND an_int IS NOT NULL"
    rows = [(row.id, row.more) for row in fresh_spark.sql(statement).collect()]
    assert sorted(rows) == [(0, -(2**31) + 1), (2, 2**31), (ROWS, -(2**31) + 1), (ROWS + 2, 2**31)]


def test_spark_copies_no_row_of_the_lake_to_add_those_of_the_log(fresh_spark: SparkSession, names: dict[str, str]) -> None:
    fresh_spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        [row] = fresh_spark.sql(f"EXPLAIN SELECT sum(an_int + 1L) FROM {names['log_values']} WHERE an_int > 0").collect()
    finally:
        fresh_spark.conf.unset("spark.sql.adaptive.enabled")
    plan = row.plan.splitlines()
    [union] = [number for number, line in enumerate(plan) if line.endswith("Union")]
    assert "Filter" in plan[union - 2]
    assert "ColumnarToRow" in plan[union - 1]
    assert "BatchScan" in plan[union + 1]
    assert "IcebergScan" in plan[union + 1]
    assert "LakewardScan" in plan[union + 2]


@pytest.fixture(scope="module")
def large(service: Deployment) -> str:
    """A table with one row in the lake, and rows of two MiB in the log."""

    def rows(start: int, count: int, size: int) -> pa.Table:
        values = {"id": range(start, start + count), "text": ["x" * size] * count, "texts": [["x" * (size // 2)] * 2] * count}
        return pa.table(values, schema=LARGE_SCHEMA)

    service.create(LARGE, "1 h", LARGE_SCHEMA, 1, None)
    with service.cluster() as cluster:
        cluster.append(LARGE, rows(0, 1, 10), "w", 0)
        service.lakeward("tier", str(LARGE))
        for number in range(1, LARGE_ROWS + 1):
            cluster.append(LARGE, rows(number, 1, 1 << 20), "w", number)
    return f"{CATALOG}.{LARGE}"


@pytest.mark.parametrize("column", ["text", "texts"])
def test_a_batch_of_columns_ends_after_sixteen_mebibytes(fresh_spark: SparkSession, large: str, column: str) -> None:
    frame = fresh_spark.sql(f"SELECT id, {column} FROM {large}")
    sizes = {row.id: len("".join(row[column])) for row in frame.collect()}
    assert sizes == {0: 10} | dict.fromkeys(range(1, LARGE_ROWS + 1), 1 << 20)
    batches_of_lake = 1 if column == "text" else 0  # Iceberg returns a nested type in rows
    assert column_batches(frame._jdf.queryExecution().executedPlan()) == batches_of_lake + 2


def column_batches(plan: Any) -> int:
    """Returns the number of batches of columns that the scans of an executed plan returned."""
    own = plan.metrics().apply("numInputBatches").value() if plan.nodeName() == "ColumnarToRow" else 0
    return int(own) + sum(column_batches(plan.children().apply(number)) for number in range(plan.children().size()))
