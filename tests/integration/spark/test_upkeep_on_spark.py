"""Upkeep rounds whose rewrites are Spark tasks: the same files as inline, and a damaged file fails its own bucket alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from support.running.spark_sessions import spark_session
from support.worlds.lake_world import SCHEMA, LakeWorld
from support.worlds.validated import check, faults
from tiering.cluster.log_writer import LogWriter
from tiering.model.rounds import RanOn, RoundState
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder
from tiering.round.steps import actions as act
from tiering.round.tasks.spark_runner import SparkTaskRunner
from tiering.round.tasks.spark_session import DEFAULTS


def written(world: LakeWorld) -> TableInfo:
    """Three rounds of rows in each of two buckets."""
    table = world.table("orders", **{"datalake.auto-compaction": "false"})
    for number in range(3):
        writer = LogWriter(world.storage, table.path, f"round-{number}")
        for first in (10 * number, 10 * number + 5):
            writer.append(pa.table({"id": range(first, first + 5), "text": ["row"] * 5}, schema=SCHEMA))
        assert world.tier(table).state is RoundState.SUCCEEDED
    return table


def upkeep(world: LakeWorld, table: TableInfo) -> act.RoundOutcome:
    world.due()
    return world.begin(table, upkeep=UpkeepOrder()).end()


def test_rewrites_run_as_spark_tasks_and_a_damaged_file_holds_up_its_bucket_alone(tmp_path: Path) -> None:
    with spark_session(tmp_path / "warehouse", DEFAULTS, "upkeep") as session:
        world = LakeWorld(tmp_path / "world")
        table = written(world)
        world.spark = SparkTaskRunner(session)
        damaged = sorted(world.by_hand.data_files(table.path))[0]
        content = damaged.read_bytes()
        damaged.write_bytes(content[:4] + b"\xff" * (len(content) - 8) + content[-4:])
        outcome = upkeep(world, table)
        assert outcome.state is RoundState.SUCCEEDED, outcome.error
        assert outcome.stats.place is not None
        assert outcome.stats.place.ran_on is RanOn.SPARK
        assert outcome.stats.upkeep is not None
        assert (outcome.stats.upkeep.files_before, outcome.stats.upkeep.files_after) == (3, 1)
        assert damaged in world.by_hand.data_files(table.path)
        damaged.write_bytes(content)
        assert upkeep(world, table).state is RoundState.SUCCEEDED
        assert len(world.by_hand.data_files(table.path)) == 2
        assert faults(check(world, table)) == []
        world.close()
