"""Files that only expired snapshots of Paimon tables named are deleted; what a tag, a branch or a reader needs stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pypaimon import CatalogFactory

from support.lake_kinds.by_hand import PaimonByHand
from support.lake_kinds.kinds import PAIMON_CLEAN
from support.upkeep.aged_world import AgedWorld
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA
from tiering.cluster.log_writer import LogWriter
from tiering.coordinator.calls.sweep_lake import sweep_lake
from tiering.lake.paimon.opening import warehouse_folder
from tiering.lake.paimon.storage.local import LocalTableFolder
from tiering.lake.table_options import SNAPSHOT_MAX_AGE, SNAPSHOT_MIN_COUNT
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.procedures.sweep_lake import SweepLake, SweepResult


class PaimonWorld(AgedWorld):
    """A world with Paimon tables, and pypaimon as another reader of them."""

    def by_pypaimon(self, table: TableInfo) -> Any:
        warehouse = str(warehouse_folder(self.lake_properties))
        return CatalogFactory.create({"warehouse": warehouse}).get_table(str(table.path))


@pytest.fixture(params=["log", "primary-key"])
def table_of_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[PaimonWorld, TableInfo]]:
    world = PaimonWorld(tmp_path, PAIMON_CLEAN)
    table = world.table("orders") if request.param == "log" else world.primary_key_table("orders")
    world.storage.set_table_option(table.path, SNAPSHOT_MIN_COUNT.name, "1")
    world.storage.set_table_option(table.path, SNAPSHOT_MAX_AGE.name, "1 min")
    yield world, table
    world.close()


def tier(world: PaimonWorld, table: TableInfo, rounds: int, first: int = 0) -> None:
    for number in range(first, first + rounds):
        if table.primary_key:
            ids = range(number * 10, number * 10 + 10)
            rows_of_round = pa.table({"id": ids, "text": [str(number) for number in ids]}, schema=PRIMARY_KEY_SCHEMA)
            LogWriter(world.storage, table.path, f"test-{number}").upsert(rows_of_round)
        else:
            world.append(table, number * 10, 10)
        assert world.tier(table).state is RoundState.SUCCEEDED
        world.clock.advance(30)


def sweep(world: PaimonWorld, table: TableInfo) -> SweepResult:
    [result] = sweep_lake(world.coordinator.call_parts, SweepLake(table.path, 0, caller="ann"))
    return result


def rows(world: PaimonWorld, table: TableInfo, **options: str) -> int:
    builder = world.by_pypaimon(table).copy(options).new_read_builder()
    return int(builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows)


def test_expired_files_go_once_they_were_dead_for_the_guard(table_of_world: tuple[PaimonWorld, TableInfo]) -> None:
    """Small files are merged on the way, so data files go, too."""
    world, table = table_of_world
    tier(world, table, 24)
    assert len(world.view(table).snapshots) <= 6
    first = sweep(world, table)
    assert first.removed == 0
    world.clock.advance(1)
    second = sweep(world, table)
    assert second.removed == first.kept["EXPIRED_LATELY"] > 24
    assert any(event.details["files"] for event in world.store.events() if event.event_type == "LAKE_SWEPT")
    for snapshot_id in world.view(table).snapshots:
        assert rows(world, table, **{"scan.snapshot-id": str(snapshot_id)}) > 0
    assert rows(world, table) == 240
    tier(world, table, 2, first=24)
    assert rows(world, table) == 260


def test_files_of_a_tag_stay_until_the_tag_goes(table_of_world: tuple[PaimonWorld, TableInfo]) -> None:
    world, table = table_of_world
    tier(world, table, 3)
    by_pypaimon = world.by_pypaimon(table)
    by_pypaimon.create_tag("monthly", snapshot_id=2)
    tier(world, table, 20, first=3)
    for _ in range(2):
        sweep(world, table)
        world.clock.advance(1)
    assert rows(world, table, **{"scan.tag-name": "monthly"}) == 20
    by_pypaimon.delete_tag("monthly")
    sweep(world, table)
    world.clock.advance(1)
    assert sweep(world, table).removed >= 2
    assert rows(world, table) == 230


def test_files_of_a_compaction_stay_while_its_late_request_can_land(
    table_of_world: tuple[PaimonWorld, TableInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tierer is suspended within the second commit of its round. What the round was granted on expires, and the round ends."""
    world, table = table_of_world
    late: list[tuple[str, bytes]] = []
    create = LocalTableFolder.create

    def suspended(folder: LocalTableFolder, kind: str, name: str, content: bytes) -> None:
        if kind == "snapshot" and json.loads(content)["commitKind"] == "COMPACT":
            late.append((name, content))
            raise OSError("the process is suspended")
        create(folder, kind, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(LocalTableFolder, "create", suspended)
        number = 0
        while not late:
            tier(world, table, 1, first=number)
            number += 1
    before = rows(world, table)
    view = world.view(table)
    assert view.tiered is not None
    assert isinstance(world.by_hand, PaimonByHand)
    world.by_hand.expire_before(table.path, view.tiered)
    for _ in range(2):
        sweep(world, table)
        world.clock.advance(3_600)
    [(name, content)] = late
    snapshots = world.by_hand.folder(table.path) / "snapshot"
    (snapshots / name).write_bytes(content)
    (snapshots / "LATEST").write_text(name.removeprefix("snapshot-"))
    assert world.view(table).head == view.tiered + 1
    assert rows(world, table) == before
