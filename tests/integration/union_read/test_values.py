"""Values of every type in `fluss.db.t`, from the lake and from the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from support.fresh.needed_segments import only_segments
from support.running.cluster_of_processes import Deployment
from support.values.every_type import CASES, ROWS
from tiering.cli.spark.properties import CATALOG
from tiering.cluster.embedded.log.bucketing import key_buckets
from tiering.model.tables import TableInfo, TablePath

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


DATED = pa.schema(
    [
        pa.field("day", pa.date32(), nullable=False),
        pa.field("born", pa.date32(), nullable=False),
        pa.field("visited", pa.date32()),
        pa.field("tiny", pa.int8()),
        pa.field("small", pa.int16()),
    ]
)
DAYS = [date.min, date(1969, 12, 31), date(1970, 1, 1), date.max]
BORN = [date(1990, 1, 1) + timedelta(number) for number in range(12)]


def dated_rows(first: int, tiny: int) -> pa.Table:
    """Returns a row for each of DAYS and for each of BORN from `first` on."""
    dates, small = [None, *DAYS], [None, -(2**15), 0, 2**15 - 1]
    rows = [
        {"day": day, "born": BORN[number], "visited": dates[number % 5], "tiny": tiny if number % 3 else None, "small": small[number % 4]}
        for day in DAYS
        for number in range(first, len(BORN))
    ]
    return pa.Table.from_pylist(rows, DATED)


@pytest.fixture(scope="module", params=["dated_log", "dated_keys"])
def dated(request: pytest.FixtureRequest, service: Deployment) -> TableInfo:
    """A log table or a primary-key table with the partition column `day` and the bucket key `born`. Rows from two rounds are in the lake,
    with -128 and 0 as `tiny`, and rows with 127 in the log."""
    path = TablePath("sales", request.param)
    shape: dict[str, tuple[str, ...]] = {"bucket_keys": ("born",)} if path.table_name == "dated_log" else {"primary_key": ("day", "born")}
    service.create(path, "1 h", DATED, 4, None, partition_keys=("day",), **shape)
    with service.cluster() as cluster:
        write = cluster.append if "bucket_keys" in shape else cluster.upsert
        for number, (first, tiny) in enumerate([(0, -128), (4, 0), (8, 127)]):
            write(path, dated_rows(first, tiny), "w", number)
            if number < 2:
                service.lakeward("tier", str(path))
        return cluster.table(path)


CONDITIONS = [
    "day = DATE'0001-01-01'",
    "day <> DATE'1970-01-01'",
    "day < DATE'0001-01-01' OR day > DATE'9999-12-31'",
    "day >= DATE'1970-01-01' AND born < DATE'1990-01-05'",
    "day IN (DATE'1969-12-31', DATE'9999-12-31', NULL)",
    "NOT (day IN (DATE'1969-12-31', NULL))",
    "born = DATE'1990-01-12'",
    "born IN (DATE'1990-01-01', DATE'1990-01-11', DATE'2000-01-01')",
    "visited IS NULL",
    "visited IS NOT NULL AND tiny IS NULL",
    "visited <=> NULL",
    "visited <=> DATE'9999-12-31'",
    "visited <= DATE'1969-12-31'",
    "NOT (visited > DATE'1969-12-31')",
    "visited < DATE'+10000-01-01'",
    "visited > DATE'-5877641-06-23' AND visited <> DATE'+5881580-07-11'",
    "day = DATE'+5881580-07-11' OR born = DATE'-0001-12-31'",
    "visited = NULL OR visited NOT IN (DATE'0001-01-01')",
    "year(visited) = 1970",
    "day = '1970-01-01'",
    "tiny = -128",
    "tiny IN (127, -128) AND small > 0",
    "NOT (tiny < 127)",
    "tiny > 1000 OR small <= -32768",
    "CAST(tiny AS INT) + 1 = 1",
    "small <=> NULL",
    "small BETWEEN -1 AND 32767",
]


def test_conditions_on_dates_and_narrow_integers_have_the_rows_that_spark_finds(fresh_spark: SparkSession, dated: TableInfo) -> None:
    fresh = fresh_spark.table(f"{CATALOG}.{dated.path}")
    everything = fresh_spark.createDataFrame(fresh.toArrow())
    assert everything.count() == 4 * (12 if dated.primary_key else 12 + 8 + 4)
    for condition in CONDITIONS:
        expected = everything.where(condition)
        assert sorted(map(repr, fresh.where(condition).collect())) == sorted(map(repr, expected.collect())), condition
        assert fresh.where(condition).count() == expected.count(), condition


def test_a_condition_on_dates_reads_only_what_it_needs_of_the_log(service: Deployment, fresh_spark: SparkSession, dated: TableInfo) -> None:
    def bucket(born: date) -> int:
        [number] = key_buckets(dated, pa.record_batch({"born": pa.array([born], pa.date32())}))
        return number

    fresh = fresh_spark.table(f"{CATALOG}.{dated.path}")
    needed: list[tuple[str, Callable[[Mapping[str, Any]], bool]]] = [
        ("day = DATE'0001-01-01'", lambda row: row["day"] == date.min),
        ("day > DATE'1969-12-31'", lambda row: row["day"] > date(1969, 12, 31)),
        ("day IN (DATE'1970-01-01', DATE'2000-01-01')", lambda row: row["day"] == date(1970, 1, 1)),
        ("born = DATE'1990-01-12'", lambda row: bucket(row["born"]) == bucket(date(1990, 1, 12))),
    ]
    for condition, is_needed in needed:
        rows = sorted(map(repr, fresh.where(condition).collect()))
        with only_segments(service, dated.path, is_needed) as (near, away):
            assert near > 0 < away
            assert sorted(map(repr, fresh.where(condition).collect())) == rows != []
            with pytest.raises(PySparkException):
                fresh.collect()


@pytest.mark.parametrize("dated", ["dated_log"], indirect=True)
def test_a_condition_on_a_date_or_narrow_integer_reaches_the_scan_of_the_lake(fresh_spark: SparkSession, dated: TableInfo) -> None:
    fresh = fresh_spark.table(f"{CATALOG}.{dated.path}")
    fresh_spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        assert lake_rows(fresh) == 4 * (12 + 8)
        assert lake_rows(fresh.where("tiny = 0")) == 4 * 8
        assert lake_rows(fresh.where("tiny IN (-128, 50) OR tiny < -100")) == 4 * 12
        assert lake_rows(fresh.where("tiny > 0 AND tiny <> 5")) == 0
        assert lake_rows(fresh.where("day = DATE'9999-12-31'")) == 12 + 8
    finally:
        fresh_spark.conf.unset("spark.sql.adaptive.enabled")


def lake_rows(frame: DataFrame) -> int:
    """Returns the number of rows that Iceberg's scan of the frame returns."""
    frame.collect()
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    scans = [leaves.apply(place) for place in range(leaves.size())]
    [lake] = [scan for scan in scans if "IcebergScan" in scan.toString()]
    return int(lake.metrics().apply("numOutputRows").value())
