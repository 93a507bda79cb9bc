"""Changelogs without before-images (`table.changelog.image` = WAL) beside Flink: its writer deletes no row that an update replaces.

A key that was updated stands twice then. Nothing of that is adopted as whole: our next round replays the bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from support.flink.beside_flink import AFTER, DELETE, KEY_TABLE, BesideFlink
from support.flink.flink_on_iceberg import flink_on, share
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.lakes.clean_memory_lake import CLEAN_SCHEMA, CleanMemoryLake
from support.lakes.shared_memory_lake import SharedMemoryLake
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.validated import check, faults
from tiering.cluster import table_option_checks as options
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.shared_lake import CHANGELOG_IMAGE
from tiering.lake.table_options import TableOption
from tiering.model.rounds import RoundState
from tiering.model.splits import TieringSplit
from tiering.model.tables import CHANGE_TYPE_COLUMN, ChangeType, TableInfo

WAL = {CHANGELOG_IMAGE: "WAL"}


@pytest.mark.parametrize("lake", [SharedMemoryLake, CleanMemoryLake], ids=["system-columns", "clean"])
def test_keys_that_an_update_left_twice_are_replayed(lake: type[SharedMemoryLake]) -> None:
    schema = CLEAN_SCHEMA if lake is CleanMemoryLake else KEY_TABLE.schema
    table = TableInfo(**{**vars(KEY_TABLE), "properties": WAL, "schema": schema})
    world = BesideFlink(table, [(AFTER, key) for key in range(8)], lake)
    world.succeed()
    world.cluster.write(0, (AFTER, 1), (AFTER, 2), (DELETE, 3), (AFTER, 9), (AFTER, 1))
    world.flink().whole()
    assert max(world.lake.row_counts().values()) == 2
    world.succeed()
    world.assert_whole()
    world.cluster.write(0, (AFTER, 9), (DELETE, 2))
    world.flink().whole()
    world.flink().whole()
    world.succeed()
    world.assert_whole()
    assert world.succeed().state is RoundState.EMPTY


class WithoutBeforeImages:
    """A `SplitReader` of a log that has no `-U`."""

    def __init__(self, world: LakeWorld, table: TableInfo, split: TieringSplit) -> None:
        self._reader = READ(world.storage, table, split)

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader.read():
            yield batch.filter(pc.not_equal(batch.column(CHANGE_TYPE_COLUMN), pa.scalar(int(ChangeType.UPDATE_BEFORE), pa.int8())))


def READ(storage: object, table: TableInfo, split: TieringSplit) -> object:
    return type(storage).reader(storage, table, split)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", LAKE_KINDS, ids=lambda kind: kind.name)
def test_real_lakes_hold_each_key_once_in_the_end(tmp_path: Path, kind: LakeKind, monkeypatch: pytest.MonkeyPatch) -> None:
    image = TableOption(CHANGELOG_IMAGE, "FULL", lambda text, name: text, "")
    monkeypatch.setattr(options, "TABLE_OPTIONS", {**options.TABLE_OPTIONS, CHANGELOG_IMAGE: image})
    world = LakeWorld(tmp_path, kind=kind)
    share(world)
    world.storage.reader = lambda table, split: WithoutBeforeImages(world, table, split)  # type: ignore[method-assign,assignment,return-value]
    table = world.primary_key_table("planes", buckets=1, changelog_image="WAL")
    writer = LogWriter(world.storage, table.path, "writer")

    def upsert(ids: range, text: str) -> None:
        writer.upsert(pa.table({"id": list(ids), "text": [f"{text} {number}" for number in ids]}, schema=PRIMARY_KEY_SCHEMA))

    upsert(range(20), "first")
    assert world.tier(table).state is RoundState.SUCCEEDED
    for text in ("second", "third"):
        upsert(range(5), text)
        writer.delete(pa.table({"id": [10 if text == "second" else 11]}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")])))
        flink_on(world, table).plan().append().tell()
    outcome = world.tier(table)
    assert outcome.error is None, outcome.error
    assert faults(check(world, table)) == []
    world.close()
