"""Fresh rows on DuckDB over a folder: lake and log at one moment, before the first round and between rounds, beside a coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.fresh.reused_ids import SnapshotIdReused
from support.lake_kinds.kinds import LAKE_KINDS, PAIMON, LakeKind
from support.worlds.data_folders import FolderWorld
from sys_tables.offline.engine import DEFAULT_MEMORY_LIMIT
from tiering.cli.sql.fresh_reads import LocalRead
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.errors import LogTruncated, StatementFailed
from tiering.lake.table_options import ENABLED
from tiering.model.reading.scans import ReadScan
from tiering.model.schema.changes import additions
from tiering.model.tables import TableInfo


class Opened:
    """A folder with a log table, its coordinator alive beside the engine."""

    def __init__(self, root: Path, kind: LakeKind) -> None:
        self.world = FolderWorld(root, kind)
        self.orders: TableInfo = self.world.table("orders")
        self.engine = DuckDbEngine(root, kind.format, {})

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.engine.execute(sql).rows]

    def ids(self, table: str) -> list[int]:
        return [row[0] for row in self.rows(f"SELECT id FROM {table} ORDER BY id")]


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    here = Opened(tmp_path, request.param)
    yield here
    here.engine.close()
    here.world.close()


def test_a_row_is_there_before_the_first_round_and_the_lake_alone_says_how_to_tier(opened: Opened) -> None:
    opened.world.append(opened.orders, 0, 3)

    assert opened.rows("SELECT * FROM sales.orders ORDER BY id") == [(0, "row 0"), (1, "row 1"), (2, "row 2")]
    with pytest.raises(StatementFailed, match="tiers them now"):
        opened.rows("SELECT * FROM sales.`orders$lake`")


def test_rows_of_lake_and_log_are_read_once_and_the_lake_keeps_its_names(opened: Opened) -> None:
    opened.world.append(opened.orders, 0, 20)
    opened.world.tier(opened.orders)
    opened.world.append(opened.orders, 20, 5)

    assert opened.ids("fluss.sales.orders") == list(range(25))
    assert opened.ids("fluss.sales.`orders$lake`") == opened.ids("lake.sales.orders") == list(range(20))
    assert opened.rows("SELECT count(*) FROM sales.orders") == [(25,)]
    assert opened.rows("SELECT text FROM sales.orders WHERE id = 24 OR id = 3 ORDER BY 1") == [("row 24",), ("row 3",)]


def test_all_uses_of_a_table_in_a_statement_have_one_moment(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    opened.world.append(opened.orders, 0, 20)
    opened.world.tier(opened.orders)
    opened.world.append(opened.orders, 20, 5)
    rows, appended = LocalRead.rows, list[int]()

    def rows_while_a_round_commits(read: LocalRead, scan: ReadScan) -> Iterator[pa.RecordBatch]:
        if not appended:
            appended.append(1)
            opened.world.append(opened.orders, 25, 7)
            opened.world.tier(opened.orders)
        return rows(read, scan)

    monkeypatch.setattr(LocalRead, "rows", rows_while_a_round_commits)
    counts = "SELECT (SELECT count(*) FROM sales.orders), (SELECT sum(id) FROM SALES.Orders), (SELECT count(*) FROM sales.`orders$lake`)"

    assert opened.rows(counts) == [(25, sum(range(25)), 20)]
    assert opened.ids("sales.orders") == list(range(32))


def test_rows_that_only_the_copy_of_a_disabled_lake_has_are_an_error(opened: Opened) -> None:
    table = opened.world.table("visits", buckets=1, log_ttl="60 s")
    opened.world.append(table, 0, 4)
    opened.world.tier_all()
    opened.world.storage.set_table_option(table.path, ENABLED.name, "false")
    assert opened.ids("sales.visits") == list(range(4))
    opened.world.clock.advance(61)
    opened.world.storage.maintenance.run()
    opened.world.append(table, 4, 2)

    for sql in ("SELECT id FROM sales.visits", "SELECT count(*) FROM sales.visits"):
        with pytest.raises(StatementFailed, match=r"\[LakeDisabled\] .* before offset 4 of bucket 0 are only in its lake copy"):
            opened.rows(sql)
    assert opened.ids("lake.sales.visits") == list(range(4))


@pytest.mark.parametrize("opened", [PAIMON], indirect=True, ids=lambda kind: kind.name)
def test_another_snapshot_that_got_the_id_of_a_rolled_back_one_is_not_read(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    reused = SnapshotIdReused(opened.world, opened.orders)
    reused.before_the_lake_is_read(monkeypatch)

    with pytest.raises(StatementFailed, match=r"\[LakeUnavailable\] the lake table of sales\.orders was rolled back since the read began"):
        opened.ids("sales.orders")
    assert reused.has_happened


def test_columns_that_come_by_name_only_are_those_of_the_lake(opened: Opened) -> None:
    opened.world.append(opened.orders, 0, 4)
    opened.world.tier(opened.orders)
    opened.world.append(opened.orders, 4, 2)
    offsets = "SELECT __bucket, __offset FROM sales.orders ORDER BY 1, 2"

    if opened.world.lake_options.get("table.datalake.layout") == "clean":
        with pytest.raises(StatementFailed, match="__bucket"):
            opened.rows(offsets)
    else:
        assert opened.rows(offsets) == [(bucket, offset) for bucket in range(2) for offset in range(3)]
    assert list(opened.engine.execute("SELECT * FROM sales.orders").columns) == ["id", "text"]


def test_a_column_that_the_lake_does_not_have_yet_is_null_there(opened: Opened) -> None:
    opened.world.append(opened.orders, 0, 2)
    opened.world.tier(opened.orders)
    grown = opened.world.storage.alter_table(opened.orders.path, {}, additions([pa.field("rating", pa.int8())]))
    row = pa.record_batch({"id": [2], "text": ["row 2"], "rating": [-5]}, schema=grown.schema)
    opened.world.storage.append(opened.orders.path, row, "rater", 0)

    assert opened.rows("SELECT id, rating, text FROM sales.orders ORDER BY id") == [
        (0, None, "row 0"),
        (1, None, "row 1"),
        (2, -5, "row 2"),
    ]


def test_partitions_that_are_new_since_the_round_are_read_from_the_log(opened: Opened) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string(), nullable=False)])
    table = opened.world.table("visits", partition_keys=("region",), schema=schema)
    opened.world.storage.append(table.path, pa.record_batch({"id": [0, 1], "region": ["north", "south"]}, schema=schema), "writer", 0)
    opened.world.tier_all()
    opened.world.storage.append(table.path, pa.record_batch({"id": [2, 3], "region": ["north", "west"]}, schema=schema), "writer", 1)

    assert opened.rows("SELECT id, region FROM sales.visits ORDER BY id") == [(0, "north"), (1, "south"), (2, "north"), (3, "west")]


def test_a_log_that_is_cut_after_the_plan_gives_a_new_moment_and_no_row_less(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    opened.world.append(opened.orders, 0, 20)
    opened.world.tier(opened.orders)
    opened.world.append(opened.orders, 20, 5)
    rows, cuts = LocalRead.rows, list[int]()

    def cut_once(read: LocalRead, scan: ReadScan) -> Iterator[pa.RecordBatch]:
        if not cuts:
            cuts.append(1)
            opened.world.tier(opened.orders)
            raise LogTruncated("the log was cut while it was read")
        return rows(read, scan)

    monkeypatch.setattr(LocalRead, "rows", cut_once)

    assert opened.ids("sales.orders") == list(range(25))
    assert cuts == [1]


def test_a_rolled_back_lake_is_an_error_and_its_copy_can_be_read(opened: Opened) -> None:
    opened.world.append(opened.orders, 0, 10)
    opened.world.tier(opened.orders)
    first = opened.world.by_hand.head(opened.orders.path)
    opened.world.append(opened.orders, 10, 4)
    opened.world.tier(opened.orders)
    opened.world.by_hand.roll_back(opened.orders.path, first)

    with pytest.raises(StatementFailed, match=r"\[(LakeRolledBack|RecordAheadOfLake)\]"):
        opened.rows("SELECT count(*) FROM sales.orders")
    assert opened.rows("SELECT count(*) FROM sales.`orders$lake`") == [(10,)]


def test_the_log_part_may_be_larger_than_the_memory_limit(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    assert DEFAULT_MEMORY_LIMIT == "1GB"
    monkeypatch.setattr(opened.engine._engine, "_memory_limit", "60MB")
    for piece in range(10):
        opened.world.append(opened.orders, piece * 200_000, 200_000)

    assert opened.rows("SELECT count(*), count(DISTINCT id % 7), max(text) FROM sales.orders") == [(2_000_000, 7, "row 999999")]


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_the_last_change_of_a_key_replaces_its_lake_row(opened: Opened, is_partitioned: bool) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False), pa.field("n", pa.int8())]
    )
    key = ("region", "id") if is_partitioned else ("id",)
    table = opened.world.primary_key_table("stock", schema=schema, key=key, partition_keys=("region",) if is_partitioned else ())
    storage = opened.world.storage

    def upsert(ids: list[int], n: int, sequence: int) -> None:
        storage.upsert(table.path, pa.table({"id": ids, "region": ["eu"] * len(ids), "n": [n] * len(ids)}, schema=schema), "w", sequence)

    upsert([1, 2, 3, 4], 0, 0)
    opened.world.tier_all()
    upsert([2, 5], 1, 1)
    upsert([2], 2, 2)
    gone = {"region": ["eu"], "id": [3]} if is_partitioned else {"id": [3]}
    storage.delete(table.path, pa.table(gone, schema=pa.schema([schema.field(name) for name in gone])), "w", 3)

    assert opened.rows("SELECT id, n FROM sales.stock ORDER BY id") == [(1, 0), (2, 2), (4, 0), (5, 1)]
    assert opened.rows("SELECT count(*) FROM sales.stock WHERE n = 0") == [(2,)]
    assert opened.rows("SELECT id FROM sales.`stock$lake` ORDER BY id") == [(1,), (2,), (3,), (4,)]


def test_the_changelog_has_the_records_of_the_log_with_their_kinds(opened: Opened) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int8())])
    table = opened.world.primary_key_table("stock", schema=schema, buckets=1)
    for sequence, n in enumerate((1, 2)):
        opened.world.storage.upsert(table.path, pa.table({"id": [7], "n": [n]}, schema=schema), "w", sequence)
    opened.world.tier_all()
    opened.world.storage.delete(table.path, pa.table({"id": [7]}, schema=pa.schema([schema.field("id")])), "w", 2)

    records = "SELECT _change_type, _log_offset, n FROM sales.`stock$changelog` ORDER BY _log_offset"
    assert opened.rows(records) == [("+I", 0, 1), ("-U", 1, 1), ("+U", 2, 2), ("-D", 3, 2)]
    assert opened.rows("SELECT count(*) FROM sales.stock") == [(0,)]
