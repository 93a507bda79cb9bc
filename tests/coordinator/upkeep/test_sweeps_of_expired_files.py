"""Files that only expired snapshots named are deleted: after the guard, on a schedule, and never those of a copy of the table."""

from __future__ import annotations

import pytest

from support.upkeep.expiring_tables import expiring_table, tier
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.calls.sweep_lake import sweep_lake
from tiering.coordinator.lake_repair import background_sweeps
from tiering.coordinator.lake_repair.background_sweeps import EXPIRED_MS, BackgroundSweeps
from tiering.model.tables import TableInfo
from tiering.procedures.sweep_lake import SweepLake, SweepResult


def compact(world: LakeWorld, table: TableInfo) -> None:
    """A user's engine writes all rows anew."""
    loaded = world.iceberg(table)
    loaded.overwrite(loaded.scan().to_arrow())


def sweep(world: LakeWorld, table: TableInfo) -> SweepResult:
    [result] = sweep_lake(world.coordinator.call_parts, SweepLake(table.path, 0, caller="ann"))
    return result


def assert_all_snapshots_can_be_read(world: LakeWorld, table: TableInfo) -> None:
    loaded = world.iceberg(table)
    for snapshot in loaded.metadata.snapshots:
        loaded.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def test_expired_files_go_once_they_were_dead_for_the_guard(world: LakeWorld) -> None:
    table = expiring_table(world)
    tier(world, table, 3)
    compact(world, table)
    tier(world, table, 3, first=3)
    assert len(world.iceberg(table).metadata.snapshots) <= 3
    first = sweep(world, table)
    assert first.removed == 0
    assert first.kept["EXPIRED_LATELY"] >= 6 + 3  # data files and manifest lists of three rounds
    assert "OF_ANOTHER_COPY" not in first.kept
    world.clock.advance(1)
    second = sweep(world, table)
    assert second.removed == first.kept["EXPIRED_LATELY"]
    assert_all_snapshots_can_be_read(world, table)
    assert world.iceberg(table).scan().to_arrow().num_rows == 60
    tier(world, table, 2, first=6)
    world.assert_exact(table)


def test_nothing_goes_of_a_table_that_was_set_back_to_an_older_copy(world: LakeWorld) -> None:
    table = expiring_table(world)
    tier(world, table, 2)
    older = world.iceberg(table).metadata_location
    tier(world, table, 4, first=2)
    newer = world.iceberg(table).metadata_location
    catalog = world.iceberg_catalog()
    catalog.drop_table(str(table.path))
    catalog.register_table(str(table.path), older)
    for _ in range(2):
        assert sweep(world, table).removed == 0
        world.clock.advance(1)
    catalog.drop_table(str(table.path))
    catalog.register_table(str(table.path), newer)
    assert_all_snapshots_can_be_read(world, table)
    tier(world, table, 1, first=6)
    world.assert_exact(table)


def test_a_user_who_switched_deletion_off_keeps_all_files(world: LakeWorld) -> None:
    table = expiring_table(world)
    tier(world, table, 4)
    world.iceberg(table).transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
    for _ in range(2):
        result = sweep(world, table)
        assert result.removed == 0
        world.clock.advance(1)
    assert result.kept["OF_ANOTHER_COPY"] > 0


def test_tables_are_swept_in_the_background_in_pieces(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table, sweeps = expiring_table(world), BackgroundSweeps(world.coordinator.call_parts)
    tier(world, table, 4)
    sweeps.run()
    assert not swept_events(world)
    world.clock.advance(EXPIRED_MS / 1_000 + 1)
    monkeypatch.setattr(background_sweeps, "MAX_FILES", 1)
    sweeps.run()
    assert [event.details["files"] for event in swept_events(world)] == [[event.details["files"][0]] for event in swept_events(world)]
    monkeypatch.undo()
    sweeps.run()
    assert [event.principal for event in swept_events(world)] == ["lakeward", "lakeward"]
    assert swept_events(world)[0].details["size_bytes"] > 0
    assert_all_snapshots_can_be_read(world, table)
    world.assert_exact(table)


def test_a_table_at_rest_is_not_swept_again(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table, sweeps = world.table("orders"), BackgroundSweeps(world.coordinator.call_parts)
    tier(world, table, 1)
    sweeps.run()
    looks = list[object]()
    survey = world.lake.survey
    monkeypatch.setattr(world.lake, "survey", lambda path: looks.append(path) or survey(path))
    sweeps.run()
    assert not looks
    tier(world, table, 1, first=1)
    sweeps.run()
    assert looks


def swept_events(world: LakeWorld) -> list:  # type: ignore[type-arg]
    return [event for event in world.store.events() if event.event_type == "LAKE_SWEPT"]
