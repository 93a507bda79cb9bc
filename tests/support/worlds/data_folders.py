"""Data folders as a coordinator leaves them, made in this process: rounds are stepped, nothing has to be waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from support.background import tick
from support.lake_kinds.kinds import LakeKind
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.cli.processes.data_folder import DataFolder, open_data_folder
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.lake.table_options import LAYOUT
from tiering.model.tables import TableInfo, TablePath

FLIGHTS, PLANES, WEATHER = (TablePath("demo", name) for name in ("flights", "planes", "weather"))
FLIGHTS_ROWS = 1_000


class FolderWorld(LakeWorld):
    """A LakeWorld whose store is in the folder, as `lakeward up` has it."""

    def __init__(self, root: Path, kind: LakeKind | None = None) -> None:
        self.folder: DataFolder = open_data_folder(root)
        super().__init__(self.folder.root, SqlStore(self.folder.store_url), kind)

    def close(self) -> None:
        super().close()
        self.store.close()


SECONDS_BETWEEN = 1_000
"""Time after which no process waits for one that died."""


@contextmanager
def opened_later(folder: Path, kind: LakeKind, times: int) -> Iterator[FolderWorld]:
    """The folder, that many times SECONDS_BETWEEN after its first use."""
    world = FolderWorld(folder, kind)
    try:
        world.clock.advance(times * SECONDS_BETWEEN)
        tick(world.coordinator)
        yield world
    finally:
        world.close()


def create(world: LakeWorld, path: TablePath, buckets: int, **options: str) -> TableInfo:
    """A log table; `lake`, `freshness` and `layout` are options."""
    world.storage.create_database(path.database_name, ignore_if_exists=True)
    properties = {"table.datalake.enabled": options.get("lake", "true"), "table.datalake.freshness": options.get("freshness", "1 s")}
    if "layout" in options:
        properties[LAYOUT.name] = options["layout"]
    table = world.storage.create_table(path, TableSpec(SCHEMA, buckets, properties=properties))
    tick(world.coordinator)
    return table


def append(world: LakeWorld, path: TablePath, count: int, pieces: int) -> None:
    """Rows `0 .. count-1`, a piece a bucket."""
    writer = LogWriter(world.storage, path, "example")
    for piece in range(pieces):
        ids = range(piece * count // pieces, (piece + 1) * count // pieces)
        writer.append(pa.table({"id": ids, "text": [f"row {number}" for number in ids]}, schema=SCHEMA))


def make_example_folder(root: Path) -> DataFolder:
    """The setting of sql_examples/README.md, left alone: nothing runs on it any more."""
    world = FolderWorld(root)
    flights = create(world, FLIGHTS, 4, freshness="5 min", layout="system-columns")
    append(world, FLIGHTS, FLIGHTS_ROWS, 4)
    create(world, PLANES, 1, lake="false")
    world.clock.advance(301)
    tick(world.coordinator)
    world.begin(flights).end()
    world.iceberg_catalog().create_namespace_if_not_exists(WEATHER.database_name)
    world.iceberg_catalog().create_table(str(WEATHER), pa.schema([pa.field("id", pa.string())]))
    weather = create(world, WEATHER, 1)
    append(world, WEATHER, 10, 1)
    world.clock.advance(2)
    tick(world.coordinator)
    world.begin(weather).end()
    world.coordinator.repair_inspector.inspect_all(patience_ms=60_000)
    world.close()
    return world.folder
