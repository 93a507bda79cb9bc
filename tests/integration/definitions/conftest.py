"""A service as real processes, and a Spark session that defines tables in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from support.running.spark_sessions import plugin_properties, spark_session


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A coordinator and a tierer."""
    deployment = Deployment(tmp_path_factory.mktemp("service"))
    try:
        deployment.start_coordinator()
        deployment.start_inline_tierer("tierer")
        yield deployment
    finally:
        deployment.close()


@pytest.fixture(scope="module")
def spark(service: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the database `fluss.shop`."""
    with spark_session(tmp_path_factory.mktemp("warehouse"), plugin_properties(service)) as session:
        session.sql("CREATE DATABASE fluss.shop")
        yield session


@pytest.fixture(scope="module")
def complaint(spark: SparkSession) -> Callable[[str], str]:
    """Runs a statement that is refused, and returns the error message."""

    def refused(sql: str) -> str:
        with pytest.raises(AnalysisException) as raised:
            spark.sql(sql).collect()
        return str(raised.value)

    return refused
