"""Statements in Spark beside a writer and a tierer whose rounds commit all the time: each has exactly the rows of one moment.

The inline test with many more statements is `tests/union_read/test_concurrent_reads.py`.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from support.depth import SOAKS
from support.fresh.noted_writer import NotedWriter
from support.running.cluster_of_processes import Deployment
from tiering.cli.spark.properties import CATALOG
from tiering.model.tables import TablePath

STATEMENTS = 500 if SOAKS else 12


@pytest.mark.parametrize("primary_key", [(), ("id",)], ids=["log", "primary-key"])
def test_each_statement_has_the_rows_of_one_moment(service: Deployment, fresh_spark: SparkSession, primary_key: tuple[str, ...]) -> None:
    path = TablePath("sales", "keyed" if primary_key else "logged")
    writer = NotedWriter(service.cluster, path, primary_key)
    writer.check(lambda: fresh_spark.sql(f"SELECT id, text FROM {CATALOG}.{path}").collect(), STATEMENTS)
    assert service.status(path).lake_snapshot_id is not None
