"""The sweep over a real Iceberg lake: dead rounds' files go, live ones and those of a commit that may still land stay."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.background import tick
from support.operators import pause
from support.services.served import calls_of
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering import errors
from tiering.cli.main import app
from tiering.client import AsyncLakewardClient, LakewardClient
from tiering.cluster.writable import TableSpec
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.server.serving import serve
from tiering.lake.base import LakeView
from tiering.lake.marker import encode
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.sweep_lake import SweepLake, SweepResult
from tiering.round.steps import actions as act


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    lake_world.clock.wall = datetime.now(UTC)  # files carry the machine's time
    yield lake_world
    lake_world.close()


def sweep(world: LakeWorld, table: TableInfo | None, *, dry_run: bool = False, older_than_ms: int = 0) -> SweepResult:
    call = SweepLake(None if table is None else table.path, older_than_ms, dry_run, caller="alice")
    [result] = asyncio.run(world.coordinator.control.perform(call))
    return result


def tiered(world: LakeWorld) -> TableInfo:
    table = world.table("orders")
    for start in (0, 20):
        world.append(table, start, 20)
        assert world.tier(table).state is RoundState.SUCCEEDED
    world.append(table, 40, 20)
    return table


def silence(world: LakeWorld) -> None:
    """The tierer is not heard of for the service timeout."""
    world.clock.advance(200)
    tick(world.coordinator)


def own_files(world: LakeWorld, table: TableInfo) -> set[str]:
    return {file.name for file in world.lake.stored_files(world.view(table)) if "lakeward-" in file.name}


def test_a_dead_rounds_files_go_and_nothing_else(world: LakeWorld) -> None:
    table = tiered(world)
    before = own_files(world, table)
    world.due()
    world.begin(table).advance_to(act.BeginCommit)
    left = own_files(world, table) - before
    assert len(left) == 2
    assert sweep(world, table).removed == 0
    silence(world)
    assert sweep(world, table, older_than_ms=3_600_000).removed == 0
    shown = sweep(world, table, dry_run=True)
    assert (shown.removed, own_files(world, table) - before) == (2, left)
    done = sweep(world, None)
    assert (done.removed, done.removed_bytes) == (2, shown.removed_bytes)
    assert done.removed_bytes > 0
    assert own_files(world, table) == before
    assert [event.principal for event in world.store.events() if event.event_type == "LAKE_SWEPT"] == ["alice"]
    world.due()
    world.begin(table).end()
    world.assert_exact(table)


def test_a_sweep_that_fails_half_way_says_so_and_names_what_went(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tiered(world)
    before = own_files(world, table)
    world.due()
    world.begin(table).advance_to(act.BeginCommit)
    left = own_files(world, table) - before
    silence(world)
    delete, locations = world.lake.delete_file, list[str]()

    def delete_once(view: LakeView, location: str) -> None:
        if locations:
            raise errors.LakeUnavailable("the disk went away")
        locations.append(location)
        delete(view, location)

    monkeypatch.setattr(world.lake, "delete_file", delete_once)
    result = sweep(world, None)
    assert (result.removed, result.error) == (0, "LakeUnavailable: the disk went away")
    [event] = [event for event in world.store.events() if event.event_type == "LAKE_SWEPT"]
    assert {*event.details["files"]} == left - own_files(world, table)
    assert len(event.details["files"]) == 1


def test_a_committer_that_wakes_up_after_the_sweep_finds_its_files(world: LakeWorld) -> None:
    table = tiered(world)
    world.due()
    asleep = world.begin(table).advance_to(act.CommitLake)
    silence(world)
    kept = sweep(world, table)
    assert (kept.removed, kept.kept["MAY_STILL_LAND"]) == (0, 2)
    asleep.end()
    world.assert_exact(table)


def test_once_what_it_was_built_on_expired_its_files_go_and_its_commit_is_refused(world: LakeWorld) -> None:
    table = tiered(world)
    world.due()
    asleep = world.begin(table).advance_to(act.CommitLake)
    silence(world)
    world.due()
    assert world.begin(table).end().state is RoundState.SUCCEEDED
    assert sweep(world, table).removed == 0
    world.by_hand.expire(table.path)
    assert sweep(world, table).removed == 2
    assert asleep.end().state is not RoundState.SUCCEEDED
    world.assert_exact(table)


def test_files_that_only_an_older_snapshot_names_stay_until_it_expires(world: LakeWorld) -> None:
    table = tiered(world)
    loaded = world.iceberg(table)
    loaded.overwrite(loaded.scan().to_arrow())
    assert sweep(world, table).removed == 0
    first = loaded.metadata.snapshots[0].snapshot_id
    assert loaded.scan(snapshot_id=first).to_arrow().num_rows == 20


def test_metadata_of_a_commit_that_was_refused_goes(world: LakeWorld) -> None:
    """A foreign commit comes between staging and request: the first attempt's manifests belong to no snapshot."""
    table = tiered(world)
    world.due()
    stepped = world.begin(table).advance_to(act.CommitLake)
    world.iceberg(table).delete("id = 0")
    assert stepped.end().state is RoundState.SUCCEEDED
    assert sweep(world, table).kept["MAY_STILL_LAND"] == 2
    world.by_hand.expire(table.path)
    result = sweep(world, table)
    assert result.removed == 2  # a manifest and a manifest list
    world.iceberg(table).scan().to_arrow()


def test_marker_files_are_told_apart_too(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.lake.marker.PLAIN_LIMIT_BYTES", 0)
    monkeypatch.setattr("tiering.lake.marker.SUMMARY_LIMIT_BYTES", 0)
    table = tiered(world)
    marker = world.view(table).marker
    assert marker is not None
    assert encode(marker).overflow is not None
    names = own_files(world, table)
    assert sum(name.endswith(".marker") for name in names) == 2
    assert sweep(world, table).removed == 0
    assert own_files(world, table) == names


def test_nothing_of_a_replaced_lake_table_is_deleted(world: LakeWorld) -> None:
    table = tiered(world)
    record = world.record(table)
    with world.coordinator.table_records.changing():
        world.coordinator.table_records.put(Change(replace(record, lake=replace(record.lake, table_uuid="another"))))
    with pytest.raises(errors.LakeTableReplaced):
        sweep(world, table)
    assert "LakeTableReplaced" in (sweep(world, None).error or "")


@pytest.mark.parametrize("keeps_uuid", [True, False], ids=["", "a ledger of an older version"])
def test_the_files_of_a_renamed_lake_table_are_alive_in_whatever_folder(
    world: LakeWorld, monkeypatch: pytest.MonkeyPatch, keeps_uuid: bool
) -> None:
    """A round landed and its ack was lost; then the table was renamed, and an older version made the new one in the same folder."""
    table = world.table("orders")
    for start in (0, 20):
        world.append(table, start, 20)
        world.due()
        world.transport.lose_acks = start == 20
        world.begin(table).end()
    world.transport.lose_acks = False
    if not keeps_uuid:
        forget_uuids(world, table)
    former = world.iceberg(table)
    assert former.scan().to_arrow().num_rows == 40
    world.iceberg_catalog().rename_table("sales.orders", "sales.former")
    monkeypatch.setattr("tiering.lake.iceberg.lake.new_location", lambda *_: former.location())
    assert isinstance(world.tier(table).error, errors.LakeTableReplaced)
    asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, "retier", caller="alice")))
    assert world.begin(table).end().state is RoundState.SUCCEEDED
    assert world.iceberg(table).location() == former.location()
    world.assert_exact(table)
    result = sweep(world, table)
    assert world.iceberg_catalog().load_table("sales.former").scan().to_arrow().num_rows == 40
    assert result.kept["OF_ANOTHER_TABLE"] > 0
    world.assert_exact(table)


def forget_uuids(world: LakeWorld, table: TableInfo) -> None:
    """Rows as an older version wrote them."""
    with world.coordinator.table_records.changing():
        rows = [replace(row, lake_table_uuid=None) for row in world.store.commits(table.table_id)]
        for row in rows:
            world.coordinator.table_records.put(Change(world.record(table)).update_commit(row))


def test_a_new_lake_table_has_a_folder_of_its_own(world: LakeWorld) -> None:
    table = tiered(world)
    former = world.iceberg(table)
    catalog = world.iceberg_catalog()
    catalog.rename_table("sales.orders", "sales.former")
    world.lake.ensure_table(table)
    folders = {former.location(), world.iceberg(table).location()}
    assert len(folders) == 2
    assert all(re.search(r"/sales/orders-[0-9a-f]{12}$", folder) for folder in folders)


def test_a_table_whose_metadata_is_damaged_is_named_and_the_others_are_swept(world: LakeWorld) -> None:
    orders = tiered(world)
    world.due()
    world.begin(orders).advance_to(act.BeginCommit)
    silence(world)
    pause(world.coordinator, orders.path, "alice")
    broken = world.table("broken")
    world.append(broken, 0, 20)
    world.tier(broken)
    head = world.iceberg(broken).current_snapshot()
    assert head is not None
    manifests = Path(head.manifest_list.removeprefix("file://"))
    manifests.write_bytes(manifests.read_bytes()[:-30])
    before = own_files(world, broken)
    results = asyncio.run(world.coordinator.control.perform(SweepLake(None, 0, False, caller="alice")))
    assert [(result.path.table_name, result.removed) for result in results] == [("broken", 0), ("orders", 2)]
    assert results[0].error is not None
    assert "LakeUnavailable: cannot read the manifests of sales.broken: its metadata cannot be read" in results[0].error
    assert own_files(world, broken) == before


def test_both_python_clients_sweep_alike(world: LakeWorld) -> None:
    table = tiered(world)
    world.due()
    world.begin(table).advance_to(act.BeginCommit)
    silence(world)

    async def ask() -> None:
        server = await serve(world.coordinator, "127.0.0.1", 0, [calls_of(world)])
        try:
            with LakewardClient(server.address) as client:
                shown = await asyncio.to_thread(client.sweep_lake, "sales.orders", older_than_ms=0, dry_run=True)
            async with AsyncLakewardClient(server.address) as client_too:
                assert await client_too.sweep_lake("sales.orders", older_than_ms=0, dry_run=True) == shown
                assert await client_too.sweep_lake(older_than_ms=0, caller="bob") == shown
                with pytest.raises(errors.UnknownTable):
                    await client_too.sweep_lake("sales.nothing")
        finally:
            await server.stop()
        assert [result.removed for result in shown] == [2]

    asyncio.run(ask())
    assert [event.principal for event in world.store.events() if event.event_type == "LAKE_SWEPT"] == ["bob"]


def test_the_command_asks_the_coordinator_and_shows_what_it_did(world: LakeWorld) -> None:
    table = tiered(world)
    world.due()
    world.begin(table).advance_to(act.BeginCommit)
    silence(world)

    def lakeward(address: str, *arguments: str) -> list[dict[str, object]]:
        done = CliRunner().invoke(app, ["sweep", *arguments, "--format", "json", "--uri", address])
        assert done.exit_code == 0, done.output
        begin = re.search(r"^\[\s*(?:$|\{)", done.output, re.MULTILINE)  # the service logs to the same place here
        assert begin is not None, done.output
        return list(json.JSONDecoder().raw_decode(done.output[begin.start() :])[0])

    async def ask() -> None:
        server = await serve(world.coordinator, "127.0.0.1", 0, [calls_of(world)])
        try:
            [guarded] = await asyncio.to_thread(lakeward, server.address)
            [shown] = await asyncio.to_thread(lakeward, server.address, "sales.orders", "--dry-run", "--older-than", "0 s")
            [done] = await asyncio.to_thread(lakeward, server.address, "--older-than", "0 s")
        finally:
            await server.stop()
        assert (guarded["removed"], shown["would_remove"], done["removed"]) == (0, 2, 2)
        assert "LIVE" in str(done["kept"])

    asyncio.run(ask())


def test_a_table_of_a_moment_ago_is_swept_as_an_empty_one(world: LakeWorld) -> None:
    former = world.table("orders")
    path = TablePath("sales", "fresh")
    world.storage.create_table(path, TableSpec(SCHEMA, 2, (), properties=former.properties))
    [result] = asyncio.run(world.coordinator.control.perform(SweepLake(path, 0, caller="alice")))
    assert result == SweepResult(path, 0, 0, 0, {})
    with pytest.raises(errors.UnknownTable, match="is not a lake table"):
        asyncio.run(world.coordinator.control.perform(SweepLake(TablePath("sales", "nowhere"), 0, caller="alice")))
