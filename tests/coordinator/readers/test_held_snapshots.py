"""No commit of a round removes the lake snapshot of an open read, and no sweep deletes its files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from support.background import tick
from support.lake_kinds.kinds import ICEBERG, PAIMON, in_lakes
from support.upkeep.aged_world import AgedWorld
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.call_support.lake_outlook import outlook_of
from tiering.coordinator.readers.reads import OpenedRead
from tiering.errors import LakeUnavailable
from tiering.lake.rules.upkeep.snapshot_expiry import OPEN_READS, UNKNOWN_READS
from tiering.lake.table_options import SNAPSHOT_MAX_AGE, SNAPSHOT_MIN_COUNT
from tiering.model.reading.open_reads import READ_TTL
from tiering.model.reading.scans import ReadScan
from tiering.model.tables import TableInfo
from tiering.model.upkeep import ExpiryOrder
from tiering.round.steps import actions as act


@pytest.fixture(params=[ICEBERG, PAIMON], ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    """Each commit removes the snapshots before it: Iceberg's by thinning, Paimon's because they are old."""
    lake_world = AgedWorld(tmp_path, request.param)
    yield lake_world
    lake_world.close()


def tiered(world: LakeWorld) -> TableInfo:
    table = world.table("orders")
    world.storage.set_table_option(table.path, SNAPSHOT_MIN_COUNT.name, "1")
    if world.lake_format == "paimon":
        world.storage.set_table_option(table.path, SNAPSHOT_MAX_AGE.name, "1 min")
    world.append(table, 0, 10)
    world.tier(table)
    return table


def tier_more(world: LakeWorld, table: TableInfo, first: int, rounds: int = 3) -> None:
    """Tiers ten more rows in each of some rounds."""
    for start in range(first, first + 10 * rounds, 10):
        world.append(table, start, 10)
        assert world.tier(table).error is None


def opened(world: LakeWorld, table: TableInfo) -> OpenedRead:
    return world.coordinator.reads.open(table.path, "spark", "")


def test_rounds_keep_the_snapshot_of_an_open_read_and_remove_it_after_its_end(world: LakeWorld) -> None:
    table = tiered(world)
    read = opened(world, table)
    snapshot = read.read.moment.lake_snapshot_id
    ticket = read.ticket
    for first in (10, 40):
        tier_more(world, table, first)
        _, ticket = world.coordinator.reads.renew(ticket)
        assert snapshot in world.view(table).snapshots

    world.coordinator.reads.close(ticket)
    tier_more(world, table, 70)
    assert snapshot not in world.view(table).snapshots


def test_an_expired_read_keeps_nothing(world: LakeWorld) -> None:
    table = tiered(world)
    snapshot = opened(world, table).read.moment.lake_snapshot_id
    world.clock.advance(READ_TTL.total_seconds() + 1)
    tick(world.coordinator)
    tier_more(world, table, 10)
    assert snapshot not in world.view(table).snapshots


def test_after_a_restart_rounds_keep_the_snapshot_of_a_read_that_has_not_renewed_yet(world: LakeWorld) -> None:
    table = tiered(world)
    ticket = opened(world, table).ticket
    world.restart()
    tier_more(world, table, 10)
    assert world.coordinator.reads.open_reads.all() == ()

    read, _ = world.coordinator.reads.renew(ticket)
    assert read.moment.lake_snapshot_id in world.view(table).snapshots
    world.clock.advance(READ_TTL / timedelta(seconds=1) - 1)
    tick(world.coordinator)
    world.coordinator.reads.renew(ticket)
    tier_more(world, table, 40)
    assert read.moment.lake_snapshot_id in world.view(table).snapshots


def test_while_a_read_is_opened_no_snapshot_is_removed(world: LakeWorld) -> None:
    table = tiered(world)
    tier_more(world, table, 10, rounds=1)
    snapshots = set(world.view(table).snapshots)
    world.append(table, 20, 10)
    world.due()
    with world.coordinator.reads.open_reads.opening(table.table_id):
        outlook = outlook_of(world.coordinator.call_parts, table.path, ExpiryOrder(world.clock.now(), 1))
        assert outlook is not None
        assert (outlook.expirable, set(outlook.kept)) == (0, {UNKNOWN_READS})
        assert world.begin(table).end().error is None
    assert snapshots <= set(world.view(table).snapshots)
    tier_more(world, table, 30, rounds=1)
    assert not snapshots & set(world.view(table).snapshots)


def test_a_round_that_began_before_a_read_keeps_its_snapshot(world: LakeWorld) -> None:
    """The round is told of the reads that are open as it begins. Here another program replaces the head before the round commits."""
    table = tiered(world)
    world.append(table, 10, 10)
    world.due()
    round_ = world.begin(table).advance_to(act.BeginCommit)
    snapshot = opened(world, table).read.moment.lake_snapshot_id
    world.by_hand.append(table.path, world.by_hand.rows(table.path).slice(0, 1), {})
    world.clock.advance(120)

    round_.end()
    assert snapshot in world.view(table).snapshots


def test_a_round_keeps_the_snapshot_of_a_read_that_was_opened_before_a_late_commit(world: LakeWorld) -> None:
    """The commit of an earlier round arrives after the next round was assigned and a read was opened."""
    table = tiered(world)
    world.append(table, 10, 10)
    world.due()
    asleep = world.begin(table).advance_to(act.CommitLake)
    world.clock.advance(200)
    tick(world.coordinator)
    world.append(table, 20, 10)
    world.due()
    round_ = world.begin(table)
    read = opened(world, table)
    snapshot = read.read.moment.lake_snapshot_id

    asleep.runner.advance()
    late = world.view(table).tiered
    assert late != snapshot
    world.clock.advance(120)
    assert round_.end().error is None
    assert world.view(table).tiered != late
    assert snapshot in world.view(table).snapshots
    world.coordinator.reads.close(read.ticket)
    tier_more(world, table, 30)
    assert not {snapshot, late} & world.view(table).snapshots.keys()


@in_lakes(ICEBERG)
def test_the_outlook_of_an_expiry_names_open_reads(world: LakeWorld) -> None:
    """A Paimon table keeps a range of snapshots."""
    table = tiered(world)
    opened(world, table)
    tier_more(world, table, 10)
    outlook = outlook_of(world.coordinator.call_parts, table.path, ExpiryOrder(world.clock.now(), 1))
    assert outlook is not None
    assert outlook.kept[OPEN_READS] == 1


def test_rows_of_an_open_read_are_the_same_after_rounds_and_sweeps(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 10, 4)
    ticket = opened(world, table).ticket
    for first in (14, 44):
        tier_more(world, table, first)
        _, ticket = world.coordinator.reads.renew(ticket)
        world.clock.advance(READ_TTL.total_seconds() / 2)
        _, ticket = world.coordinator.reads.renew(ticket)
        world.coordinator.sweeps.run()

    tasks, _ = world.coordinator.reads.plan(ticket, ReadScan(columns=("id",)))
    assert sorted(value for task in tasks for batch in task.read() for value in batch.column("id").to_pylist()) == list(range(14))


@in_lakes(PAIMON)
def test_another_snapshot_that_got_the_id_of_a_rolled_back_one_is_not_read(world: LakeWorld) -> None:
    """No snapshot of Iceberg gets the id of an earlier one, and a roll-back removes none."""
    table = world.table("orders")
    tier_more(world, table, 0, rounds=1)
    first = world.view(table).head
    assert first is not None
    tier_more(world, table, 10, rounds=1)
    ticket = opened(world, table).ticket
    assert world.coordinator.reads.plan(ticket, ReadScan())[0]
    snapshot = world.view(table).head

    world.by_hand.roll_back(table.path, first)
    world.by_hand.append(table.path, world.by_hand.rows(table.path).slice(0, 1), {})

    assert world.view(table).head == snapshot
    with pytest.raises(LakeUnavailable, match="rolled back"):
        world.coordinator.reads.plan(ticket, ReadScan())
