"""A service as real processes, and a Spark session that writes its tables through the plugin. Spark runs a failed task again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment, started
from support.running.spark_sessions import plugin_properties, spark_session


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with started(Deployment(tmp_path_factory.mktemp("service"))) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def spark(service: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    properties = {**plugin_properties(service), "spark.master": "local[2,4]"}
    with spark_session(tmp_path_factory.mktemp("warehouse"), properties) as session:
        yield session
