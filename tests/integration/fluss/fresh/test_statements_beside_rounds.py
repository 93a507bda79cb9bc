"""Statements in Spark over tables of a real Fluss cluster, beside a writer and rounds that commit all the time."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession

from support.depth import SOAKS
from support.fresh.noted_writer import NotedWriter
from support.running.fluss_deployment import FlussDeployment
from tiering.cli.service_cluster import writable_cluster
from tiering.cli.spark.properties import CATALOG
from tiering.model.tables import TablePath

STATEMENTS = 500 if SOAKS else 12


@pytest.mark.parametrize("primary_key", [(), ("id",)], ids=["log", "primary-key"])
def test_each_statement_has_the_rows_of_one_moment(
    service: FlussDeployment, fresh_spark: SparkSession, primary_key: tuple[str, ...]
) -> None:
    path = TablePath("sales", "keyed_beside_rounds" if primary_key else "logged_beside_rounds")
    writer = NotedWriter(partial(writable_cluster, service.uri), path, primary_key)
    writer.check(lambda: fresh_spark.sql(f"SELECT id, text FROM {CATALOG}.{path}").collect(), STATEMENTS)
    assert service.status(path).lake_snapshot_id is not None
