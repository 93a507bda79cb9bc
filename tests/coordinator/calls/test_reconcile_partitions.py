"""`CALL sys.reconcile_lake` of partitioned tables: partitions that came, went, and came again under their old name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from support.lake_kinds.repairs import RETIER
from support.on_call import next_action
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.cluster.log_writer import LogWriter
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.reading.view import TAG
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

SCHEMA = pa.schema(
    [pa.field("region", pa.string(), nullable=False), pa.field("day", pa.date32(), nullable=False), pa.field("id", pa.int64())]
)
NEW_YEAR = date(2026, 1, 1)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    yield lake_world
    lake_world.close()


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    return world.table("visits", 1, ("region", "day"), SCHEMA)


def append(world: LakeWorld, table: TableInfo, region: str, first: int, count: int) -> None:
    rows = pa.table({"region": [region] * count, "day": [NEW_YEAR] * count, "id": range(first, first + count)}, schema=SCHEMA)
    LogWriter(world.storage, table.path, f"test-{first}").append(rows)


def drop(world: LakeWorld, table: TableInfo, region: str) -> None:
    world.storage.drop_partition(table.path, f"{region}${NEW_YEAR}")


def tier(world: LakeWorld, table: TableInfo) -> None:
    assert world.tier(table).state is RoundState.SUCCEEDED


def roll_back(world: LakeWorld, table: TableInfo, snapshot: int) -> None:
    loaded = world.iceberg(table)
    loaded.manage_snapshots().rollback_to_snapshot(loaded.metadata.snapshots[snapshot].snapshot_id).commit()


def parked(world: LakeWorld, table: TableInfo, error: type[errors.LakewardError]) -> None:
    assert isinstance(world.tier(table).error, error)


def reconcile(world: LakeWorld, table: TableInfo, action: str, **more: bool) -> ReconcileLakeResult:
    return asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, action, caller="alice", **more)))


def regions(world: LakeWorld, table: TableInfo, result: ReconcileLakeResult) -> dict[str, int]:
    """Returns the offsets from which the tiering continues, by the name of the partition."""
    names = {str(partition.partition_id): partition.partition_name.split("$")[0] for partition in world.storage.partitions(table)}
    return {names[bucket.split("/")[0]]: offset for bucket, offset in result.offsets.items()}


def run_due(world: LakeWorld, table: TableInfo) -> None:
    assert world.record(table).state == "Pending"
    assert world.begin(table).end().state is RoundState.SUCCEEDED


def ids(world: LakeWorld, table: TableInfo) -> list[int]:
    return sorted(world.iceberg(table).scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def test_retier_after_a_rollback_goes_on_in_each_partition_behind_its_rows(world: LakeWorld, table: TableInfo) -> None:
    append(world, table, "eu", 0, 10)
    append(world, table, "gone", 500, 5)
    tier(world, table)
    append(world, table, "eu", 10, 10)
    append(world, table, "us", 100, 10)
    tier(world, table)
    append(world, table, "asia", 200, 10)  # made after the last round: in no record and no marker
    drop(world, table, "gone")
    roll_back(world, table, 0)
    parked(world, table, errors.LakeRolledBack)
    shown = reconcile(world, table, "retier", dry_run=True)
    done = reconcile(world, table, "retier")
    assert dict(shown.offsets) == dict(done.offsets)
    assert regions(world, table, done) == {"eu": 10}
    run_due(world, table)
    assert ids(world, table) == [*range(20), *range(100, 110), *range(200, 210), *range(500, 505)]


def test_partitions_whose_names_are_equal_but_for_case_are_told_apart(world: LakeWorld, table: TableInfo) -> None:
    append(world, table, "eu", 0, 10)
    append(world, table, "EU", 100, 6)
    tier(world, table)
    append(world, table, "EU", 106, 4)
    append(world, table, "Eu", 200, 3)
    tier(world, table)
    drop(world, table, "Eu")
    append(world, table, "Eu", 203, 2)
    roll_back(world, table, 0)
    parked(world, table, errors.LakeRolledBack)
    done = reconcile(world, table, "retier")
    assert (regions(world, table, done), done.records_left_out) == ({"eu": 10, "EU": 6}, 3), "the rows of the first Eu"
    run_due(world, table)
    assert ids(world, table) == [*range(10), *range(100, 110), 203, 204]


def test_rows_that_a_vanished_partition_left_are_not_judged(world: LakeWorld, table: TableInfo) -> None:
    append(world, table, "eu", 0, 10)
    append(world, table, "gone", 500, 5)
    tier(world, table)
    loaded = world.iceberg(table)
    loaded.delete("id = 502")
    append(world, table, "eu", 10, 10)
    tier(world, table)
    drop(world, table, "gone")
    roll_back(world, table, -2)
    parked(world, table, errors.LakeRolledBack)
    assert regions(world, table, reconcile(world, table, "retier")) == {"eu": 10}
    run_due(world, table)
    assert ids(world, table) == [*range(20), 500, 501, 503, 504]


@pytest.mark.parametrize("tiered_again", [False, True], ids=["before its first round", "after its first round"])
def test_retier_never_takes_the_rows_of_a_former_partition_for_those_of_the_present_one(
    world: LakeWorld, table: TableInfo, tiered_again: bool
) -> None:
    """The former `eu` left 10 rows under the same values; going on behind them would skip 10 rows of the present one."""
    append(world, table, "eu", 0, 10)
    append(world, table, "us", 100, 10)
    tier(world, table)
    drop(world, table, "eu")
    append(world, table, "eu", 20, 15)
    if tiered_again:
        tier(world, table)
        roll_back(world, table, 0)
    else:
        world.iceberg(table).manage_snapshots().remove_tag(TAG).commit()
    parked(world, table, errors.LakeRolledBack if tiered_again else errors.MarkerLost)
    with pytest.raises(errors.CannotReconcile, match="former partition"):
        reconcile(world, table, "retier")
    world.iceberg(table).delete("region = 'eu'")
    assert regions(world, table, reconcile(world, table, "retier"))["us"] == 10
    run_due(world, table)
    assert ids(world, table) == [*range(20, 35), *range(100, 110)]


def test_accept_counts_no_row_of_a_former_partition_as_one_of_the_present(world: LakeWorld, table: TableInfo) -> None:
    append(world, table, "eu", 0, 10)
    tier(world, table)
    drop(world, table, "eu")
    append(world, table, "eu", 20, 15)
    tier(world, table)
    roll_back(world, table, 0)
    parked(world, table, errors.LakeRolledBack)
    done = reconcile(world, table, "accept")
    assert (regions(world, table, done), done.records_left_out) == ({"eu": 15}, 15)


def test_accept_tells_no_number_where_no_marker_tells_whose_rows_stand_there(world: LakeWorld, table: TableInfo) -> None:
    append(world, table, "eu", 0, 10)
    tier(world, table)
    loaded = world.iceberg(table)
    loaded.manage_snapshots().remove_tag(TAG).commit()
    loaded.append(loaded.scan().to_arrow())
    only_head = world.iceberg(table).metadata.snapshots[0].snapshot_id
    world.iceberg(table).maintenance.expire_snapshots().by_id(only_head).commit()
    parked(world, table, errors.MarkerLost)
    done = reconcile(world, table, "accept")
    assert (regions(world, table, done), done.records_left_out) == ({"eu": 10}, None)


def lose_markers(world: LakeWorld, table: TableInfo) -> None:
    """The tag goes, and so does the snapshot that it named; rows stay."""
    world.iceberg(table).manage_snapshots().remove_tag(TAG).commit()
    loaded = world.iceberg(table)
    marked = [snapshot.snapshot_id for snapshot in loaded.metadata.snapshots]
    loaded.append(loaded.scan().to_arrow().slice(0, 0))
    expiry = world.iceberg(table).maintenance.expire_snapshots()
    for snapshot_id in marked:
        expiry = expiry.by_id(snapshot_id)
    expiry.commit()


def land_unheard(world: LakeWorld, table: TableInfo, first: int) -> None:
    """Commits the rows of the next offsets without a record, like a round whose answer was lost."""
    loaded = world.iceberg(table)
    rows = loaded.scan().to_arrow()
    shifted = {"id": pa.array(range(first, first + len(rows))), "__offset": pc.add(rows["__offset"], len(rows))}
    for name, values in shifted.items():
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.schema.field(index), values.cast(rows.schema.field(index).type))
    loaded.append(rows)


def without_markers(world: LakeWorld, *, unheard: bool) -> TableInfo:
    """A table of 25 rows, 10 of them tiered, and with `unheard` 10 more of which no record tells; it waits for a person."""
    table = world.table("orders", 1, (), SCHEMA)
    append(world, table, "eu", 0, 10)
    tier(world, table)
    append(world, table, "eu", 10, 15)
    if unheard:
        land_unheard(world, table, 10)
    lose_markers(world, table)
    parked(world, table, errors.MarkerLost)
    return table


def test_accept_goes_on_behind_rows_that_no_record_tells_of(world: LakeWorld) -> None:
    table = without_markers(world, unheard=True)
    done = reconcile(world, table, "accept")
    assert (dict(done.offsets), done.records_left_out) == ({"0": 20}, 0)
    run_due(world, table)
    assert ids(world, table) == list(range(25))


def test_accept_waits_for_a_lake_that_does_not_show_its_rows(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows beyond what is recorded would be doubled."""
    table = without_markers(world, unheard=True)
    with monkeypatch.context() as patched:
        patched.setattr(IcebergLake, "row_offsets", unavailable)
        with pytest.raises(errors.LakeUnavailable):
            reconcile(world, table, "accept")
    assert world.record(table).state == "Failed"
    assert dict(reconcile(world, table, "accept").offsets) == {"0": 20}
    run_due(world, table)
    assert ids(world, table) == list(range(25))


def unavailable(*_: object) -> None:
    raise errors.LakeUnavailable("503 slow down")


def test_a_look_at_rows_that_cannot_be_read_now_names_no_lesser_way_for_good(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = without_markers(world, unheard=False)
    with monkeypatch.context() as patched:
        patched.setattr(IcebergLake, "row_offsets", unavailable)
        assert next_action(world.coordinator, table) != RETIER
        with pytest.raises(errors.CannotReconcile) as refused:
            reconcile(world, table, "adopt")
        assert "The lake does not answer: call again" in refused.value.hint
    assert next_action(world.coordinator, table) == RETIER
    monkeypatch.setattr(IcebergLake, "row_offsets", unavailable)
    append_by_hand(world, table)
    assert next_action(world.coordinator, table) == RETIER, "what an earlier look saw stands until another sees as much"


def append_by_hand(world: LakeWorld, table: TableInfo) -> None:
    """A new head, without a row: what was seen before has to be looked at anew."""
    loaded = world.iceberg(table)
    loaded.append(loaded.scan().to_arrow().slice(0, 0))


def test_accept_refuses_rows_beyond_the_record_that_may_be_a_former_partition_s(world: LakeWorld, table: TableInfo) -> None:
    append(world, table, "eu", 0, 10)
    tier(world, table)
    append(world, table, "eu", 10, 15)
    land_unheard(world, table, 10)
    lose_markers(world, table)
    parked(world, table, errors.MarkerLost)
    with pytest.raises(errors.CannotReconcile, match="former partition"):
        reconcile(world, table, "accept")
    world.iceberg(table).delete("id >= 10")
    assert regions(world, table, reconcile(world, table, "accept")) == {"eu": 10}
    run_due(world, table)
    assert ids(world, table) == list(range(25))


def test_a_lake_put_back_behind_a_living_partition_is_found_and_retier_brings_it_back(world: LakeWorld, table: TableInfo) -> None:
    """Head and tag are set back together, and the newer round is forgotten: only the records know of `us`."""
    append(world, table, "eu", 0, 10)
    tier(world, table)
    append(world, table, "us", 100, 10)
    tier(world, table)
    loaded = world.iceberg(table)
    first, second = (snapshot.snapshot_id for snapshot in loaded.metadata.snapshots)
    loaded.manage_snapshots().rollback_to_snapshot(first).remove_tag(TAG).commit()
    loaded.manage_snapshots().create_tag(first, TAG).commit()
    loaded.maintenance.expire_snapshots().by_id(second).commit()
    append(world, table, "asia", 200, 10)
    parked(world, table, errors.RecordAheadOfLake)
    assert regions(world, table, reconcile(world, table, "retier")) == {"eu": 10}
    run_due(world, table)
    assert ids(world, table) == [*range(10), *range(100, 110), *range(200, 210)]


KEY_SCHEMA = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])


def keys(region: str, *numbers: int) -> pa.Table:
    return pa.table({"region": [region] * len(numbers), "id": numbers}, schema=KEY_SCHEMA)


@pytest.mark.parametrize("is_log_cut", [False, True])
def test_accept_of_a_primary_key_table_replays_a_partition_of_which_no_record_tells(world: LakeWorld, is_log_cut: bool) -> None:
    """A KV snapshot beside its rows would keep the key that was deleted since: it is replayed, or the answer tells no number."""
    table = world.primary_key_table("users", 1, KEY_SCHEMA, ("region", "id"), ("region",), log_ttl="1 h", kv_snapshot_interval="365 d")
    world.storage.upsert(table.path, keys("eu", 1), "w", 0)
    tier(world, table)
    world.storage.upsert(table.path, keys("us", 10, 11), "w", 1)
    world.due()
    world.transport.lose_acks = True
    world.begin(table).end()
    world.transport.lose_acks = False
    assert ids(world, table) == [1, 10, 11]
    world.storage.delete(table.path, keys("us", 11), "w", 2)
    world.storage.take_kv_snapshots(table.path)
    lose_markers(world, table)
    if is_log_cut:
        cut_log(world, table)
    parked(world, table, errors.MarkerLost)
    done = reconcile(world, table, "accept")
    assert regions(world, table, done) == ({"eu": 1} if is_log_cut else {"eu": 1, "us": 0})
    assert done.records_left_out is None, "no marker tells which changes the rows have"
    run_due(world, table)
    assert ids(world, table) == ([1, 10, 11] if is_log_cut else [1, 10])


def cut_log(world: LakeWorld, table: TableInfo) -> None:
    """While the lake is switched off, retention removes what is not tiered yet."""
    world.storage.alter_table(table.path, {"table.datalake.enabled": "false"})
    world.clock.advance(7_200)
    world.storage.maintenance.run()
    world.storage.alter_table(table.path, {"table.datalake.enabled": "true"})
