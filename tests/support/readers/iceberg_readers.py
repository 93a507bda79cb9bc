"""The readers of Iceberg tables: those of this environment, and those of their own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from support.readers.duckdb_reader import duckdb_reader
from support.readers.environment import CHDB, DUCKDB, READERS, TRINO
from support.readers.kinds import ICEBERG_GO, GoReader, OutsideReader, OwnReader
from support.readers.matrix import Limit, sorted_rows
from support.readers.questions import Answer, Question, Reader
from tiering.cli.spark.jars import ICEBERG_RUNTIME
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.user_settings import CATALOG_NAME


def _reads_null_as_empty(answer: Answer, expected: pa.Table) -> bool:
    return not isinstance(answer, str) and sorted_rows(answer, empty_for_null=True) == sorted_rows(expected, empty_for_null=True)


def _refuses_shared_deletes(answer: Answer, _: pa.Table) -> bool:
    return isinstance(answer, str) and "position delete file not limited to one data file" in answer


def _lacks_null_and_types_of_clickhouse(answer: Answer, expected: pa.Table) -> bool:
    """ClickHouse has no type for bytes and for a time without a zone, and no NULL of a nested type."""
    if isinstance(answer, str) or answer.column_names != expected.column_names:
        return False
    return sorted_rows(_plainer(answer), empty_for_null=True) == sorted_rows(_plainer(expected), empty_for_null=True)


def _plainer(rows: pa.Table) -> pa.Table:
    kinds = {pa.string(): pa.binary(), pa.timestamp("us"): pa.timestamp("us", "UTC")}
    return rows.cast(pa.schema([field.with_type(kinds.get(field.type, field.type)) for field in rows.schema]))


ICEBERG_LIMITS = (
    Limit(
        "chdb",
        "chDB has no NULL of ARRAY, MAP and ROW, and shows an empty value. TIMESTAMP has the zone UTC there, and BYTES are a String.",
        _lacks_null_and_types_of_clickhouse,
    ),
    Limit(
        "pyiceberg",
        "pyiceberg reads a NULL of the type ARRAY of ROW, or MAP to ROW, as an empty value. The files have NULL, as other readers show.",
        _reads_null_as_empty,
    ),
    Limit(
        "polars",
        "Polars does not read a position-delete file that names several data files. A bucket of a primary-key table has one such file.",
        _refuses_shared_deletes,
    ),
)


def iceberg_readers(properties: Mapping[str, str], spark: SparkSession) -> list[Reader]:
    """Every reader of the lake with these properties of its catalog, which `spark` has as the catalog `lake`; in the page's order."""
    spark_title = f"Spark {spark.version}, Iceberg {ICEBERG_RUNTIME.version}"
    datafusion_title = f"DataFusion {READERS.pin('datafusion')}, iceberg-rust {READERS.pin('pyiceberg-core')}"
    return [
        OwnReader("pyiceberg", f"pyiceberg {metadata.version('pyiceberg')}", lambda question: by_pyiceberg(properties, question)),
        OwnReader("spark", spark_title, SparkReader(spark).read),
        duckdb_reader(IcebergLake(dict(properties))),
        OutsideReader("duckdb-iceberg", f"DuckDB {DUCKDB.pin('duckdb')}, `iceberg` extension", properties, DUCKDB),
        iceberg_go(properties),
        OutsideReader("datafusion", datafusion_title, properties),
        OutsideReader("polars", f"Polars {READERS.pin('polars')}", properties),
        OutsideReader("daft", f"Daft {READERS.pin('daft')}", properties),
    ]


def iceberg_go(properties: Mapping[str, str]) -> Reader:
    catalog = load_catalog(CATALOG_NAME, **properties)
    title = f"iceberg-go {ICEBERG_GO.version('github.com/apache/iceberg-go')}"
    return GoReader("iceberg-go", title, lambda name: catalog.load_table(name).metadata_location)


def chdb(properties: Mapping[str, str]) -> Reader:
    return OutsideReader("chdb", f"chDB {CHDB.pin('chdb')}", properties, CHDB)


def trino(uri: str) -> Reader:
    return OutsideReader("trino", f"Trino, client {TRINO.pin('trino')}", {"uri": uri}, TRINO)


def by_pyiceberg(properties: Mapping[str, str], question: Question) -> pa.Table:
    table = load_catalog(CATALOG_NAME, **properties).load_table(question.table)
    condition = question.condition
    wanted: BooleanExpression = AlwaysTrue() if condition is None else EqualTo(condition.column, condition.value)
    return table.scan(row_filter=wanted, selected_fields=question.columns, snapshot_id=question.snapshot_id).to_arrow()


class SparkReader:
    """Reads a table whole at its first question without a condition, and takes the columns of later ones from there: a job takes long.

    Where that fails, each question is read alone.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._whole: dict[tuple[str, int | None], pa.Table] = {}

    def read(self, question: Question) -> pa.Table:
        version = "" if question.snapshot_id is None else f" VERSION AS OF {question.snapshot_id}"
        rows = self._spark.sql(f"SELECT * FROM {CATALOG_NAME}.{question.table}{version}")
        columns = list(question.columns)
        if question.condition is not None:
            return rows.where(col(question.condition.column) == question.condition.value).select(columns).toArrow()
        place = (question.table, question.snapshot_id)
        if place not in self._whole:
            try:
                self._whole[place] = rows.toArrow()
            except Exception:
                return rows.select(columns).toArrow()
        return self._whole[place].select(columns)
