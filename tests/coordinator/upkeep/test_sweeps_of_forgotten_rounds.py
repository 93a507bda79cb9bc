"""Files of rounds that the ledger forgot are deleted as those of rounds that it knows: no file stays for ever, and no copy loses one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from support.background import tick
from support.upkeep.degraded_tables import Degradation, degraded_table
from support.upkeep.expiring_tables import expiring_table, tier
from support.worlds.lake_world import LakeWorld
from support.worlds.memory_store import MemoryStore
from tiering.coordinator.calls.sweep_lake import sweep_lake
from tiering.model.reading.open_reads import READ_TTL
from tiering.model.tables import TableInfo
from tiering.procedures.sweep_lake import SweepLake, SweepResult
from tiering.round.steps import actions as act

DAY_MS = 86_400_000


def sweep(world: LakeWorld, table: TableInfo, older_than_ms: int = 0) -> SweepResult:
    [result] = sweep_lake(world.coordinator.call_parts, SweepLake(table.path, older_than_ms, caller="ann"))
    return result


def forget(world: LakeWorld) -> None:
    """The ledger loses all rounds but the newest."""
    store = world.store
    assert isinstance(store, MemoryStore)
    newest = max(store._rounds.values(), key=lambda row: row.tiering_epoch).round_id
    for rows in (store._rounds, store._commits):
        for round_id in [key for key in rows if key != newest]:
            del rows[round_id]


def stored(world: LakeWorld, table: TableInfo) -> set[str]:
    folder = Path(world.iceberg(table).location().removeprefix("file://"))
    return {path.name for path in folder.rglob("*lakeward-*") if path.is_file()}


def live(world: LakeWorld, table: TableInfo) -> set[str]:
    view = world.view(table)
    return {location.rsplit("/", 1)[-1] for location in world.lake.live_files(view)}


def test_expired_files_go_though_their_rounds_were_forgotten_and_the_coordinator_started_anew(world: LakeWorld) -> None:
    table = expiring_table(world)
    tier(world, table, 6)
    assert sweep(world, table).removed == 0, "they were dead for no time yet"
    dead = stored(world, table) - live(world, table)
    world.restart()
    world.clock.advance(READ_TTL.total_seconds())  # until then the coordinator does not know which reads are open
    forget(world)
    tier(world, table, 3, first=6)
    sweep(world, table)
    world.clock.advance(1)
    assert "UNKNOWN_ROUND" not in sweep(world, table).kept
    assert not dead & stored(world, table)
    world.assert_exact(table)


def test_files_of_a_dead_round_go_though_it_was_forgotten_before_they_were_old_enough(world: LakeWorld) -> None:
    table = expiring_table(world)
    tier(world, table, 1)
    world.append(table, 10, 10)
    world.due()
    dead = world.begin(table).advance_to(act.BeginCommit)
    world.clock.advance(600)
    tick(world.coordinator)
    tier(world, table, 6, first=2)
    left = {name for name in stored(world, table) if dead.assignment.round_id in name}
    assert left
    assert sweep(world, table, 30 * DAY_MS).kept["YOUNG"] > 0
    forget(world)
    tier(world, table, 1, first=8)
    sweep(world, table)
    assert not left & stored(world, table)
    world.assert_exact(table)


def test_a_copy_that_was_put_aside_keeps_its_files_when_its_rounds_are_forgotten(world: LakeWorld) -> None:
    table = expiring_table(world)
    tier(world, table, 2)
    older = world.iceberg(table).metadata_location
    tier(world, table, 4, first=2)
    newer = world.iceberg(table).metadata_location
    sweep(world, table)
    catalog = world.iceberg_catalog()
    catalog.drop_table(str(table.path))
    catalog.register_table(str(table.path), older)
    forget(world)
    for _ in range(3):
        assert sweep(world, table).removed == 0
        world.clock.advance(1)
    catalog.drop_table(str(table.path))
    catalog.register_table(str(table.path), newer)
    loaded = world.iceberg(table)
    for snapshot in loaded.metadata.snapshots:
        loaded.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def test_a_table_of_an_earlier_version_loses_its_history_though_its_rounds_are_unknown(world: LakeWorld) -> None:
    """2,000 snapshots of 55 hours whose rounds were never on the ledger. Most expire before the first sweep looks."""
    table = degraded_table(world, "orders", Degradation(snapshots=2_000, files=300, round_ms=100_000))
    world.clock.wall = datetime.now(UTC) + timedelta(hours=2)
    for number in range(4):
        world.append(table, 300 + number * 10, 10)
        assert world.tier(table).error is None
    assert len(world.iceberg(table).metadata.snapshots) <= 96 + 20
    sweep(world, table)
    world.clock.advance(3_600)
    assert sweep(world, table).removed > 1_000
    result = sweep(world, table)
    assert set(result.kept) == {"LIVE", "NOT_OURS", "MAY_STILL_LAND"}
    assert result.kept["MAY_STILL_LAND"] < 1_000, "rounds of the last day: a snapshot that is as old may be what they were granted on"
    world.assert_exact(table)
