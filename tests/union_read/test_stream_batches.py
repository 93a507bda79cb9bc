"""Streams over a real lake and log: each row once, while rounds commit, logs are cut, and partitions come and go."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, in_lakes
from support.worlds.lake_world import LakeWorld
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import (
    InvalidArgument,
    LakeDisabled,
    LakeUnavailable,
    LogBehindLake,
    LogTruncated,
    SchemaDrift,
    SourceChanged,
    TableMismatch,
)
from tiering.lake.table_options import ENABLED
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.schema.changes import AddColumn, DropColumn, RenameColumn
from tiering.model.tables import BucketKey, BucketOffsets, Partition, TableInfo
from tiering.union_read.plan import base_without_coordinator
from tiering.union_read.streams.batches import StreamedTable, StreamOptions
from tiering.union_read.streams.offsets import StreamOffset, decode, encode
from tiering.union_read.streams.planning import BatchLimit

LOG_TTL_S = 60
VISITS = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string(), nullable=False)])
WHOLE = BatchLimit()
ICEBERG_LAKES = in_lakes(ICEBERG, ICEBERG_CLEAN)


@dataclass
class Query:
    """A streaming query. Its checkpoint has only JSON, and every call plans from it, as after a restart."""

    world: LakeWorld
    options: StreamOptions
    checkpoint: str | None = None
    batches: list[list[int]] = field(default_factory=list)
    cluster: Any = None
    """The cluster as the stream sees it; None = that of the world."""

    @property
    def streamed(self) -> StreamedTable:
        cluster = self.cluster or self.world.storage
        return StreamedTable(cluster, lambda name: self.world.lake, base_without_coordinator(cluster, lambda name: self.world.lake))

    def end(self, max_records: int | None = None, last: str | None = None) -> str:
        """Plans the end of the next batch."""
        limit = BatchLimit(max_records, decode(last))
        return encode(self.streamed.next_batch(self.options, decode(self.checkpoint), limit))

    def read(self, end: str) -> list[int]:
        """Reads the batch that ends there."""
        columns = ["id"]
        readers = self.streamed.plan_batch(self.options, ReadScan(columns=("id",)), decode(self.checkpoint), decode(end) or self.fail())
        return [row_id for reader in readers for batch in reader.read(columns) for row_id in batch.column("id").to_pylist()]

    def fail(self) -> None:
        raise AssertionError("the end of a batch is not the beginning of a stream")

    def run(self, max_records: int | None = None, last: str | None = None) -> list[int]:
        """Runs one batch. Returns its rows."""
        end = self.end(max_records, last)
        if end != self.checkpoint:
            self.batches.append(self.read(end))
            assert sorted(self.read(end)) == sorted(self.batches[-1])
            self.checkpoint = end
            return self.batches[-1]
        return []

    def drain(self, max_records: int | None = None, last: str | None = None, between: Callable[[], object] = lambda: None) -> None:
        """Runs batches until nothing is new. A batch may have no row."""
        before = ""
        while before != self.checkpoint:
            before = self.checkpoint or ""
            self.run(max_records, last)
            between()

    @property
    def rows(self) -> list[int]:
        return sorted(row_id for batch in self.batches for row_id in batch)


def query(world: LakeWorld, table: TableInfo, cluster: Any = None, **options: Any) -> Query:
    return Query(world, replace(StreamOptions(table.path), **options), cluster=cluster)


def test_a_stream_begins_with_the_lake_and_continues_in_the_log(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 4)
    orders = query(world, table)

    assert sorted(orders.run()) == list(range(14))
    assert orders.run() == []
    world.append(table, 14, 6)
    world.tier(table)
    assert sorted(orders.run()) == list(range(14, 20))


def test_the_first_batch_is_the_same_when_a_round_commits_before_its_repetition(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    orders = query(world, table)
    end = orders.end()
    world.append(table, 10, 4)
    world.tier(table)

    assert sorted(orders.read(end)) == list(range(10))


@pytest.mark.parametrize("seed", range(4))
def test_each_row_is_in_one_batch_whatever_happens_in_between(world: LakeWorld, seed: int) -> None:
    choose = random.Random(seed)
    table = world.table("orders")
    orders, written = query(world, table), 0
    for _ in range(25):
        match choose.choice(["append", "append", "tier", "batch", "batch", "batch", "lost batch"]):
            case "append":
                count = choose.randint(1, 12)
                world.append(table, written, count)
                written += count
            case "tier":
                world.due()
                world.tier(table)
            case "batch":
                orders.run(choose.choice([None, 1, 3, 10]))
            case _:  # the query dies before its checkpoint has the end
                orders.read(end) if (end := orders.end(choose.choice([None, 4]))) != orders.checkpoint else None
    orders.drain(7)

    assert orders.rows == list(range(written))


def test_a_limit_counts_whole_lake_files_and_then_log_records(world: LakeWorld) -> None:
    table = world.table("orders", buckets=1)
    for start in range(0, 30, 10):
        world.append(table, start, 10)
        world.due()
        world.tier(table)
    world.append(table, 30, 9)
    orders = query(world, table)

    sizes = []
    while rows := orders.run(4):
        sizes.append(len(rows))

    assert sizes == [10, 10, 10, 4, 4, 1]
    assert orders.rows == list(range(39))


def test_a_stream_with_an_end_does_not_read_later_rows(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 10)
    orders = query(world, table)
    last = orders.end()
    world.append(table, 20, 10)
    world.due()
    world.tier(table)

    orders.drain(3, last)

    assert orders.rows == list(range(20))


def test_a_stream_from_the_latest_offset_has_only_later_rows(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    orders = query(world, table, starting_offsets="latest")
    assert orders.run() == []
    world.append(table, 10, 4)

    assert sorted(orders.run()) == list(range(10, 14))


def test_a_log_that_was_cut_behind_a_stopped_stream_is_an_error_with_the_offsets(world: LakeWorld) -> None:
    table = world.table("orders", buckets=1, log_ttl=f"{LOG_TTL_S} s")
    world.append(table, 0, 10)
    orders = query(world, table)
    orders.run()
    world.append(table, 10, 6)
    end = orders.end()
    world.tier(table)
    world.clock.advance(LOG_TTL_S + 1)
    world.storage.maintenance.run()

    for _ in range(2):
        with pytest.raises(LogTruncated, match=r"bucket 0 .* up to offset 10, .* starts at 16: records 10 to 15"):
            orders.run()
        with pytest.raises(LogTruncated, match=r"bucket 0 .* up to offset 10, .* starts at 16"):
            orders.read(end)
    assert sorted(query(world, table).run()) == list(range(16))


def test_a_stream_does_not_begin_without_rows_that_only_the_copy_of_a_disabled_lake_has(world: LakeWorld) -> None:
    table = world.table("orders", buckets=1, log_ttl=f"{LOG_TTL_S} s")
    world.append(table, 0, 10)
    world.tier(table)
    world.storage.set_table_option(table.path, ENABLED.name, "false")
    assert sorted(query(world, table).run()) == list(range(10))
    world.clock.advance(LOG_TTL_S + 1)
    world.storage.maintenance.run()
    world.append(table, 10, 4)

    with pytest.raises(LakeDisabled, match="before offset 10 of bucket 0"):
        query(world, table).run()
    for options in ({"changelog": True}, {"starting_offsets": '{"0": -2}'}):
        assert sorted(query(world, table, **options).run()) == list(range(10, 14))


@pytest.mark.parametrize("changelog", [False, True])
@pytest.mark.parametrize("offset", [5, 10**15, 10**30])
def test_a_batch_that_ends_behind_the_log_is_an_error_with_the_offsets(world: LakeWorld, changelog: bool, offset: int) -> None:
    table = world.table("orders", buckets=1)
    world.append(table, 0, 4)
    options = replace(StreamOptions(table.path), changelog=changelog)
    start, end = (StreamOffset(table.table_id, {BucketKey(None, 0): stop}) for stop in (0, offset))

    with pytest.raises(LogBehindLake, match=f"up to offset {offset}, but the log ends at 4"):
        query(world, table).streamed.plan_batch(options, ReadScan(columns=("id",)), start, end)


def test_a_recreated_table_is_an_error(world: LakeWorld) -> None:
    table = world.table("orders", datalake_enabled="false")
    orders = query(world, table)
    world.append(table, 0, 4)
    orders.run()
    world.storage.drop_table(table.path)
    world.append(world.table("orders", datalake_enabled="false"), 0, 9)

    with pytest.raises(TableMismatch, match="dropped and created again"):
        orders.run()


@ICEBERG_LAKES
def test_a_lake_part_that_is_gone_is_an_error(world: LakeWorld) -> None:
    table = world.table("orders", buckets=1)
    for start in range(0, 30, 10):
        world.append(table, start, 10)
        world.due()
        world.tier(table)
    orders = query(world, table)
    orders.run(10)
    assert orders.checkpoint is not None
    begun = decode(orders.checkpoint)
    assert begun is not None
    assert begun.lake is not None
    world.append(table, 30, 10)
    world.due()
    world.tier(table)
    world.iceberg(table).maintenance.expire_snapshots().by_id(begun.lake.snapshot_id).commit()

    with pytest.raises(LakeUnavailable, match=f"no longer has the snapshot {begun.lake.snapshot_id}"):
        orders.run(10)


@ICEBERG_LAKES
def test_a_column_that_a_user_renames_while_the_lake_part_is_read_is_an_error(world: LakeWorld) -> None:
    table = world.table("orders", buckets=1)
    for start in range(0, 20, 10):
        world.append(table, start, 10)
        world.due()
        world.tier(table)
    orders = query(world, table)
    orders.run(10)
    end = orders.end(10)
    world.by_hand.rename_column(table.path, "id", "number")

    with pytest.raises(SchemaDrift, match="'number'"):
        orders.read(end)


def test_a_column_that_became_another_one_since_the_stream_began_is_an_error(world: LakeWorld) -> None:
    table = world.table("orders", buckets=1)
    world.append(table, 0, 10)
    orders = query(world, table)
    orders.run(5)
    world.storage.alter_table(table.path, {}, [AddColumn(pa.field("later", pa.int64())), DropColumn(("text",))])
    orders.run(2)
    assert orders.rows == list(range(7))

    world.storage.alter_table(table.path, {}, [RenameColumn(("id",), "number"), RenameColumn(("later",), "id")])
    with pytest.raises(SourceChanged, match=r"'id' .* is another column"):
        orders.run(2)
    assert orders.rows == list(range(7))


def test_partitions_come_and_go(world: LakeWorld) -> None:
    table = world.table("visits", partition_keys=("region",), schema=VISITS)
    append(world, table, [0, 1], ["north", "south"])
    world.tier(table)
    visits = query(world, table)
    assert sorted(visits.run()) == [0, 1]

    append(world, table, [2, 3, 4], ["west", "north", "west"])
    assert sorted(visits.run()) == [2, 3, 4]

    append(world, table, [5, 6], ["south", "west"])
    world.storage.drop_partition(table.path, "south")
    strict = replace(visits.options, fail_on_data_loss=True)
    with pytest.raises(LogTruncated, match=r"partition of bucket .* was dropped"):
        Query(world, strict, visits.checkpoint).run()
    assert visits.run() == [6]


def test_a_batch_is_read_without_a_partition_that_was_dropped_since_its_planning(world: LakeWorld) -> None:
    table = world.table("visits", partition_keys=("region",), schema=VISITS)
    append(world, table, [0, 1], ["north", "south"])
    visits = query(world, table)
    end = visits.end()
    world.storage.drop_partition(table.path, "south")

    assert visits.read(end) == [0]
    visits.options = replace(visits.options, fail_on_data_loss=True)
    with pytest.raises(LogTruncated, match=r"partition of bucket .* was dropped"):
        visits.read(end)


class OldLists:
    """The cluster, whose answers lack some partitions for a while: a server answers that lags behind."""

    def __init__(self, cluster: EmbeddedStorage) -> None:
        self._cluster = cluster
        self.hidden_from_lists: set[str] = set()
        self.hidden_from_offsets: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def hide(self, *names: str) -> None:
        self.hidden_from_lists = self.hidden_from_offsets = set(names)

    def partitions(self, table: TableInfo) -> list[Partition]:
        return [partition for partition in self._cluster.partitions(table) if partition.partition_name not in self.hidden_from_lists]

    def offsets(self, table: TableInfo) -> dict[BucketKey, BucketOffsets]:
        living = self._cluster.partitions(table)
        listed = {partition.partition_id for partition in living if partition.partition_name not in self.hidden_from_offsets}
        return {bucket: ends for bucket, ends in self._cluster.offsets(table).items() if bucket.partition_id in listed}


@in_lakes(ICEBERG)
def test_a_partition_that_an_old_list_lacked_is_continued_and_not_read_again(world: LakeWorld) -> None:
    table = world.table("visits", partition_keys=("region",), schema=VISITS)
    append(world, table, [0, 1], ["north", "west"])
    visits = query(world, table, cluster=OldLists(world.storage))
    assert sorted(visits.run()) == [0, 1]
    append(world, table, [2, 3], ["north", "west"])

    visits.cluster.hide("west")
    assert visits.run() == [2]
    assert visits.run() == []
    end = visits.end()
    assert end == visits.checkpoint
    visits.cluster.hide()
    assert visits.run() == [3]
    append(world, table, [4], ["west"])
    assert visits.run() == [4]
    assert decode(visits.checkpoint).vanished == {}


@in_lakes(ICEBERG)
def test_a_dropped_partition_costs_one_batch_without_rows(world: LakeWorld) -> None:
    table = world.table("visits", partition_keys=("region",), schema=VISITS)
    append(world, table, [0, 1], ["north", "west"])
    visits = query(world, table)
    visits.run()
    world.storage.drop_partition(table.path, "west")

    visits.drain()
    assert visits.batches[1:] == [[]]
    strict = Query(world, replace(visits.options, fail_on_data_loss=True), visits.checkpoint)
    append(world, table, [2], ["north"])
    assert strict.run() == [2]


@in_lakes(ICEBERG)
@pytest.mark.parametrize("answer", ["hidden_from_lists", "hidden_from_offsets"])
def test_a_partition_that_only_one_answer_lacks_is_not_left_out(world: LakeWorld, answer: str) -> None:
    table = world.table("visits", partition_keys=("region",), schema=VISITS)
    append(world, table, [0, 1], ["north", "west"])
    visits = query(world, table, cluster=OldLists(world.storage))
    end = visits.end()
    setattr(visits.cluster, answer, {"west"})

    with pytest.raises(SourceChanged, match=r"visits"):
        visits.read(end)
    visits.cluster.hide()
    assert sorted(visits.read(end)) == [0, 1]


def test_a_stream_of_a_primary_key_table_has_the_rows_after_each_change(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts")
    accounts = query(world, table)
    upsert(world, table, [1, 2], 0)
    upsert(world, table, [2, 3], 1)

    assert sorted(accounts.run()) == [1, 2, 2, 3]


@pytest.mark.parametrize("max_records", [None, 1, 5])
def test_a_stream_of_a_tiered_primary_key_table_has_its_live_lake_rows_and_then_later_changes(
    world: LakeWorld, max_records: int | None
) -> None:
    table = world.primary_key_table("accounts")
    upsert(world, table, range(10), 0)
    world.tier(table)
    upsert(world, table, range(5, 15), 1)
    world.storage.delete(table.path, pa.record_batch({"id": [0, 1]}, schema=pa.schema([table.schema.field("id")])), "writer", 2)
    world.due()
    world.tier(table)
    accounts = query(world, table)
    upsert(world, table, [3, 20], 3)

    accounts.drain(max_records, between=lambda: (world.due(), world.tier(table)))

    assert accounts.rows == sorted([*range(2, 15), 3, 20])


def test_a_deletion_is_an_error_unless_it_is_ignored(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts")
    accounts = query(world, table)
    upsert(world, table, [1, 2], 0)
    world.storage.delete(table.path, pa.record_batch({"id": [2]}, schema=pa.schema([table.schema.field("id")])), "writer", 1)
    upsert(world, table, [3], 2)

    with pytest.raises(InvalidArgument, match=r"a row of sales\.accounts was deleted") as raised:
        accounts.run()
    assert "`accounts$changelog`" in raised.value.hint
    accounts.options = replace(accounts.options, ignore_deletes=True)
    assert sorted(accounts.run()) == [1, 2, 3]


def test_a_stream_of_a_changelog_has_every_change_of_the_log_once(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts", buckets=1)
    accounts = query(world, table, changelog=True)
    upsert(world, table, [1, 2], 0)
    world.tier(table)
    upsert(world, table, [2, 3], 1)
    world.storage.delete(table.path, pa.record_batch({"id": [1]}, schema=pa.schema([table.schema.field("id")])), "writer", 2)

    changes = []
    while (end := accounts.end(2)) != accounts.checkpoint:
        scan = ReadScan(ReadPart.CHANGELOG)
        readers = accounts.streamed.plan_batch(accounts.options, scan, decode(accounts.checkpoint), decode(end) or accounts.fail())
        columns = ["_log_offset", "_change_type", "id"]
        changes.append([tuple(row.values()) for reader in readers for batch in reader.read(columns) for row in batch.to_pylist()])
        accounts.checkpoint = end

    assert changes == [[(0, "+I", 1), (1, "+I", 2)], [(2, "-U", 2), (3, "+U", 2)], [(4, "+I", 3), (5, "-D", 1)]]


def test_the_first_rows_of_a_primary_key_table_that_only_a_kv_snapshot_has_are_not_left_out(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts", buckets=1, datalake_enabled="false", log_ttl=f"{LOG_TTL_S} s")
    upsert(world, table, [1, 2], 0)
    for _ in range(2):
        world.storage.take_kv_snapshots(table.path)
    world.clock.advance(LOG_TTL_S + 1)
    world.storage.maintenance.run()
    assert world.storage.offsets(table)[BucketKey(None, 0)].log_start == 2

    with pytest.raises(InvalidArgument, match="its log starts at 2"):
        query(world, table).run()
    assert query(world, table, starting_offsets='{"0": -2}').run() == []


def append(world: LakeWorld, table: TableInfo, ids: Sequence[int], regions: Sequence[str]) -> None:
    rows = pa.record_batch({"id": list(ids), "region": list(regions)}, schema=VISITS)
    world.storage.append(table.path, rows, f"writer-{ids[0]}", 0)


def upsert(world: LakeWorld, table: TableInfo, ids: Sequence[int], sequence: int) -> None:
    rows = pa.record_batch({"id": list(ids), "text": [f"text {sequence}"] * len(ids)}, schema=table.schema)
    world.storage.upsert(table.path, rows, "writer", sequence)
