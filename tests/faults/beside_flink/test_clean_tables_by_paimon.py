"""Clean Paimon tables beside Flink's tiering, whose files and commits are made by Paimon's own Java, as Fluss 1.0's writers make them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from support.flink.flink_by_paimon import FlinkByPaimon, PaimonWriters
from support.flink.flink_on_iceberg import share
from support.fluss_paimon.compaction import compact
from support.lake_kinds.kinds import PAIMON_CLEAN
from support.on_call import follow, in_lake
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.validated import check, faults
from tiering.cluster.log_writer import LogWriter
from tiering.lake.paimon.reading.clean_rows import OUT_OF_ORDER
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo

WHEN = datetime(2026, 3, 1, 12, 30, 15, 123_456)
SMALL = "64 kb"
"""A writer's memory, which is full several times per round."""
TYPES = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("bool", pa.bool_()),
        pa.field("tiny", pa.int8()),
        pa.field("small", pa.int16()),
        pa.field("int", pa.int32()),
        pa.field("float", pa.float32()),
        pa.field("double", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("bytes", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("large", pa.decimal128(38, 10)),
        pa.field("at", pa.timestamp("us")),
        pa.field("at_ms", pa.timestamp("ms")),
        pa.field("instant", pa.timestamp("us", "UTC")),
        pa.field("instant_ms", pa.timestamp("ms", "UTC")),
        pa.field("list", pa.list_(pa.int32())),
        pa.field("map", pa.map_(pa.string(), pa.int32())),
        pa.field("struct", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])),
    ]
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path, kind=PAIMON_CLEAN)
    share(world)
    yield world
    world.close()


@pytest.fixture
def writers(world: LakeWorld, tmp_path: Path) -> Iterator[PaimonWriters]:
    with PaimonWriters(Path(world.lake_properties["warehouse"].removeprefix("file://")), tmp_path / "jvm.log") as writers:
        yield writers


def kinds(world: LakeWorld, table: TableInfo) -> list[str]:
    return [snapshot.operation for _, snapshot in sorted(world.view(table).snapshots.items())]


def healthy(world: LakeWorld, table: TableInfo) -> None:
    assert world.tier(table).error is None
    assert faults(check(world, table)) == []


def keyed_rows(numbers: range | list[int], text: str) -> pa.Table:
    return pa.table({"id": list(numbers), "text": [f"{text} {number}" for number in numbers]}, schema=PRIMARY_KEY_SCHEMA)


def append(world: LakeWorld, table: TableInfo, start: int, count: int) -> None:
    LogWriter(world.storage, table.path, f"writer-{start}").append(keyed_rows(range(start, start + count), "row"))


@pytest.mark.parametrize("bucket_keys", [(), ("id",)], ids=["no bucket key", "a bucket key"])
def test_rows_of_log_tables_are_adopted_also_behind_compactions(
    world: LakeWorld, writers: PaimonWriters, bucket_keys: tuple[str, ...]
) -> None:
    table = world.table("orders", schema=PRIMARY_KEY_SCHEMA, bucket_keys=bucket_keys)
    append(world, table, 0, 50)
    healthy(world, table)
    for start in (50, 80):
        append(world, table, start, 30)
        flink = FlinkByPaimon(world, table, writers).plan()
        flink.compacts = bool(bucket_keys) and start == 80
        flink.append().tell()
    assert world.tier(table).state is RoundState.EMPTY
    if not bucket_keys:
        compact(Path(world.lake_properties["warehouse"].removeprefix("file://")), table.path)
    append(world, table, 110, 30)
    FlinkByPaimon(world, table, writers).plan().append().tell()
    healthy(world, table)
    assert kinds(world, table) == ["APPEND", "APPEND", "APPEND", "COMPACT", "APPEND"]
    append(world, table, 140, 10)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == list(range(150))
    assert faults(check(world, table)) == []


def change(writer: LogWriter, text: str, start: int) -> None:
    """More than a small memory takes: updates, some keys twice, inserts, keys that come and go, deletes."""
    writer.upsert(keyed_rows(range(start, start + 2_000), text))
    writer.upsert(keyed_rows(range(0, start, 7), text))
    writer.upsert(keyed_rows(range(0, start, 14), f"{text} again"))
    gone = [*range(start + 100, start + 200), *range(0, start, 30)]
    writer.delete(pa.table({"id": gone}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")])))


def planes(world: LakeWorld) -> tuple[TableInfo, LogWriter]:
    table = world.primary_key_table("planes", buckets=2)
    writer = LogWriter(world.storage, table.path, "writer")
    writer.upsert(keyed_rows(range(500), "first"))
    healthy(world, table)
    return table, writer


def test_changes_of_keys_are_adopted_also_behind_compactions(world: LakeWorld, writers: PaimonWriters) -> None:
    table, writer = planes(world)
    for number, text in enumerate(("second", "third", "fourth")):
        change(writer, text, 10_000 * (number + 1))
        flink = FlinkByPaimon(world, table, writers, SMALL).plan()
        flink.compacts = text == "third"
        flink.append().tell()
    assert world.tier(table).state is RoundState.EMPTY
    assert kinds(world, table) == ["APPEND", "APPEND", "APPEND", "COMPACT", "APPEND"]
    assert faults(check(world, table)) == []
    change(writer, "fifth", 50_000)
    assert world.tier(table).state is RoundState.SUCCEEDED
    compact(Path(world.lake_properties["warehouse"].removeprefix("file://")), table.path)
    change(writer, "sixth", 60_000)
    FlinkByPaimon(world, table, writers, SMALL).plan().append().tell()
    healthy(world, table)


def test_changes_of_a_round_that_slept_are_refused_and_begin_anew(world: LakeWorld, writers: PaimonWriters) -> None:
    table, writer = planes(world)
    change(writer, "second", 10_000)
    stale = FlinkByPaimon(world, table, writers).plan()
    change(writer, "third", 20_000)
    healthy(world, table)
    stale.append().tell()
    outcome = world.tier(table)
    assert outcome.error is not None
    assert OUT_OF_ORDER in outcome.error.message
    [statement] = follow(world.coordinator, table, in_lake(world))
    assert "'retier'" in statement
    healthy(world, table)
    change(writer, "fourth", 30_000)
    FlinkByPaimon(world, table, writers).plan().append().tell()
    healthy(world, table)


def test_values_of_every_type_are_those_of_the_log(world: LakeWorld, writers: PaimonWriters) -> None:
    table = world.table("values", schema=TYPES)
    values = [
        True,
        7,
        300,
        70_000,
        1.5,
        2.25,
        "text",
        b"\x00\xff",
        date(1969, 12, 31),
        Decimal("12.34"),
        Decimal("-12345678901234567.0000000001"),
    ]
    times = [WHEN, WHEN.replace(microsecond=123_000), WHEN.replace(tzinfo=UTC), WHEN.replace(microsecond=123_000, tzinfo=UTC)]
    nested = [[1, 2, 3], [("a", 1), ("b", 2)], {"a": 1, "b": "x"}]
    rows = [[1, *values, *times, *nested], [2, *[None] * (len(TYPES) - 1)]]
    data = pa.Table.from_pylist([dict(zip(TYPES.names, row, strict=True)) for row in rows], schema=TYPES)
    writer = LogWriter(world.storage, table.path, "writer")
    writer.append(data)
    healthy(world, table)
    writer.append(data)
    FlinkByPaimon(world, table, writers).plan().append().tell()
    assert world.tier(table).state is RoundState.EMPTY
    assert faults(check(world, table)) == []
