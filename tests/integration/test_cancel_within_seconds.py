"""CALL sys.cancel_tiering ends a running round within five seconds, on Spark and inline: with its message in the tierer's log and in the
history, and nothing of it in the lake.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from support.piecewise_reader import PiecewiseReader
from support.running.processes import wait_for
from support.running.spark_sessions import spark_session
from support.services.served import at_uri
from support.worlds.lake_world import LakeWorld
from tiering.client import LakewardClient
from tiering.clock import RandomIds, SystemClock
from tiering.model.splits import TieringSplit
from tiering.model.tables import TableInfo
from tiering.round.lease_keeper import LeaseKeeper
from tiering.round.runner import RoundEnvironment
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.round.tasks.spark_runner import SparkTaskRunner
from tiering.round.tasks.spark_session import DEFAULTS
from tiering.round.tierer import Tierer, TiererOptions
from tiering.round.transport import GrpcTransport

WITHIN_SECONDS = 30.0
ROWS = 200
TASK_SECONDS = 120.0
"""Duration of a task that is not cancelled."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("warehouse"), DEFAULTS, "cancel") as session:
        yield session


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    reader = lake_world.storage.reader

    def long(table: TableInfo, split: TieringSplit) -> PiecewiseReader:
        return PiecewiseReader(reader(table, split), 1, TASK_SECONDS / ROWS, begun=tmp_path / "reads")

    monkeypatch.setattr(lake_world.storage, "reader", long)
    yield lake_world
    lake_world.close()


def running_tierer(world: LakeWorld, uri: str, runner: InlineTaskRunner | SparkTaskRunner) -> tuple[Tierer, GrpcTransport]:
    """A tierer whose only slot the round takes."""
    transport, clock = GrpcTransport(uri, "tierer-1", "first"), SystemClock()
    keeper = LeaseKeeper(transport, clock, "tierer-1-lease")
    inline = InlineTaskRunner()
    limit = 0 if isinstance(runner, SparkTaskRunner) else 1 << 40
    parts = RoundEnvironment(transport, world.storage, lambda _: world.lake, inline, runner, clock, RandomIds(), limit, keeper)
    return Tierer(parts, TiererOptions("tierer-1", "here", "app", "1", 1, "first", slots=1)), transport


@pytest.mark.parametrize("kind", ["spark", "inline"])
def test_a_cancelled_round_ends_long_before_its_tasks_would(world: LakeWorld, spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = world.table("orders")
    world.append(table, 0, ROWS)
    world.due()
    with at_uri(world) as uri, LakewardClient(uri) as client, capture_logs() as logs:
        tierer, transport = running_tierer(world, uri, SparkTaskRunner(spark) if kind == "spark" else InlineTaskRunner())
        thread = threading.Thread(target=tierer.run)
        thread.start()
        try:
            wait_for("tasks read", (tmp_path / "reads").exists)
            current = world.record(table).round
            assert current is not None
            began = time.monotonic()
            assert client.cancel_tiering(current.round_id, message="wrong lake", caller="ann").outcome == "cancelled"
            wait_for("the tierer ended the round", lambda: any(line["event"] == "round ended" for line in logs))
            took = time.monotonic() - began
            wait_for("the coordinator knows", lambda: world.store.round(current.round_id).state == "CANCELLED")  # type: ignore[union-attr]
            took_all = time.monotonic() - began
        finally:
            tierer.stop()
            transport.stop()
            thread.join(30)
            transport.close()
    assert took < WITHIN_SECONDS
    assert took_all < WITHIN_SECONDS
    why = f"round {current.round_id} of sales.orders was cancelled by ann: wrong lake"
    [ended] = [line for line in logs if line["event"] == "round ended"]
    assert (ended["state"], ended["error"]) == ("CANCELLED", why)
    assert [line["reason"] for line in logs if line["event"] == "round is to end"] == [why]
    row = world.store.round(current.round_id)
    assert row is not None
    assert row.error is not None
    assert (row.error.message, row.cancelled_by) == (why, "ann")
    assert ("ROUND_CANCELLED", "ann", "wrong lake") in [
        (event.event_type, event.principal, event.message) for event in world.store.events()
    ]
    assert world.view(table).head is None
    assert not list(spark.sparkContext.statusTracker().getActiveJobsIds())
