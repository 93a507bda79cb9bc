"""A table on which the Fluss user lacks a privilege is never taken for a dropped one, and stops no other table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.background import tick
from support.scripted.world import ScriptedFlussWorld
from support.worlds.lake_world import SCHEMA
from tiering.coordinator.observing import discovery
from tiering.errors import ClusterAccessDenied
from tiering.model.tables import TableInfo

pytestmark = pytest.mark.parametrize("release", ["0.9", "1.0"])

GRANT = "CALL sys.add_acl(resource => 'cluster.sales.{}', permission => 'ALLOW', principal => 'User:lakeward', operation => '{}')"


def test_a_table_that_may_not_be_described_any_more_keeps_its_state_and_shows_what_to_grant(world: ScriptedFlussWorld) -> None:
    (orders, info), (others, other_info) = world.create("orders"), world.create("others")
    world.write(orders, 0, 10)
    world.write(others, 0, 10)
    world.tier_all()
    before, recorded = world.record(info), world.fluss.recorded(orders)
    world.fluss.denied.add(("DESCRIBE", orders.path))
    world.write(orders, 10, 5)
    world.write(others, 10, 5)
    world.restart()
    _fail(world, info, "DESCRIBE")
    assert world.record(info).lake == before.lake
    assert world.lake_ids(other_info) == list(range(15))
    assert world.lake_ids(info) == list(range(10))
    assert world.fluss.recorded(orders) == recorded
    world.fluss.denied.clear()
    world.tier_all()
    assert world.lake_ids(info) == list(range(15))


def _fail(world: ScriptedFlussWorld, info: TableInfo, operation: str) -> None:
    """A round of each table; the one of `info` fails by the missing privilege, and `sys` says so."""
    world.due()
    while (answer := world.beat(request_table=True)).HasField("tiering_table"):
        outcome = world._stepped(answer).end()
        assert (outcome.error is not None) == (answer.tiering_table.table_id == info.table_id)
    [status] = world.coordinator.view().table_statuses("sales", info.path.table_name)
    assert status.error_class == ClusterAccessDenied.__name__
    assert status.last_error is not None
    assert f"the Fluss user 'lakeward' lacks the privilege {operation} on the table 'sales.orders'" in status.last_error
    assert status.error_hint is not None
    assert GRANT.format(info.path.table_name, operation) in status.error_hint


def test_a_table_that_may_not_be_read_fails_alone(world: ScriptedFlussWorld) -> None:
    (orders, info), (others, other_info) = world.create("orders"), world.create("others")
    world.write(orders, 0, 10)
    world.write(others, 0, 10)
    world.fluss.denied.add(("READ", orders.path))
    _fail(world, info, "READ")
    assert world.lake_ids(other_info) == list(range(10))
    world.fluss.denied.clear()
    world.tier_all()
    assert world.lake_ids(info) == list(range(10))


def test_a_table_that_is_dropped_while_it_is_hidden_is_removed_once_that_can_be_seen(world: ScriptedFlussWorld) -> None:
    orders, info = world.create("orders")
    world.fluss.denied.add(("DESCRIBE", orders.path))
    world.fluss.drop(orders)
    tick(world.coordinator)
    assert world.record(info).state is not None
    world.fluss.denied.clear()
    tick(world.coordinator)
    assert world.coordinator.view().table_statuses() == []


def test_of_many_hidden_tables_some_are_looked_up_again_in_turn(world: ScriptedFlussWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "HIDDEN_LOOKUPS", 1)
    created = [world.create(name) for name in ("first", "second", "third")]
    world.fluss.denied |= {("DESCRIBE", table.path) for table, _ in created}
    tick(world.coordinator)
    lookups = [_lookups(world) for _ in range(3)]
    assert sorted(path for lookup in lookups for path in lookup) == ["sales.first", "sales.second", "sales.third"]


def _lookups(world: ScriptedFlussWorld) -> list[str]:
    """The tables that one comparison looks up."""
    before = len(world.fluss.described)
    world.coordinator.discovery.run()
    return [str(path) for path in world.fluss.described[before:]]


def test_a_hidden_table_with_partitions_hides_no_bucket_of_another_one(world: ScriptedFlussWorld) -> None:
    schema = pa.schema([*SCHEMA, ("region", pa.string())])
    (regions, _), (others, _) = world.create("regions", schema, partition_keys=["region"]), world.create("others")
    world.fluss.add_partition(regions, "north")
    world.write(others, 0, 10)
    world.tier_all()
    assert {bucket.partition_name for bucket in world.coordinator.view().buckets()} == {"north", None}
    world.fluss.denied.add(("DESCRIBE", regions.path))
    tick(world.coordinator)
    shown = {(bucket.table_name, bucket.partition_name, bucket.log_end_offset) for bucket in world.coordinator.view().buckets()}
    assert shown == {("regions", None, 0), ("others", None, 10)}
