"""The lake of Fluss's quickstart: a JDBC catalog in a real PostgreSQL, under the name that Fluss gave it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from pyiceberg.types import LongType, NestedField

from support.lakes.lake_kit import COLUMNS
from support.running.postgresql import DATABASE, PASSWORD, USER, running_postgresql
from tiering.lake.fluss.options import lake_of_fluss
from tiering.lake.iceberg.catalogs import opening
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import TableInfo, TablePath, TableType

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
V0 = """
CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
  metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), PRIMARY KEY (catalog_name, table_namespace, table_name));
CREATE TABLE iceberg_namespace_properties(catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,
  property_key VARCHAR(255), property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key));
"""
"""Tables that Iceberg's JdbcCatalog creates by default (its schema version V0)."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running_postgresql(tmp_path_factory.mktemp("postgresql")) as port:
        with psycopg.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD, dbname=DATABASE) as connection:
            connection.execute(V0)
        yield port


@pytest.fixture
def properties(port: int, tmp_path: Path) -> dict[str, str]:
    options = {
        "datalake.format": "iceberg",
        "datalake.iceberg.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "datalake.iceberg.name": "fluss_catalog",
        "datalake.iceberg.uri": f"jdbc:postgresql://127.0.0.1:{port}/{DATABASE}",
        "datalake.iceberg.jdbc.user": USER,
        "datalake.iceberg.jdbc.password": PASSWORD,
        "datalake.iceberg.warehouse": str(tmp_path),
    }
    return dict(lake_of_fluss(options).properties)


def rows(port: int) -> list[tuple[Any, ...]]:
    with psycopg.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD, dbname=DATABASE) as connection:
        return connection.execute("SELECT catalog_name, table_namespace, table_name FROM iceberg_tables ORDER BY 3").fetchall()


def test_rows_are_under_the_name_that_fluss_gave_its_catalog(properties: dict[str, str], port: int, tmp_path: Path) -> None:
    table = TableInfo(7, TablePath("sales", "orders"), TableType.LOG, COLUMNS, 2, datetime(2024, 1, 1, tzinfo=UTC))

    IcebergLake(properties).ensure_table(table)

    assert ("fluss_catalog", "sales", "orders") in rows(port)
    assert IcebergLake(properties).view(table.path) is not None
    assert IcebergLake({**properties, "lakeward.catalog-name": "another"}).view(table.path) is None


def test_of_two_commits_on_one_version_one_wins(properties: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = opening.open_catalog(properties), opening.open_catalog(properties)
    first.create_namespace_if_not_exists("races")
    table = first.create_table(("races", "orders"), SCHEMA)
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid),)
    write = opening.SqlLakeCatalog._write_metadata

    def write_late(*arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(opening.SqlLakeCatalog, "_write_metadata", staticmethod(write))
        second.commit_table(table, requirements, (SetPropertiesUpdate(updates={"winner": "second"}),))
        write(*arguments, **named)

    monkeypatch.setattr(opening.SqlLakeCatalog, "_write_metadata", staticmethod(write_late))
    with pytest.raises(CommitFailedException):
        first.commit_table(table, requirements, (SetPropertiesUpdate(updates={"winner": "first"}),))
    assert second.load_table(("races", "orders")).properties["winner"] == "second"
