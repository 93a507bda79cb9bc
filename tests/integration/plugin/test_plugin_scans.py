"""A scan of a system table is a scan like any other, whatever is done with it; and when it asks the service, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from support.worlds.memory_coordinator import MemoryCoordinator
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import EVERY_CALLER
from tiering.coordinator.interface import CoordinatorView
from tiering.errors import StoreError
from tiering.model.declare import column

Serve = Callable[..., Any]
Session = Callable[..., SparkSession]
Jobs = Callable[[Callable[[], object]], int]

ROWS = 50


@dataclass(frozen=True)
class NumberRow:
    id: int = column("A number.")
    name: str | None = column("Its name; NULL for every third.")


@system_table("numbers", NumberRow, requires=EVERY_CALLER, comment="Numbers.")
def numbers(view: CoordinatorView, scan: ScanRequest) -> Iterator[NumberRow]:
    for number in range(ROWS):
        yield NumberRow(number, f"n{number:02}" if number % 3 else None)


@pytest.fixture
def server(serve: Serve) -> Any:
    return serve(MemoryCoordinator(), tables=[numbers])


@pytest.fixture
def frame(server: Any, session: Session) -> DataFrame:
    return session(server.uri).table("fluss.sys.numbers")


WITHOUT_JOB: dict[str, tuple[Callable[[DataFrame], object], object]] = {
    "collect": (lambda frame: len(frame.collect()), ROWS),
    "collect twice": (lambda frame: frame.collect() == frame.collect(), True),
    "take": (lambda frame: [row.id for row in frame.take(2)], [0, 1]),
    "head": (lambda frame: frame.head().id, 0),
    "tail": (lambda frame: [row.id for row in frame.tail(2)], [ROWS - 2, ROWS - 1]),
    "more than there is": (lambda frame: (len(frame.take(ROWS + 9)), len(frame.tail(ROWS + 9))), (ROWS, ROWS)),
    "no columns": (lambda frame: len(frame.select().collect()), ROWS),
    "is empty": (lambda frame: (frame.isEmpty(), frame.filter("id < 0").isEmpty()), (False, True)),
    "no rows": (lambda frame: frame.limit(0).collect(), []),
    "pandas": (lambda frame: frame.toPandas().id.sum(), sum(range(ROWS))),
    "explained first": (lambda frame: (frame.explain(), len(frame.collect())), (None, ROWS)),
}
WITH_JOB: dict[str, tuple[Callable[[DataFrame], object], object]] = {
    "rdd": (lambda frame: frame.rdd.map(lambda row: row.id).sum(), sum(range(ROWS))),
    "arrow": (lambda frame: frame.toArrow().num_rows, ROWS),
    "one by one": (lambda frame: sum(row.id for row in frame.toLocalIterator()), sum(range(ROWS))),
    "cached": (lambda frame: (frame.cache().count(), len(frame.collect()), frame.unpersist().count()), (ROWS, ROWS, ROWS)),
    "kept": (lambda frame: frame.localCheckpoint().count(), ROWS),
    "spread": (lambda frame: frame.repartition(3).count(), ROWS),
    "with itself": (lambda frame: frame.union(frame).count(), 2 * ROWS),
    "joined with itself": (lambda frame: frame.alias("a").join(frame.alias("b"), "id").count(), ROWS),
    "within itself": (lambda frame: frame.sparkSession.sql(WITHIN).count(), 1),
}
WITHIN = "SELECT * FROM fluss.sys.numbers WHERE id = (SELECT max(id) FROM fluss.sys.numbers) AND id IN (SELECT id FROM fluss.sys.numbers)"


@pytest.mark.parametrize("use", WITHOUT_JOB)
def test_rows_come_without_a_job(use: str, frame: DataFrame, jobs: Jobs) -> None:
    action, expected = WITHOUT_JOB[use]
    answers: list[object] = []
    assert jobs(lambda: answers.append(action(frame))) == 0
    assert answers == [expected]


@pytest.mark.parametrize("use", WITH_JOB)
def test_rows_go_where_spark_takes_them(use: str, frame: DataFrame) -> None:
    action, expected = WITH_JOB[use]
    assert action(frame) == expected


def test_rows_can_be_written_and_read_again(frame: DataFrame, tmp_path: Any) -> None:
    frame.write.parquet(str(tmp_path / "copy"))
    copy = frame.sparkSession.read.parquet(str(tmp_path / "copy"))
    assert sorted(copy.collect()) == sorted(frame.collect())


def test_a_statement_asks_once_however_often_its_rows_are_taken(server: Any, frame: DataFrame) -> None:
    frame.explain()
    frame.collect()
    frame.collect()
    assert len(server.reads) == 1


def test_after_an_error_the_same_plan_asks_again(serve: Serve, session: Session) -> None:
    locked = [True]

    @system_table("moody", NumberRow, requires=EVERY_CALLER, comment="Not always there.")
    def moody(view: CoordinatorView, scan: ScanRequest) -> Iterator[NumberRow]:
        if locked[0]:
            raise StoreError("the state store is locked")
        yield NumberRow(1, "one")

    frame = session(serve(MemoryCoordinator(), tables=[moody]).uri).table("fluss.sys.moody")
    with pytest.raises(AnalysisException, match="the state store is locked"):
        frame.collect()
    locked[0] = False
    assert [row.name for row in frame.collect()] == ["one"]


def test_a_plan_says_what_it_asks_for(frame: DataFrame) -> None:
    spark = frame.sparkSession
    filtered = (
        spark.sql("EXPLAIN SELECT * FROM fluss.sys.numbers WHERE id > 3 AND (name = 'n07' OR id = 9) ORDER BY name LIMIT 5").first().plan
    )
    assert "SystemTableScan sys.numbers" in filtered
    assert "id GREATER" in filtered
    assert "(name EQUAL OR id EQUAL)" in filtered
    assert "order: name; limit: 5" in filtered
    for left in ("Filter", "Sort", "Limit"):
        assert left not in filtered.replace("filters", "")
