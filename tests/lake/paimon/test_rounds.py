"""Whole rounds of an embedded cluster into Paimon, with coordinator and tierer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.background import tick
from support.lakes.paimon_kit import overwrite
from support.worlds.paimon_world import PaimonWorld
from support.worlds.validated import check, faults
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.lake.layouts import Layout
from tiering.model.rounds import RoundState
from tiering.model.tables import TablePath
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.round.steps import actions as act


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PaimonWorld]:
    deployment = PaimonWorld(tmp_path)
    yield deployment
    deployment.close()


@pytest.mark.parametrize("layout", Layout)
def test_rounds_go_on_where_the_last_one_ended(world: PaimonWorld, layout: Layout) -> None:
    table = world.log_table("orders", datalake_layout=layout)
    for start in (0, 100, 200):
        world.append(table, start, 100)
        assert world.tier(table).state is RoundState.SUCCEEDED
        assert world.offsets(table) == world.whole(table)
    world.restart()
    assert world.tier(table).state is RoundState.EMPTY
    assert world.view(table).head == 3


@pytest.mark.parametrize("layout", Layout)
def test_a_lost_ack_and_a_foreign_commit_double_nothing(world: PaimonWorld, layout: Layout) -> None:
    table = world.log_table("orders", datalake_layout=layout)
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


@pytest.mark.parametrize("layout", Layout)
def test_a_primary_key_table_follows_its_changes(world: PaimonWorld, layout: Layout) -> None:
    table = world.keyed_table("customers", datalake_layout=layout)
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


@pytest.mark.parametrize("layout", Layout)
def test_files_written_anew_in_the_moment_of_a_commit_are_built_upon(world: PaimonWorld, layout: Layout) -> None:
    """The changes are written again, with sequence numbers that follow, under the very same marker."""
    table = world.keyed_table("customers", buckets=1, datalake_layout=layout)
    for number in range(3):
        rows = pa.table({"id": range(5 * number, 5 * number + 9), "text": [f"round {number}"] * 9}, schema=table.schema)
        world.storage.upsert(table.path, rows, "w", number)
        world.due()
        world.clock.advance(600)
        stepped = world.begin(table).advance_to(act.CommitLake)
        if number:
            overwrite(world.kit, table, pa.concat_tables([world.kit.read(table)] * 2))  # twice, so that its numbers are higher
        assert stepped.end().state is RoundState.SUCCEEDED
        assert not faults(check(world, table))
    assert sorted(world.kit.read(table)["id"].to_pylist()) == list(range(19))


@pytest.mark.parametrize("layout", Layout)
def test_a_roll_back_is_named_and_retier_mends_it(world: PaimonWorld, layout: Layout) -> None:
    table = world.log_table("orders", datalake_layout=layout)
    for start in (0, 100):
        world.append(table, start, 100)
        world.tier(table)
    world.kit.roll_back(table, 1)
    world.append(table, 200, 10)
    assert "recorded as tiered" in str(world.tier(table).error)

    asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, "retier", caller="alice")))
    world.tier(table)
    assert world.offsets(table) == world.whole(table)
    assert not faults(check(world, table))
