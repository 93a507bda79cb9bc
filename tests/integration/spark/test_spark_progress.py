"""How far a round on Spark is, while a task still reads: seen where users look, in the table's status."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.piecewise_reader import PiecewiseReader
from support.running.processes import wait_for
from support.running.spark_sessions import spark_session
from support.worlds.lake_world import LakeWorld
from sys_tables.declare.scan import ScanRequest
from sys_tables.query.reading import read_table
from sys_tables.registry import default_registry
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.rounds import RoundState
from tiering.model.splits import TieringSplit
from tiering.model.tables import TableInfo
from tiering.round.steps.actions import RoundOutcome
from tiering.round.tasks.spark_runner import SparkTaskRunner
from tiering.round.tasks.spark_session import DEFAULTS

ROWS = 3_000
BATCHES = 150
PAUSE_SECONDS = 0.2
"""Pause after each batch: the round takes half a minute, unless the test opens the gate."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("warehouse"), DEFAULTS, "progress") as session:
        yield session


def selected_split(world: LakeWorld) -> dict[str, Any]:
    """Returns the one row of `SELECT * FROM sys.tiering_splits WHERE table_name = 'orders'`."""
    world.clock.advance(1)
    scan = ScanRequest(filters=(Filter("table_name", Operator.EQUAL, ("orders",)),))
    pieces = read_table(default_registry().table("tiering_splits"), world.coordinator.view(), scan)
    [row] = pa.ipc.open_stream(b"".join(pieces)).read_all().to_pylist()
    return row


def test_a_task_on_an_executor_shows_how_far_it_is_before_it_ends(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, gate = LakeWorld(tmp_path), tmp_path / "gate"
    world.spark = SparkTaskRunner(spark)
    table: TableInfo = world.table("orders", buckets=1)
    world.append(table, 0, ROWS)
    reader = world.storage.reader

    def slow(table: TableInfo, split: TieringSplit) -> PiecewiseReader:
        return PiecewiseReader(reader(table, split), ROWS // BATCHES, PAUSE_SECONDS, gate=gate)

    monkeypatch.setattr(world.storage, "reader", slow)
    world.due()
    stepped = world.begin(table)
    outcomes: list[RoundOutcome] = []
    running = threading.Thread(target=lambda: outcomes.append(stepped.runner.run()))
    running.start()

    def fraction() -> float | None:
        world.clock.advance(1)  # reports come by the round's clock, which only the test moves
        [status] = world.coordinator.view().table_statuses()
        return status.fraction_completed

    try:
        first = wait_for("a part of the only task", lambda: part if 0 < (part := fraction() or 0.0) < 1 else None)
        later = wait_for("a larger part of it", lambda: part if (part := fraction() or 0.0) > first else None)
        assert later < 1
        before = selected_split(world)
        after = wait_for(
            "a later offset", lambda: row if (row := selected_split(world))["current_offset"] > before["current_offset"] else None
        )
        assert not outcomes
        assert (before["split_id"], before["state"], before["attempt"]) == ("log-0-0", "RUNNING", 0)
        assert before["executor"] == f"driver@{socket.gethostname()}"
        assert 0 < before["current_offset"] < after["current_offset"] < ROWS == after["stopping_offset"] == after["backlog_offset"]
        assert after["fraction_completed"] == after["current_offset"] / ROWS
    finally:
        gate.touch()
        running.join(120)
    assert outcomes[0].state is RoundState.SUCCEEDED
    assert fraction() == 1.0
    [split] = world.coordinator.view().splits()
    assert (split.state, split.current_offset) == ("DONE", ROWS)
    world.close()
