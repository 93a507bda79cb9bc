"""An hour in the life of a table that is read: rows are written, rounds commit, files are rewritten, snapshots expire, the log is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from support.background import tick
from support.lake_kinds.kinds import LakeKind
from support.upkeep.aged_world import AgedWorld
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA
from support.worlds.stories.tables import EXPIRES_EARLY
from support.worlds.stories.upkeep import upkeep_often
from tiering.coordinator.calls.sweep_lake import sweep_lake
from tiering.coordinator.decisions.upkeep import requests
from tiering.coordinator.readers.reads import OpenedRead
from tiering.model.tables import BucketKey, TableInfo, TableType
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder
from tiering.procedures.sweep_lake import SweepLake

HOUR = timedelta(hours=1)
STEP = timedelta(minutes=3)
"""Time between two rounds, in which the reader renews once."""
KEYS = 40
"""Keys of a primary-key table, which all writes change."""


@contextmanager
def long_world(folder: Path, kind: LakeKind) -> Iterator[AgedWorld]:
    """A world whose rounds merge files and expire snapshots all the time."""
    with upkeep_often():
        world = AgedWorld(folder, kind)
        try:
            yield world
        finally:
            world.close()


def table_to_read(world: AgedWorld, *, has_primary_key: bool) -> TableInfo:
    """A table with rows in the lake, and more in the log. Its log and its snapshots are kept as short as possible."""
    options = {"log_ttl": "1 min", **{name.removeprefix("table."): value for name, value in EXPIRES_EARLY.items()}}
    options["datalake.snapshot.min-count"] = "1"
    if has_primary_key:
        table = world.primary_key_table("orders", **options, **{"kv.snapshot.interval": "2 min"})
    else:
        table = world.table("orders", **options)
    write(world, table, 0)
    world.tier(table)
    write(world, table, 1)
    return table


def write(world: AgedWorld, table: TableInfo, number: int) -> None:
    """Appends ten rows; or changes half of the keys and deletes one."""
    if table.table_type is TableType.LOG:
        world.append(table, number * 10, 10)
        return
    ids = range(number % 2, KEYS, 2)
    rows = pa.table({"id": ids, "text": [f"{number}"] * len(ids)}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, rows, f"writer-{number}", 0)
    keys = pa.table({"id": [number % KEYS]}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")]))
    world.storage.delete(table.path, keys, f"deleter-{number}", 0)


def live(world: AgedWorld, table: TableInfo, number: int, *, upkeep: bool) -> None:
    """One step: new rows, a round, a rewrite of all files, an expiry of all old snapshots, a sweep, and retention."""
    write(world, table, number)
    assert world.tier(table).error is None
    if upkeep:
        expiry = ExpiryOrder(world.clock.now(), 1)
        for order in (UpkeepOrder(full=True, manifests=True), UpkeepOrder(expiry=expiry)):
            _upkeep(world, table, order)
    sweep_lake(world.coordinator.call_parts, SweepLake(table.path, 0, caller="ann"))
    world.storage.maintenance.run()
    tick(world.coordinator)


def _upkeep(world: AgedWorld, table: TableInfo, order: UpkeepOrder) -> None:
    records = world.coordinator.table_records
    with records.changing():
        records.put(requests.request(records.context("ann"), world.record(table), order, "rewrite_data_files").change)
    while (answer := world.beat(request_table=True)).HasField("tiering_table"):
        assert world._stepped(answer).end().error is None


def live_for(world: AgedWorld, table: TableInfo, time: timedelta, first: int, renew: Callable[[], None] = lambda: None) -> None:
    """Lets the time pass, in steps. `first` is the number of the first write. `renew` is called once in each step."""
    end = world.clock.now() + time
    for number in range(first, 1_000):
        if world.clock.now() >= end:
            return
        world.clock.advance(STEP.total_seconds())
        renew()
        live(world, table, number, upkeep=number % 3 == 0)


def log_starts(world: AgedWorld, table: TableInfo) -> dict[BucketKey, int]:
    return {bucket: offsets.log_start for bucket, offsets in world.storage.offsets(table).items()}


def data_files(folder: Path) -> set[Path]:
    """The files with the rows of lake tables."""
    return {file for file in folder.rglob("*.parquet") if "cluster" not in file.relative_to(folder).parts}


def is_released(world: AgedWorld, table: TableInfo, opened: OpenedRead, files: set[Path]) -> dict[str, bool]:
    """Which parts of a read are gone: its log records, its snapshot, and `files`, which were in the lake as it was opened."""
    starts = log_starts(world, table)
    return {
        "log": all(starts[bucket] > start for bucket, start in opened.read.moment.log_starts.items()),
        "snapshot": opened.read.moment.lake_snapshot_id not in world.view(table).snapshots,
        "files": not any(file.exists() for file in files),
    }
