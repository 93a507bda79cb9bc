"""Rounds of a primary-key table that Spark carries out: from a KV snapshot, over changes, and over a rewrite of others in between."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.lakes.lake_proof import rewrite_by_hand
from support.running.processes import wait_for
from support.running.spark_sessions import spark_session
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.model.rounds import RoundState
from tiering.model.splits import TieringSplit
from tiering.model.tables import TableInfo
from tiering.round.ports import SplitTask, TaskOutcome, TaskRunner, WorkLimits
from tiering.round.progress import RoundMeter
from tiering.round.steps import actions as act
from tiering.round.tasks.spark_runner import SparkTaskRunner
from tiering.round.tasks.spark_session import DEFAULTS
from tiering.validate.results import Level
from tiering.validate.run import validate


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with a tierer's settings."""
    with spark_session(tmp_path_factory.mktemp("warehouse"), DEFAULTS, "primary keys") as session:
        yield session


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    lake_world.spark = SparkTaskRunner(spark)
    yield lake_world
    lake_world.close()


def write(world: LakeWorld, table: TableInfo, keys: range, text: str) -> None:
    rows = pa.table({"id": keys, "text": [f"{text} {key}" for key in keys]}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, rows, text, keys.start)


def delete(world: LakeWorld, table: TableInfo, keys: range) -> None:
    rows = pa.table({"id": keys}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")]))
    world.storage.delete(table.path, rows, "deletes", keys.start)


def lake(world: LakeWorld, table: TableInfo) -> dict[int, str]:
    rows = world.iceberg(table).scan().to_arrow()
    texts = dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True))
    assert len(texts) == rows.num_rows
    results = validate(world.storage, world.lake, table.path, Level.ROWS)
    assert not [result for result in results if result.ok is False], results
    return texts


class CountedRuns:
    """A `TaskRunner` that counts how often a round's splits are run."""

    def __init__(self, runner: TaskRunner | None) -> None:
        assert runner is not None
        self._runner = runner
        self.count = 0

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        self.count += 1
        return self._runner.run(round_id, tasks, limits, meter)


class KillsItsWorker:
    """A reader that ends the process which unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


def test_a_worker_that_dies_over_a_leased_snapshot_leaves_no_lease_and_the_next_round_goes_on(
    world: LakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.primary_key_table("planes")
    write(world, table, range(50), "first")
    world.storage.take_kv_snapshots(table.path)
    leased: list[int] = []

    def reader(table: TableInfo, split: TieringSplit) -> KillsItsWorker:
        leased.extend(len(lease.snapshots) for lease in world.storage.leases())
        return KillsItsWorker()

    with monkeypatch.context() as patch:
        patch.setattr(world.storage, "reader", reader)
        outcome = world.tier(table)
    assert outcome.error is not None
    assert (outcome.state, outcome.error.retryable) == (RoundState.FAILED, True)
    assert set(leased) == {2}
    wait_for("the lease to be released", lambda: not world.storage.leases())
    world.clock.advance(600)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert lake(world, table) == {key: f"first {key}" for key in range(50)}


def test_snapshot_changes_and_a_rewrite_in_between_end_as_the_table_is(world: LakeWorld) -> None:
    table = world.primary_key_table("planes")
    write(world, table, range(200), "first")
    world.storage.take_kv_snapshots(table.path)
    write(world, table, range(150, 250), "second")
    assert world.tier(table).state is RoundState.SUCCEEDED
    expected = {key: f"{'first' if key < 150 else 'second'} {key}" for key in range(250)}
    assert lake(world, table) == expected
    wait_for("the lease to be released", lambda: not world.storage.leases())

    write(world, table, range(10), "third")
    delete(world, table, range(240, 250))
    world.due()
    runs = world.spark = CountedRuns(world.spark)
    stepped = world.begin(table).advance_to(act.BeginCommit)
    rewrite_by_hand(world.lake_properties, table.path)
    outcome = stepped.end()
    assert outcome.state is RoundState.SUCCEEDED, outcome.error
    assert outcome.stats.deletes_written == 20
    assert runs.count == 2, "the rewrite moved rows to delete: they were looked for again"
    expected = {key: text for key, text in expected.items() if key < 240} | {key: f"third {key}" for key in range(10)}
    assert lake(world, table) == expected
