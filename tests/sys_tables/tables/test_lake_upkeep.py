"""`sys.lake_upkeep`, and the columns of `sys.lake_table_health` about upkeep: what became of upkeep, and what the next one waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest

from support.upkeep.upkeep_world import MB, UpkeepWorld, end_upkeep, run_upkeep, upkeep_stats, upkept_table
from support.worlds.coordinator_world import HandTierer
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering.coordinator.options import CoordinatorOptions
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder
from tiering.rpc.v1 import coordinator_pb2 as pb

HOUR_MS = 3_600_000


@pytest.fixture
def world() -> Iterator[UpkeepWorld]:
    world = UpkeepWorld(tables=(upkept_table(freshness_ms=HOUR_MS),), rows=10)
    yield world
    world.coordinator.close()


@pytest.fixture
def tierer(world: UpkeepWorld) -> HandTierer:
    world.later(HOUR_MS / 1_000)
    tierer = world.tierer()
    tierer.run(tierer.get())
    return tierer


def shown(world: UpkeepWorld, table: str = "lake_upkeep") -> list[dict[str, Any]]:
    rows = default_registry().table(table).rows(world.coordinator.view(), ScanRequest())
    return [asdict(row) for row in rows]  # type: ignore[union-attr,call-overload]


def health(world: UpkeepWorld) -> tuple[object, ...]:
    (row,) = shown(world, "lake_table_health")
    return tuple(row[name] for name in row if "upkeep" in name)


def test_without_upkeep_there_are_no_rows(world: UpkeepWorld, tierer: HandTierer) -> None:
    assert shown(world) == []
    assert health(world) == (None, None, None, None, None)


def test_an_upkeep_round_is_a_row_from_its_beginning_to_its_end(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    info = tierer.get()
    (row,) = shown(world)
    assert (row["round_id"], row["trigger"], row["triggered_by"], row["outcome"]) == (info.round_id, "upkeep", None, "RUNNING")
    assert (row["actions"], row["budget_bytes"], row["files_before"]) == ("rewrite_files", info.upkeep.budget_bytes, None)
    assert row["reason"].startswith("100.0 MB of data files are to be rewritten")
    world.later(2)
    run_upkeep(tierer, info, upkeep_stats(50 * MB, rows_dropped=3))
    (row,) = shown(world)
    assert (row["outcome"], row["files_before"], row["files_after"], row["bytes_read"]) == ("SUCCEEDED", 20, 1, 100 * MB)
    assert (row["bytes_left"], row["rows_dropped"], row["duration_ms"], row["error_class"]) == (50 * MB, 3, 2_000, None)


def test_upkeep_inside_a_tiering_round_is_a_row(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.append(5)
    world.later(HOUR_MS / 1_000)
    info = tierer.get()
    tierer.commit(info)
    tierer.ack(info)
    end_upkeep(tierer, info, upkeep_stats(None, snapshots_expired=4))
    (row,) = shown(world)
    assert (row["round_id"], row["trigger"], row["outcome"], row["reason"]) == (info.round_id, "round", "SUCCEEDED", None)
    assert (row["actions"], row["files_before"], row["snapshots_expired"]) == ("rewrite_files, expire_snapshots", 20, 4)
    assert health(world)[:2] == (world.clock.now(), "SUCCEEDED")


def test_outcomes_say_how_upkeep_ended(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    tierer.fail(tierer.get())
    world.ask_for_upkeep(UpkeepOrder(rewrite=False, manifests=True, expiry=ExpiryOrder(retain_last=3)), "expire_snapshots")
    end_upkeep(tierer, tierer.get(), pb.PbRoundStats(), empty=True)
    world.ask_for_upkeep(UpkeepOrder(full=True))
    end_upkeep(tierer, tierer.get(), upkeep_stats(None, files_after=0, dropped=2), empty=True)
    dropped, empty, failed = shown(world)
    assert (failed["outcome"], failed["error_class"], failed["error_message"]) == ("FAILED", "OSError", "no disk left")
    assert (empty["outcome"], empty["actions"], empty["trigger"]) == ("EMPTY", "merge_manifests, expire_snapshots", "call")
    assert (empty["triggered_by"], empty["reason"], empty["budget_bytes"]) == ("alice", "expire_snapshots by alice", None)
    assert (dropped["outcome"], dropped["actions"], dropped["dropped_buckets"]) == ("DROPPED", "rewrite_all_files", 2)


def test_health_says_what_the_next_upkeep_waits_for(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    assert health(world) == (None, None, world.clock.now(), "a slot that no other table needs", None)
    info = tierer.get()
    assert health(world)[3] == f"upkeep round {info.round_id} runs"
    tierer.fail(info)
    interval = timedelta(milliseconds=CoordinatorOptions().upkeep_interval_ms)
    waits = "1 upkeep round in a row failed or lost a commit conflict: the next one begins in 5 min"
    assert health(world) == (world.clock.now(), "FAILED", world.clock.now() + interval, waits, None)
    world.pause_upkeep(pauses=True, reason="a migration")
    assert health(world)[3:] == ("its upkeep is paused by alice: a migration", "alice")
