"""A service in its first minute: before the first round Spark opens the lake's catalog, and a table has the rows of its log."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa

from support.running.cluster_of_processes import KEYED, Deployment
from support.services.client_statements import Rows
from support.services.sql_clients import ask_shell
from tiering.model.tables import TablePath

ORDERS, STOCK = TablePath("sales", "orders"), TablePath("sales", "stock")


def test_a_started_service_has_the_tables_of_its_lake_catalog(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    try:
        deployment.start_coordinator()
        with sqlite3.connect(deployment.data.lake_catalog_file) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert {"iceberg_tables", "iceberg_namespace_properties"} <= names
        deployment.kill_coordinator()
        deployment.start_coordinator()
    finally:
        deployment.close()


def test_spark_sql_with_the_printed_properties_reads_tables_before_their_first_round(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    try:
        deployment.start_up()
        deployment.create(ORDERS, freshness="1 h")
        deployment.append(ORDERS, 0, 30)
        deployment.create_keyed(STOCK)
        with deployment.cluster() as cluster:
            for number, text in enumerate(("old", "new")):
                cluster.upsert(STOCK, pa.table({"id": range(9), "text": [text] * 9}, schema=KEYED), "stock", number)
        (tmp_path / "fluss.conf").write_text(deployment.lakeward("spark-conf", "--lake"))

        orders, stock, tables, lake, copy = ask_shell(
            "spark-sql --master local[1] --properties-file fluss.conf --conf spark.ui.enabled=false",
            tmp_path,
            [
                f"SELECT count(id), max(text) FROM fluss.{ORDERS}",
                f"SELECT text, count(*) FROM fluss.{STOCK} GROUP BY text",
                "SHOW TABLES IN fluss.sales",
                "SHOW NAMESPACES IN lake",
                "SELECT * FROM fluss.sales.`orders$lake`",
            ],
        )

        assert orders == Rows(("count(id)", "max(text)"), (("30", "row 9"),))
        assert stock == Rows(("text", "count(1)"), (("new", "9"),))
        assert isinstance(tables, Rows), tables
        assert isinstance(lake, Rows), lake
        assert isinstance(copy, str), "the tables were tiered before the statements ran"
        assert "is not in the lake yet" in copy
    finally:
        deployment.close()
