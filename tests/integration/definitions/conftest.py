"""A service as real processes, and a Spark session that defines tables in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from pyspark.sql import SparkSession

from support.running import spark_sessions
from support.running.cluster_of_processes import Deployment, started
from support.running.spark_sessions import plugin_properties, spark_session


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A coordinator and a tierer."""
    with started(Deployment(tmp_path_factory.mktemp("service")), tierer=True) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def spark(service: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the database `fluss.shop`."""
    with spark_session(tmp_path_factory.mktemp("warehouse"), plugin_properties(service)) as session:
        session.sql("CREATE DATABASE fluss.shop")
        yield session


@pytest.fixture(scope="module")
def complaint(spark: SparkSession) -> Callable[[str], str]:
    """Runs a statement that is refused, and returns the error message."""
    return partial(spark_sessions.complaint, spark)
