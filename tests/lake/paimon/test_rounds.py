"""Whole rounds of an embedded cluster into Paimon, with coordinator and tierer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.lakes.paimon_kit import PaimonKit
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.calls.lake_repair.reconcile_lake import ReconcileLake
from tiering.lake.paimon.lake import PaimonLake
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.round.steps import actions as act


class PaimonWorld(LakeWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kit = PaimonKit(folder)
        self.lake: Any = PaimonLake(self.kit.warehouse)
        self.restart()

    def log_table(self, name: str, **options: str) -> TableInfo:
        return self.table(name, datalake_format="paimon", **options)

    def offsets(self, table: TableInfo) -> list[tuple[int, int]]:
        """As pypaimon reads them; each once."""
        rows = self.kit.read(table)
        return sorted(zip(rows["__bucket"].to_pylist(), rows["__offset"].to_pylist(), strict=True))

    def whole(self, table: TableInfo) -> list[tuple[int, int]]:
        return sorted((bucket, offset) for bucket, end in self.ends(table).items() for offset in range(end))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PaimonWorld]:
    deployment = PaimonWorld(tmp_path)
    yield deployment
    deployment.close()


def test_rounds_go_on_where_the_last_one_ended(world: PaimonWorld) -> None:
    table = world.log_table("orders")
    for start in (0, 100, 200):
        world.append(table, start, 100)
        assert world.tier(table).state is RoundState.SUCCEEDED
        assert world.offsets(table) == world.whole(table)
    world.restart()
    assert world.tier(table).state is RoundState.EMPTY
    assert world.view(table).head == 3


def test_a_lost_ack_and_a_foreign_commit_double_nothing(world: PaimonWorld) -> None:
    table = world.log_table("orders")
    world.append(table, 0, 100)
    world.due()
    world.transport.lose_acks = True
    world.begin(table).end()
    world.transport.lose_acks = False
    world.kit.foreign_commit(table)
    world.append(table, 100, 50)
    world.due()
    world.clock.advance(600)
    stepped = world.begin(table).advance_to(act.CommitLake)
    world.kit.foreign_commit(table)
    assert stepped.end().state is RoundState.SUCCEEDED
    assert world.offsets(table) == world.whole(table)


def test_a_roll_back_is_named_and_retier_mends_it(world: PaimonWorld) -> None:
    table = world.log_table("orders")
    for start in (0, 100):
        world.append(table, start, 100)
        world.tier(table)
    world.kit.roll_back(table, 1)
    world.append(table, 200, 10)
    assert "recorded as tiered" in str(world.tier(table).error)

    asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, "retier", caller="alice")))
    world.tier(table)
    assert world.offsets(table) == world.whole(table)
