"""Spark's Iceberg, and through it Fluss's own JVMs, and our catalogs read and go on from one another's commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.lakes.lake_kit import COLUMNS
from support.running.postgresql import DATABASE, PASSWORD, USER, running_postgresql
from support.running.spark_sessions import spark_session
from tiering.cli.spark.properties import lake_catalog_name, lake_properties_for_spark
from tiering.lake.fluss.options import lake_of_fluss
from tiering.lake.iceberg.catalogs.opening import open_catalog
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import TableInfo, TablePath, TableType


@dataclass(frozen=True)
class World:
    """Spark, with each lake's catalog under the name that it has there."""

    spark: SparkSession
    lakes: Mapping[str, Mapping[str, str]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("lakes")
    with running_postgresql(folder / "postgresql") as port:
        jdbc = {
            "datalake.iceberg.type": "jdbc",
            "datalake.iceberg.name": "fluss_catalog",
            "datalake.iceberg.uri": f"jdbc:postgresql://127.0.0.1:{port}/{DATABASE}",
            "datalake.iceberg.jdbc.user": USER,
            "datalake.iceberg.jdbc.password": PASSWORD,
            "datalake.iceberg.warehouse": f"file:{folder / 'jdbc'}",
        }
        hadoop = {"datalake.iceberg.type": "hadoop", "datalake.iceberg.warehouse": str(folder / "hadoop")}
        lakes = {name: lake_of_fluss(options).properties for name, options in (("jdbc", jdbc), ("hadoop", hadoop))}
        open_catalog(lakes["jdbc"])  # makes the catalog's tables
        # The user of the database is no public property, so Spark gets its own.
        login = {"spark.sql.catalog.fluss_catalog.jdbc.user": USER, "spark.sql.catalog.fluss_catalog.jdbc.password": PASSWORD}
        of_hadoop = lake_properties_for_spark(lakes["hadoop"])
        properties = {**of_hadoop, **lake_properties_for_spark(lakes["jdbc"]), **login}
        with spark_session(Path(folder / "warehouse"), properties) as spark:
            yield World(spark, lakes)


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ["jdbc", "hadoop"])
def test_each_reads_and_goes_on_from_the_others_commits(world: World, kind: str) -> None:
    properties = world.lakes[kind]
    name, path = lake_catalog_name(properties), TablePath("sales", "orders")
    lake = IcebergLake(properties)
    lake.ensure_table(TableInfo(7, path, TableType.LOG, COLUMNS, 2, datetime(2024, 1, 1, tzinfo=UTC)))

    world.spark.sql(f"INSERT INTO {name}.{path} VALUES (1, 'of spark', 1, 0, 0, TIMESTAMP '2024-01-01 00:00:00')")
    catalog = open_catalog(properties)
    table = catalog.load_table((path.database_name, path.table_name))
    assert table.scan().to_arrow()["name"].to_pylist() == ["of spark"]

    rows = pa.Table.from_pylist(
        [{"id": 2, "name": "of pyiceberg", "small": 2, "__bucket": 0, "__offset": 1, "__timestamp": datetime(2024, 1, 2, tzinfo=UTC)}],
        schema=table.schema().as_arrow(),
    )
    table.append(rows)
    world.spark.sql(f"REFRESH TABLE {name}.{path}")
    assert [row.name for row in world.spark.sql(f"SELECT name FROM {name}.{path} ORDER BY id").collect()] == [
        "of spark",
        "of pyiceberg",
    ]

    world.spark.sql(f"INSERT INTO {name}.{path} VALUES (3, 'of spark again', 1, 0, 2, TIMESTAMP '2024-01-03 00:00:00')")
    assert catalog.load_table((path.database_name, path.table_name)).scan().to_arrow().num_rows == 3


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ["jdbc", "hadoop"])
def test_a_table_that_a_jvm_made_is_found(world: World, kind: str) -> None:
    properties = world.lakes[kind]
    name = lake_catalog_name(properties)
    world.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.of_a_jvm")
    world.spark.sql(f"CREATE TABLE {name}.of_a_jvm.orders (id BIGINT) USING iceberg")
    world.spark.sql(f"INSERT INTO {name}.of_a_jvm.orders VALUES (1), (2)")

    lake = IcebergLake(properties)
    assert "of_a_jvm" in lake.databases()
    view = lake.view(TablePath("of_a_jvm", "orders"))
    assert view is not None
    assert len(view.snapshots) == 1
    assert ("of_a_jvm", "orders") in open_catalog(properties).list_tables("of_a_jvm")
