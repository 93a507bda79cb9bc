"""A service as real processes, for Spark sessions that read its tables through the plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment, started
from support.running.spark_sessions import plugin_properties, spark_session


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A coordinator and a tierer. Tables are created with a long freshness, so that rounds run only by `lakeward tier`."""
    with started(Deployment(tmp_path_factory.mktemp("service")), tierer=True) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def fresh_spark(service: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the catalog of the lake."""
    with spark_session(tmp_path_factory.mktemp("warehouse"), plugin_properties(service)) as session:
        yield session
