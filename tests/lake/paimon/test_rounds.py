"""Whole rounds of an embedded cluster into Paimon, with coordinator and tierer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.background import tick
from support.lakes.paimon_kit import PaimonKit
from support.worlds.lake_world import LakeWorld
from tiering.cluster.embedded.rpc.writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.coordinator.calls.lake_repair.reconcile_lake import ReconcileLake
from tiering.lake.paimon.lake import PaimonLake
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo, TablePath
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


def test_bucket_keys_go_where_paimon_looks_for_them(world: PaimonWorld) -> None:
    """The embedded cluster places rows by Paimon's hash: a filter on the key reads one bucket alone."""
    path = TablePath("sales", "keyed")
    world.storage.create_database("sales", ignore_if_exists=True)
    options = {"table.datalake.enabled": "true", "table.datalake.freshness": "60 s", "table.datalake.format": "paimon"}
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string(), nullable=False)])
    table = world.storage.create_table(path, TableSpec(columns, 4, ("text", "id"), properties=options))
    tick(world.coordinator)
    rows = pa.table({"id": range(60), "text": [f"row {number % 7}" for number in range(60)]}, schema=columns)
    LogWriter(world.storage, path, "writer").append(rows)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert world.offsets(table) == world.whole(table)
    for number in range(60):
        assert world.kit.read(table, id=number, text=f"row {number % 7}").num_rows == 1


def test_a_primary_key_table_follows_its_changes(world: PaimonWorld) -> None:
    table = world.primary_key_table("customers", datalake_format="paimon")
    truth: dict[int, str] = {}
    for number in range(3):
        rows = {key: f"{number}-{key}" for key in range(number * 5, number * 5 + 20)}
        truth |= rows
        world.storage.upsert(table.path, pa.table({"id": list(rows), "text": list(rows.values())}, schema=table.schema), "w", 2 * number)
        gone = [key for key in truth if key % 6 == number]
        world.storage.delete(table.path, pa.table({"id": gone}, schema=pa.schema([table.schema.field("id")])), "w", 2 * number + 1)
        for key in gone:
            del truth[key]
        assert world.tier(table).state is RoundState.SUCCEEDED
        lake = world.kit.read(table)
        assert dict(zip(lake["id"].to_pylist(), lake["text"].to_pylist(), strict=True)) == truth
        assert lake.num_rows == len(truth)


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
