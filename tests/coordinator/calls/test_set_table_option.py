"""CALL sys.set_table_option over a real cluster and a real lake: what changes at once, what is refused and why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.worlds.coordinator_world import World
from support.worlds.lake_world import FRESHNESS_S, LakeWorld
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import InvalidArgument, UnknownTable
from tiering.lake.iceberg_options import COLUMN, LAKE_TABLE_OPTIONS, PREFIX
from tiering.model.tables import TablePath
from tiering.procedures.set_table_option import SetTableOption, SetTableOptionResult

FRESHNESS, ENABLED = "table.datalake.freshness", "table.datalake.enabled"
DOCUMENTED = {
    FRESHNESS: "5 min",
    ENABLED: "false",
    "table.datalake.format": "iceberg",
    "table.datalake.round.bytes": "64 mb",
    "table.datalake.auto-expire-snapshot": "false",
    "table.datalake.snapshot.max-age": "2 d",
    "table.datalake.snapshot.min-count": "3",
    "table.datalake.target-file-size": "128 mb",
    "table.log.ttl": "7 d",
    "table.kv.snapshot.interval": "1 min",
}
VALUES = ("true", "1", "1024", "5000", "parquet", "gzip", "none", "file", "hash", "serializable", "merge-on-read", "zstd")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    yield world
    world.close()


def set_option(coordinator: Coordinator, path: TablePath, name: str, value: str | None = None, **options: Any) -> SetTableOptionResult:
    return asyncio.run(coordinator.control.perform(SetTableOption(path, name, value, caller="ann", **options)))


def test_a_changed_freshness_counts_at_once_and_null_is_the_default_again(world: LakeWorld) -> None:
    table = world.table("orders")
    result = set_option(world.coordinator, table.path, FRESHNESS, "5 min")
    assert (result.previous_value, result.value, result.outcome) == (f"{FRESHNESS_S} s", "5 min", "set")
    assert world.record(table).freshness_ms == 300_000
    [status] = world.coordinator.view().table_statuses("sales", "orders")
    assert status.freshness_ms == 300_000
    assert set_option(world.coordinator, table.path, FRESHNESS, "5 min").outcome == "unchanged"
    result = set_option(world.coordinator, table.path, FRESHNESS)
    assert (result.previous_value, result.value) == ("5 min", None)
    assert world.record(table).freshness_ms == timedelta(minutes=3) // timedelta(milliseconds=1)


def test_a_table_joins_and_leaves_the_lake_at_once(world: LakeWorld) -> None:
    table = world.table("orders")
    set_option(world.coordinator, table.path, ENABLED, "false")
    assert world.coordinator.view().table_statuses("sales", "orders") == []
    set_option(world.coordinator, table.path, ENABLED, "true")
    assert [status.table_name for status in world.coordinator.view().table_statuses("sales", "orders")] == ["orders"]


def test_every_documented_option_can_be_set_and_taken_back_before_there_is_a_lake_table(world: LakeWorld) -> None:
    table = world.table("orders")
    for name, value in DOCUMENTED.items():
        assert set_option(world.coordinator, table.path, name, value).value == value
        assert set_option(world.coordinator, table.path, name).value is None
    for name, option in LAKE_TABLE_OPTIONS.items():
        full_name = PREFIX + name.replace(COLUMN, "id")
        value = next(value for value in VALUES if option.accepts(value))
        assert set_option(world.coordinator, table.path, full_name, value).value == value
        assert set_option(world.coordinator, table.path, full_name).value is None


def test_what_the_lake_table_took_over_is_refused_with_the_reason_once_it_exists(world: LakeWorld) -> None:
    table = world.table("orders")
    set_option(world.coordinator, table.path, "iceberg.write.target-file-size-bytes", "1000000")
    world.append(table, 0, 20)
    world.tier(table)
    for dry_run in (True, False):
        for value in ("2000000", None):
            with pytest.raises(InvalidArgument, match="its lake table exists, and got the option when it was created") as refused:
                set_option(world.coordinator, table.path, "iceberg.write.target-file-size-bytes", value, dry_run=dry_run)
            assert "ALTER TABLE lake.sales.orders SET TBLPROPERTIES" in refused.value.hint
    same = set_option(world.coordinator, table.path, "iceberg.write.target-file-size-bytes", "1000000")
    assert same.outcome == "unchanged"
    assert set_option(world.coordinator, table.path, FRESHNESS, "5 min").outcome == "set", "only what bears on the lake table is fixed"


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("datalake.freshness", "5 min", "there is no table option 'datalake.freshness'", "table.datalake.freshness"),
        ("table.datalake.fresh", "5 min", "unknown table option", "table.datalake.freshness"),
        ("iceberg.write.target-file-size", "1", "not one that a table may have", "iceberg.write.target-file-size-bytes"),
        ("zzz", None, "there is no table option 'zzz'", "docs/options.md"),
        (FRESHNESS, "soon", "'soon'", ""),
        (ENABLED, "perhaps", "it must be true or false", ""),
        ("table.datalake.round.bytes", "much", "table.datalake.round.bytes is 'much'", "64 mb"),
        ("table.datalake.auto-expire-snapshot", "yes", "it must be true or false", ""),
        ("table.datalake.snapshot.max-age", "1 s", "table.datalake.snapshot.max-age is '1 s'", "The shortest age is 1 min"),
        ("table.datalake.snapshot.min-count", "0", "table.datalake.snapshot.min-count is '0'", "1 to 100,000"),
        ("table.datalake.target-file-size", "large", "table.datalake.target-file-size is 'large'", "256 mb"),
        ("iceberg.gc.enabled", "perhaps", "'perhaps'", "true, false"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_an_unknown_option_or_a_wrong_value_is_refused(
    world: LakeWorld, name: str, value: str | None, message: str, hint: str, dry_run: bool
) -> None:
    table = world.table("orders")
    before = world.storage.table(table.path).properties
    with pytest.raises(InvalidArgument, match=message) as refused:
        set_option(world.coordinator, table.path, name, value, dry_run=dry_run)
    assert hint in refused.value.hint
    assert world.storage.table(table.path).properties == before
    assert not [event for event in world.store.events() if event.event_type == "TABLE_OPTION_SET"]


def test_a_dry_run_shows_the_change_and_makes_none(world: LakeWorld) -> None:
    table = world.table("orders")
    result = set_option(world.coordinator, table.path, FRESHNESS, "5 min", dry_run=True)
    assert (result.value, result.outcome) == ("5 min", "would_set")
    assert world.storage.table(table.path) == table
    assert world.storage.tables()[0] == table


def test_the_event_tells_who_set_what(world: LakeWorld) -> None:
    table = world.table("orders")
    set_option(world.coordinator, table.path, FRESHNESS, "5 min")
    set_option(world.coordinator, table.path, FRESHNESS, "5 min")
    [event] = [event for event in world.store.events() if event.event_type == "TABLE_OPTION_SET"]
    assert (event.principal, event.table_name, event.message) == ("ann", "orders", f"{FRESHNESS} is '5 min'")


def test_a_repeat_after_a_death_before_the_answer_was_stored_ends_the_same(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.table("orders")
    with monkeypatch.context() as patch:
        patch.setattr(world.coordinator.table_records, "put", lambda *_, **__: (_ for _ in ()).throw(SystemError("killed")))
        with pytest.raises(SystemError):
            set_option(world.coordinator, table.path, FRESHNESS, "5 min", idempotency_key="k")
    world.restart()
    assert set_option(world.coordinator, table.path, FRESHNESS, "5 min", idempotency_key="k").value == "5 min"
    assert world.record(table).freshness_ms == 300_000


def test_a_table_that_is_not_there_and_a_cluster_that_cannot_say_so(world: LakeWorld) -> None:
    world.table("orders")
    with pytest.raises(UnknownTable):
        set_option(world.coordinator, TablePath("sales", "nothing"), FRESHNESS, "5 min")
    other = World()
    with pytest.raises(InvalidArgument, match="does not let Lakeward set table options"):
        set_option(other.coordinator, other.table.path, FRESHNESS, "5 min")
    other.coordinator.close()
