"""A service that means no good beside a real Spark: one clear error a statement, soon, and the driver goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from support.running.spark_sessions import complaint
from support.services.hostile import TABLE, HostileCatalog, answers, hostile_service

Session = Callable[..., SparkSession]
Service = tuple[str, HostileCatalog]
LIMITS = {"max_rows": "2000", "max_bytes": "4m"}
READ = f"SELECT * FROM fluss.sys.{TABLE}"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with hostile_service() as service:
        yield service


@pytest.fixture
def spark(service: Service, session: Session) -> SparkSession:
    return session(service[0], **LIMITS)


def test_no_answer_takes_the_drivers_memory(service: Service, spark: SparkSession) -> None:
    _, catalog = service
    words = {"NULLs without end": "max-rows", "too many rows": "max-rows", "too many bytes": "max-bytes", "bytes without end": "max-rows"}
    for answer in (*answers(), "bytes without end"):
        catalog.answer = answer
        message = complaint(spark, READ)
        assert words.get(answer, "broke off or is no Arrow stream") in message, (answer, message)
        assert "OutOfMemory" not in message


def test_no_answer_of_a_call_takes_the_drivers_memory(service: Service, spark: SparkSession) -> None:
    _, catalog = service
    for answer in ("metadata of 2 GB", "NULLs without end", "too many bytes"):
        catalog.answer = answer
        assert "the service's answer" in complaint(spark, "CALL fluss.sys.help()")


def test_a_schema_a_list_of_tables_and_trailers_have_bounds(service: Service, spark: SparkSession, session: Session) -> None:
    _, catalog = service
    for answer, message in {
        "names without end": "spark.sql.catalog.fluss.max-rows",
        "pages without names": "never ends: a page without names",
        "a page again": "never ends: a page comes again",
    }.items():
        catalog.answer = answer
        assert message in complaint(spark, "SHOW TABLES IN fluss.demo")
    for answer in ("huge trailers", "trailers that are no error"):
        catalog.answer = answer
        assert "the Lakeward service at" in complaint(spark, READ)
    catalog.answer = "a schema of 2 GB"
    assert "no readable schema" in complaint(session(service[0]), READ)


def test_the_driver_goes_on(spark: SparkSession) -> None:
    assert spark.range(10).count() == 10
