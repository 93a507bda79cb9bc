"""The source changes under a round that Spark carries out: the round says so, and the next ones end exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.background import tick
from support.running.spark_sessions import spark_session
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.cluster.log_writer import LogWriter
from tiering.model.rounds import Phase, RoundState
from tiering.model.schema.changes import additions
from tiering.model.tables import TableInfo
from tiering.round.ports import SplitTask, TaskOutcome, TaskRunner, WorkLimits
from tiering.round.progress import RoundMeter
from tiering.round.steps import actions as act
from tiering.round.tasks.spark_runner import SparkTaskRunner
from tiering.round.tasks.spark_session import DEFAULTS

PARTED = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64())])


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with a tierer's settings."""
    with spark_session(tmp_path_factory.mktemp("warehouse"), DEFAULTS, "source changes") as session:
        yield session


@dataclass
class Disturbed:
    """A `TaskRunner` that lets something happen between the making of its tasks and the job."""

    runner: TaskRunner
    happens: Callable[[], None] = lambda: None
    jobs: int = 0

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        self.jobs += 1
        happens, self.happens = self.happens, lambda: None
        happens()
        return self.runner.run(round_id, tasks, limits, meter)


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    world.spark = Disturbed(SparkTaskRunner(spark))
    yield world
    world.close()


def runner(world: LakeWorld) -> Disturbed:
    assert isinstance(world.spark, Disturbed)
    return world.spark


def assert_source_changed(outcome: act.RoundOutcome) -> None:
    assert (outcome.state, outcome.phase) == (RoundState.FAILED, Phase.READ)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == ("SourceChanged", True)


def after_its_back_off(world: LakeWorld, table: TableInfo) -> act.RoundOutcome:
    world.clock.advance(60)
    tick(world.coordinator)
    return world.begin(table).end()


def test_a_column_added_between_the_look_at_the_table_and_the_plan(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    world.due()
    stepped = world.begin(table).advance_to(act.ReadLog)
    world.storage.alter_table(table.path, {}, additions([pa.field("tip", pa.float64())]))
    wide = pa.schema([*SCHEMA, pa.field("tip", pa.float64())])
    LogWriter(world.storage, table.path, "wide").append(pa.table({"id": [20], "text": ["row 20"], "tip": [0.5]}, schema=wide))
    outcome = stepped.end()
    assert outcome.error is not None
    assert (outcome.error.error_class, runner(world).jobs) == ("SourceChanged", 0)
    assert after_its_back_off(world, table).state is RoundState.SUCCEEDED
    rows = world.assert_exact(table)
    assert sorted(rows["id"].to_pylist()) == list(range(21))
    assert [value for value in rows["tip"].to_pylist() if value is not None] == [0.5]
    assert runner(world).jobs == 1


def test_a_column_added_while_executors_read_comes_with_the_next_round(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    runner(world).happens = lambda: world.storage.alter_table(table.path, {}, additions([pa.field("tip", pa.float64())]))
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert "tip" not in world.assert_exact(table).column_names
    world.append(table, 20, 20)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert set(world.assert_exact(table)["tip"].to_pylist()) == {None}


def test_a_source_dropped_and_made_anew_while_executors_read(world: LakeWorld) -> None:
    old = world.table("orders")
    world.append(old, 0, 20)
    tables: list[TableInfo] = []

    def drop_and_make_anew() -> None:
        world.storage.drop_table(old.path)
        tables.append(world.table("orders"))

    runner(world).happens = drop_and_make_anew
    assert_source_changed(world.tier(old))
    [new] = tables
    LogWriter(world.storage, new.path, "new").append(pa.table({"id": [500, 501], "text": ["a", "b"]}, schema=SCHEMA))
    assert world.tier(new).state is RoundState.SUCCEEDED
    assert sorted(world.assert_exact(new)["id"].to_pylist()) == [500, 501]


def test_a_partition_dropped_while_executors_read(world: LakeWorld) -> None:
    table = world.table("visits", 1, ("region",), PARTED)
    writer = LogWriter(world.storage, table.path, "test")
    for region, number in (("eu", 0), ("us", 100)):
        writer.append(pa.table({"region": [region] * 5, "id": range(number, number + 5)}, schema=PARTED))
    runner(world).happens = lambda: world.storage.drop_partition(table.path, "us")
    assert_source_changed(world.tier(table))
    assert after_its_back_off(world, table).state is RoundState.SUCCEEDED
    assert sorted(world.assert_exact(table)["id"].to_pylist()) == list(range(5))
    marker = world.view(table).marker
    assert marker is not None
    [bucket] = marker.buckets
    assert [partition.partition_name for partition in world.storage.partitions(table) if partition.partition_id == bucket.partition_id] == [
        "eu"
    ]
