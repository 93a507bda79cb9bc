"""Upkeep rounds of Iceberg tables beside deletes, other tools, damage, dropped partitions and new columns: no row is lost or comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from support.background import tick
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LakeKind
from support.lakes.foreign import maintenance
from support.lakes.foreign.files import delete_at, delete_equal
from support.worlds.lake_world import LakeWorld, SteppedRound
from support.worlds.validated import check, data_files, faults
from tiering.cluster.log_writer import LogWriter
from tiering.errors import DataCorrupt, RoundFailed
from tiering.lake.iceberg.commit import manifests
from tiering.lake.iceberg.writing.writer import RowFiles
from tiering.model.rounds import RoundState
from tiering.model.schema.changes import additions
from tiering.model.tables import TableInfo, TableType
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder, UpkeepStats
from tiering.round.messages import RoundReport, report_to_pb
from tiering.round.steps import actions as act

KINDS = pytest.mark.parametrize("kind", [ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name)
TYPES = pytest.mark.parametrize("table_type", TableType, ids=lambda table_type: table_type.value.lower())
OFF = {"datalake.auto-compaction": "false"}
REGIONS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False), pa.field("text", pa.string())]
)
FULL = UpkeepOrder(full=True)


@pytest.fixture
def world(kind: LakeKind, tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path, kind=kind)
    yield world
    world.close()


def new_table(world: LakeWorld, table_type: TableType, name: str = "orders", **options: Any) -> TableInfo:
    make = world.table if table_type is TableType.LOG else world.primary_key_table
    return make(name, 1, **{**OFF, **options})


def write(world: LakeWorld, table: TableInfo, ids: range, **columns: str) -> None:
    table = world.storage.table(table.path)
    values: dict[str, list[object]] = {"id": list(ids), "text": [f"row {key}" for key in ids]}
    values |= {name: [value] * len(ids) for name, value in columns.items()}
    rows = pa.table({name: values.get(name, [None] * len(ids)) for name in table.schema.names}, schema=table.schema)
    writer = LogWriter(world.storage, table.path, f"ids-{ids.start}-{sorted(columns.items())}")
    (writer.append if table.table_type is TableType.LOG else writer.upsert)(rows)


def tier(world: LakeWorld, table: TableInfo) -> None:
    outcome = world.tier(table)
    assert outcome.state is RoundState.SUCCEEDED, outcome.error


def rounds(world: LakeWorld, table: TableInfo, numbers: range) -> None:
    """A round of four rows for each number, with ids of its own."""
    for number in numbers:
        write(world, table, range(4 * number, 4 * number + 4))
        tier(world, table)


def begin(world: LakeWorld, table: TableInfo, order: UpkeepOrder | None = None) -> SteppedRound:
    world.due()
    return world.begin(table, upkeep=order or UpkeepOrder())


def upkeep(world: LakeWorld, table: TableInfo, order: UpkeepOrder | None = None) -> UpkeepStats:
    return done(begin(world, table, order).end())


def fail(world: LakeWorld, begun: SteppedRound) -> act.RoundOutcome:
    """The outcome of a round that fails; the coordinator hears of an error after which it tries again."""
    outcome = begun.runner.run()
    assert outcome.state is RoundState.FAILED
    report = report_to_pb(RoundReport(begun.assignment, replace(outcome, error=RoundFailed("a failed rewrite"))))
    world.beat(failed_tables=[report])
    return outcome


def done(outcome: act.RoundOutcome) -> UpkeepStats:
    assert outcome.state is RoundState.SUCCEEDED, outcome.error
    assert outcome.stats.upkeep is not None
    return outcome.stats.upkeep


def ids_in(world: LakeWorld, table: TableInfo) -> list[int]:
    return sorted(world.by_hand.rows(table.path)["id"].to_pylist())


def delete_files(world: LakeWorld, table: TableInfo) -> int:
    return len(world.lake.file_lists(world.view(table), None).position_deletes)


def assert_right(world: LakeWorld, table: TableInfo) -> None:
    results = check(world, table)
    assert results
    assert faults(results) == []


# --- deletes


@KINDS
def test_deleted_rows_of_a_log_table_go_and_their_delete_files_too(world: LakeWorld) -> None:
    table = new_table(world, TableType.LOG)
    rounds(world, table, range(3))
    delete_at(world, table, [1], like=0)
    delete_at(world, table, [0, 3], like=1)
    left = ids_in(world, table)
    before = [(fault[0], fault[1]) for fault in faults(check(world, table))]
    stats = upkeep(world, table)
    assert (stats.files_before, stats.files_after, stats.rows_dropped) == (3, 1, 3)
    assert ids_in(world, table) == left
    assert len(left) == 9
    assert delete_files(world, table) == 0
    assert ("rows", "0") in before
    assert [fault for fault in faults(check(world, table)) if fault[0] == "rows"], "the rows are missed as before"
    rounds(world, table, range(3, 5))
    assert ids_in(world, table) == [*left, *range(12, 20)]


@KINDS
@TYPES
def test_a_row_deleted_after_the_rewrite_stays_deleted(world: LakeWorld, table_type: TableType) -> None:
    table = new_table(world, table_type)
    rounds(world, table, range(3))
    begun = begin(world, table).advance_to(act.BeginCommit)
    delete_at(world, table, [2])
    stats = done(begun.end())
    assert (stats.dropped, stats.files_before) == (1, 0)
    assert len(ids_in(world, table)) == 11
    assert len(data_files(world, table)) == 3
    assert upkeep(world, table).rows_dropped == 1
    assert len(ids_in(world, table)) == 11
    assert delete_files(world, table) == 0


@KINDS
def test_a_primary_key_table_loses_its_deletes_and_no_row(world: LakeWorld) -> None:
    table = new_table(world, TableType.PRIMARY_KEY)
    for number in range(4):
        write(world, table, range(2 * number, 2 * number + 4), **{"text": f"version {number}"})
        tier(world, table)
    rows = sorted(map(repr, world.by_hand.rows(table.path).to_pylist()))
    assert delete_files(world, table)
    stats = upkeep(world, table, FULL)
    assert stats.files_after == 1
    assert delete_files(world, table) == 0
    assert sorted(map(repr, world.by_hand.rows(table.path).to_pylist())) == rows
    assert_right(world, table)
    write(world, table, range(6, 12), **{"text": "later"})
    tier(world, table)
    assert_right(world, table)


# --- other tools and lost messages


@KINDS
@TYPES
def test_files_that_another_tool_rewrote_meanwhile_are_left_alone(world: LakeWorld, table_type: TableType) -> None:
    table = new_table(world, table_type)
    rounds(world, table, range(3))
    begun = begin(world, table).advance_to(act.CommitLake)
    maintenance.rewrite_oldest_data_files(world, table)
    stats = done(begun.end())
    assert (stats.dropped, stats.files_after) == (1, 0)
    assert ids_in(world, table) == list(range(12))
    rounds(world, table, range(3, 6))
    upkeep(world, table)
    assert ids_in(world, table) == list(range(24))
    assert_right(world, table)


@KINDS
@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_commit_whose_request_or_answer_is_lost_lands_once(world: LakeWorld, lost: str) -> None:
    table = new_table(world, TableType.LOG)
    rounds(world, table, range(4))
    begun = begin(world, table).advance_to(act.CommitLake)
    catalog: Any = world.lake._open()
    send, calls = catalog.commit_table, 0

    def commit_table(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1 and lost == "request":
            raise TimeoutError("the request is lost")
        answer = send(*arguments)
        if calls == 1:
            raise TimeoutError("the answer is lost")
        return answer

    with patch.object(catalog, "commit_table", commit_table):
        stats = done(begun.end())
    assert calls == (2 if lost == "request" else 1)
    assert stats.files_after == 1
    assert len(data_files(world, table)) == 1
    assert_right(world, table)


@KINDS
def test_equality_deletes_of_another_tool_are_applied_to_older_rows_alone(world: LakeWorld) -> None:
    table = new_table(world, TableType.PRIMARY_KEY)
    rounds(world, table, range(3))
    delete_equal(world, table, pa.table({"id": pa.array([1, 5], pa.int64())}))
    write(world, table, range(5, 6), text="again")
    tier(world, table)
    stats = upkeep(world, table)
    assert (stats.files_before, stats.files_after, stats.rows_dropped) == (4, 1, 2)
    assert world.lake.file_lists(world.view(table), None).equality_deletes == ()
    assert ids_in(world, table) == sorted(set(range(12)) - {1})


@KINDS
def test_an_equality_delete_stays_while_it_counts_for_a_file_that_stays(world: LakeWorld) -> None:
    table = new_table(world, TableType.PRIMARY_KEY)
    rounds(world, table, range(4))
    size = data_files(world, table)[0].stat().st_size
    delete_equal(world, table, pa.table({"id": pa.array([1, 13], pa.int64())}))
    upkeep(world, table, UpkeepOrder(budget_bytes=2 * size + 100))
    lists = world.lake.file_lists(world.view(table), None)
    assert len(lists.equality_deletes) == 1
    assert len(lists.data) == 3
    upkeep(world, table, FULL)
    assert world.lake.file_lists(world.view(table), None).equality_deletes == ()
    assert ids_in(world, table) == sorted(set(range(16)) - {1, 13})


@KINDS
def test_equality_deletes_in_a_column_that_may_be_null_keep_their_partition_as_it_is(world: LakeWorld) -> None:
    table = new_table(world, TableType.PRIMARY_KEY)
    rounds(world, table, range(3))
    delete_equal(world, table, pa.table({"text": ["row 1"]}))
    head = world.view(table).head
    assert begin(world, table).end().state is RoundState.EMPTY
    assert world.view(table).head == head


# --- damage, and writes that fail


@KINDS
@TYPES
def test_a_damaged_file_keeps_its_place_and_fails_the_round(world: LakeWorld, table_type: TableType, kind: LakeKind) -> None:
    table = new_table(world, table_type)
    rounds(world, table, range(3))
    files = set(world.by_hand.data_files(table.path))
    damaged = sorted(files)[0]
    content = damaged.read_bytes()
    damaged.write_bytes(content[:200] + b"\xff" * 100 + content[300:])
    head = world.view(table).head
    outcome = fail(world, begin(world, table))
    assert isinstance(outcome.error, DataCorrupt)
    assert (world.view(table).head, set(world.by_hand.data_files(table.path))) == (head, files)
    damaged.write_bytes(content)
    assert upkeep(world, table).files_after == 1
    assert_right(world, table)


@KINDS
def test_a_disk_that_fills_up_keeps_no_file_of_the_rewrite(world: LakeWorld, tmp_path: Path) -> None:
    table = new_table(world, TableType.LOG)
    rounds(world, table, range(3))
    before = set(tmp_path.rglob("*.parquet"))

    def no_space(files: RowFiles) -> Any:
        raise OSError(28, "No space left on device")

    with patch.object(RowFiles, "_close_file", no_space):
        fail(world, begin(world, table))
    assert set(tmp_path.rglob("*.parquet")) == before
    assert upkeep(world, table).files_after == 1


@KINDS
def test_a_cancelled_round_keeps_no_file(world: LakeWorld, tmp_path: Path) -> None:
    table = new_table(world, TableType.LOG)
    rounds(world, table, range(3))
    before = set(tmp_path.rglob("*.parquet"))
    begun = begin(world, table).advance_to(act.BeginCommit)
    assert begun.runner.cancel("its table is due")
    outcome = begun.end()
    assert outcome.state is RoundState.CANCELLED
    assert set(tmp_path.rglob("*.parquet")) == before
    assert_right(world, table)


# --- partitions and columns


@KINDS
@TYPES
def test_each_partition_is_rewritten_by_itself_and_those_of_the_order_alone(world: LakeWorld, table_type: TableType) -> None:
    table = new_table(
        world,
        table_type,
        partition_keys=("region",),
        schema=REGIONS,
        **({"key": ("id", "region")} if table_type is TableType.PRIMARY_KEY else {}),
    )
    for number in range(3):
        for region in ("east", "west"):
            write(world, table, range(4 * number, 4 * number + 4), region=region)
        tier(world, table)
    assert upkeep(world, table, UpkeepOrder(partitions=frozenset({"west"}))).files_after == 1
    assert len(data_files(world, table)) == 4
    assert upkeep(world, table).files_after == 1
    assert len(data_files(world, table)) == 2
    assert_right(world, table)


@KINDS
@TYPES
def test_rows_of_a_former_partition_of_the_same_name_stay_apart(world: LakeWorld, table_type: TableType) -> None:
    table = new_table(
        world,
        table_type,
        partition_keys=("region",),
        schema=REGIONS,
        **({"key": ("id", "region")} if table_type is TableType.PRIMARY_KEY else {}),
    )
    for number in range(3):
        write(world, table, range(4 * number, 4 * number + 4), region="east")
        tier(world, table)
    world.storage.drop_partition(table.path, "east")
    tick(world.coordinator)
    for number in range(5, 8):
        write(world, table, range(4 * number, 4 * number + 4), region="east")
        tier(world, table)
    before = faults(check(world, table))
    stats = upkeep(world, table)
    assert (stats.files_before, stats.files_after) == (6, 2)
    assert faults(check(world, table)) == before == []
    write(world, table, range(40, 44), region="east")
    tier(world, table)
    assert faults(check(world, table)) == []


@KINDS
@TYPES
def test_files_from_before_a_column_was_added_are_rewritten_with_it(world: LakeWorld, table_type: TableType) -> None:
    table = new_table(world, table_type)
    rounds(world, table, range(2))
    world.storage.alter_table(table.path, {}, additions([pa.field("more", pa.string())]))
    table = world.storage.table(table.path)
    for number in range(2, 4):
        write(world, table, range(4 * number, 4 * number + 4), more="more")
        tier(world, table)
    assert upkeep(world, table).files_after == 1
    assert sorted(map(str, world.by_hand.rows(table.path)["more"].to_pylist())) == ["None"] * 8 + ["more"] * 8
    assert_right(world, table)


# --- manifests, expiry and the budget


@KINDS
def test_all_manifests_become_one_of_data_and_one_of_deletes(world: LakeWorld) -> None:
    table = new_table(world, TableType.LOG)
    with patch.object(manifests, "SMALL_MANIFESTS", 100):
        rounds(world, table, range(5))
        delete_at(world, table, [2])
        stats = upkeep(world, table, UpkeepOrder(rewrite=False, manifests=True))
        again = upkeep(world, table, UpkeepOrder(rewrite=False, manifests=True))
    assert (stats.manifests_before, stats.manifests_after) == (6, 2)
    assert (again.manifests_before, again.manifests_after) == (2, 2), "it tells that the number did not fall"
    assert len(ids_in(world, table)) == 19


@KINDS
def test_an_order_expires_what_the_option_would_keep(world: LakeWorld) -> None:
    table = new_table(world, TableType.LOG)
    rounds(world, table, range(6))
    order = ExpiryOrder(older_than=datetime.now(UTC), retain_last=2)  # the lake's clock is the real one
    stats = upkeep(world, table, UpkeepOrder(rewrite=False, expiry=order))
    assert stats.snapshots_expired == 4
    assert len(world.view(table).snapshots) == 3
    rounds(world, table, range(6, 8))
    assert_right(world, table)


@KINDS
def test_a_budget_leaves_the_rest_to_later_rounds(world: LakeWorld) -> None:
    table = new_table(world, TableType.LOG)
    rounds(world, table, range(9))
    size = data_files(world, table)[0].stat().st_size
    order, ends = UpkeepOrder(budget_bytes=4 * size), []
    for _ in range(8):
        outcome = begin(world, table, order).end()
        ends.append(outcome.state)
        if outcome.state is RoundState.EMPTY:
            break
        assert_right(world, table)
    assert ends[-1] is RoundState.EMPTY
    assert 1 <= len(data_files(world, table)) <= 5


@KINDS
def test_the_tables_option_says_which_files_are_small(world: LakeWorld) -> None:
    table = new_table(world, TableType.LOG)
    for number in range(3):
        write(world, table, range(500 * number, 500 * number + 500))
        tier(world, table)
    world.storage.alter_table(table.path, {"table.datalake.target-file-size": "1 kb"})
    assert begin(world, world.storage.table(table.path)).end().state is RoundState.EMPTY
    world.storage.alter_table(table.path, {"table.datalake.target-file-size": "1 mb"})
    assert upkeep(world, world.storage.table(table.path)).files_after == 1


@KINDS
def test_files_of_another_tool_are_rewritten_where_their_rows_tell_offsets(world: LakeWorld, kind: LakeKind) -> None:
    table = new_table(world, TableType.LOG)
    rounds(world, table, range(3))
    maintenance.rewrite_data_files(world, table)
    rounds(world, table, range(3, 5))
    stats = upkeep(world, table)
    assert (stats.files_before, stats.files_after) == ((3, 1) if kind is ICEBERG else (2, 1))
    assert ids_in(world, table) == list(range(20))
    assert_right(world, table)
