"""Splits on a real Spark session, in process: several of one bucket, an early stop, a cancel, a task that fails."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.running.spark_sessions import spark_session
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.errors import Cancelled
from tiering.lake.base import WriterInitContext
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.model.names import table_path
from tiering.model.rounds import RanOn, RoundPlace
from tiering.model.tables import BucketKey, TableInfo
from tiering.planning.plan_splits import contiguous_prefix, plan_round
from tiering.round.ports import SplitTask, TaskOutcome, WorkLimits
from tiering.round.progress import RoundMeter
from tiering.round.tasks.spark_runner import SparkTaskRunner
from tiering.round.tasks.spark_session import DEFAULTS

SCHEMA = pa.schema([pa.field("id", pa.int64())])
APPENDS, ROWS = 12, 50_000
LONG = WorkLimits(600_000, lambda: False)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with a tierer's settings."""
    with spark_session(tmp_path_factory.mktemp("warehouse"), DEFAULTS, "task runner") as session:
        yield session


@dataclass
class Scene:
    storage: EmbeddedStorage
    table: TableInfo
    tasks: list[SplitTask]
    bases: dict[BucketKey, int]

    def meter(self, times: int = 1) -> RoundMeter:
        return RoundMeter([task.split.records for task in self.tasks] * times, lambda: 0, lambda progress: None)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """One bucket of a few large appends, planned as several splits."""
    monkeypatch.setattr("tiering.planning.plan_splits.SPLIT_BYTES", 1_000_000)
    with EmbeddedStorage(tmp_path / "cluster") as storage:
        path = table_path("sales", "orders")
        storage.create_database("sales")
        table = storage.create_table(path, TableSpec(SCHEMA, 1, properties={"table.datalake.enabled": "true"}))
        writer = LogWriter(storage, path, "test")
        for number in range(APPENDS):
            writer.append(pa.table({"id": range(number * ROWS, (number + 1) * ROWS)}, schema=SCHEMA))
        lake = open_lake("iceberg", local_lake_properties(tmp_path))
        view = lake.ensure_table(table)
        factory = lake.tiering_factory(table)
        plan = plan_round(table, {}, storage.offsets(table), [])
        ranks: defaultdict[BucketKey, int] = defaultdict(int)
        tasks = []
        for split in plan.splits:
            context = WriterInitContext(table, view.table_uuid, split.bucket, None, "round-1", "nonce")
            tasks.append(SplitTask(storage.reader(table, split), split, factory, context, ranks[split.bucket]))
            ranks[split.bucket] += 1
        yield Scene(storage, table, tasks, dict(plan.bases))


def reached(scene: Scene, outcomes: list[TaskOutcome]) -> int:
    assert [outcome.error for outcome in outcomes if outcome.error is not None] == []
    prefix = contiguous_prefix([outcome.result for outcome in outcomes if outcome.result is not None], scene.bases)
    return prefix.reached[BucketKey(None, 0)]


def test_splits_of_one_bucket_run_apart_and_make_one_prefix(spark: SparkSession, scene: Scene) -> None:
    meter = scene.meter()
    outcomes = list(SparkTaskRunner(spark).run("round-1", scene.tasks, LONG, meter))
    place, [*jobs] = meter.place, spark.sparkContext.statusTracker().getJobIdsForGroup("round-1")
    assert place == RoundPlace(RanOn.SPARK, spark.sparkContext.applicationId, max(jobs))
    assert len(outcomes) == len(scene.tasks) > 3
    in_log = sum(file.stat().st_size for file in Path(scene.storage.root).rglob("*.arrow"))
    assert sum(outcome.bytes_read for outcome in outcomes) >= in_log > 0  # a segment of two splits is read by both
    assert reached(scene, outcomes) == APPENDS * ROWS


def test_a_round_out_of_time_makes_progress_and_leaves_no_gap(spark: SparkSession, scene: Scene) -> None:
    outcomes = list(SparkTaskRunner(spark).run("round-1", scene.tasks, WorkLimits(0, lambda: False), scene.meter()))
    first = scene.tasks[0].reader.split
    assert 0 < reached(scene, outcomes) <= first.stopping_offset
    later = [outcome.result for outcome in outcomes if outcome.result is not None and outcome.result.starting_offset > 0]
    assert [(result.records, result.files) for result in later] == [(0, 0)] * (len(scene.tasks) - 1)


def test_a_cancelled_round_ends_as_cancelled(spark: SparkSession, scene: Scene) -> None:
    with pytest.raises(Cancelled):
        SparkTaskRunner(spark).run("round-1", scene.tasks * 50, WorkLimits(600_000, lambda: True), scene.meter(50))


def test_a_damaged_segment_fails_the_tasks_that_read_it_with_its_name(spark: SparkSession, scene: Scene, tmp_path: Path) -> None:
    victim = sorted((tmp_path / "cluster" / "log").rglob("*.arrow"))[0]
    victim.write_bytes(victim.read_bytes()[:100])
    outcomes = SparkTaskRunner(spark).run("round-1", scene.tasks, LONG, scene.meter())
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    assert 1 <= len(errors) <= 2  # a segment lies in one split, or across the border of two
    assert {error.error_class for error in errors} == {"DataCorrupt"}
    assert all(victim.name in error.message for error in errors)
