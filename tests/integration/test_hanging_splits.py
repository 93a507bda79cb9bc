"""A round whose splits hang is given up by a living tierer, on Spark and inline; its next round brings every row into the lake, once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.piecewise_reader import PiecewiseReader
from support.running.processes import wait_for
from support.running.spark_sessions import spark_session
from support.services.served import at_uri
from support.worlds.lake_world import LakeWorld
from tiering.clock import RandomIds, SystemClock
from tiering.cluster.base import SplitReader
from tiering.model.splits import TieringSplit
from tiering.model.tables import TableInfo
from tiering.round.lease_keeper import LeaseKeeper
from tiering.round.runner import RoundEnvironment
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.round.tasks.spark_runner import SparkTaskRunner
from tiering.round.tasks.spark_session import DEFAULTS
from tiering.round.tierer import Tierer, TiererOptions
from tiering.round.transport import GrpcTransport

ROWS = 20
HANGS_S = 120.0
AFTER_MS = 3_000
"""Longer than Spark takes from the begin of a task to its first report."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("warehouse"), DEFAULTS, "stalled") as session:
        yield session


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeWorld]:
    """The readers of the first plan hang; those of later ones do not."""
    lake_world = LakeWorld(tmp_path)
    reader = lake_world.storage.reader

    def hanging(table: TableInfo, split: TieringSplit) -> SplitReader:
        first = not (tmp_path / "reads").exists()
        return PiecewiseReader(reader(table, split), 1, HANGS_S, begun=tmp_path / "reads") if first else reader(table, split)

    monkeypatch.setattr(lake_world.storage, "reader", hanging)
    yield lake_world
    lake_world.close()


@pytest.mark.parametrize("kind", ["spark", "inline"])
def test_a_round_that_hangs_is_given_up_and_the_next_one_goes_well(world: LakeWorld, spark: SparkSession, kind: str) -> None:
    table = world.table("orders")
    world.append(table, 0, ROWS)
    world.due()
    inline, clock = InlineTaskRunner(), SystemClock()
    runner, limit = (SparkTaskRunner(spark), 0) if kind == "spark" else (inline, 1 << 40)
    with at_uri(world) as uri:
        transport = GrpcTransport(uri, "tierer-1", "first")
        keeper = LeaseKeeper(transport, clock, "tierer-1-lease")
        parts = RoundEnvironment(transport, world.storage, lambda _: world.lake, inline, runner, clock, RandomIds(), limit, keeper)
        options = TiererOptions("tierer-1", "here", "app", "1", 1, "first", stalled_after_ms=AFTER_MS)
        tierer = Tierer(parts, options)
        thread = threading.Thread(target=tierer.run)
        thread.start()
        try:
            error = wait_for("the round was given up", lambda: world.record(table).error)
            assert (error.error_class, error.retryable) == ("RoundStalled", True)
            if kind == "spark":
                wait_for("its job ended", lambda: not list(spark.sparkContext.statusTracker().getActiveJobsIds()))
            world.due()
            wait_for("the next round", lambda: world.record(table).error is None)
        finally:
            tierer.stop()
            transport.stop()
            thread.join(30)
            transport.close()
    assert world.assert_exact(table).num_rows == ROWS
    states = [row.state for row in reversed(world.store.rounds())]
    assert states == ["FAILED", "SUCCEEDED"]
