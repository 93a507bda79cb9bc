"""A table whose log is cut as soon as neither the lake nor an open read needs it, and reads of it at the coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.worlds.lake_world import LakeWorld
from tiering.model.reading.scans import ReadScan
from tiering.model.tables import TableInfo
from tiering.union_read.task_codec import decode, encode

TTL_S = 60
WHOLE = [0, 0]
"""The starts of the logs of the two buckets before retention cut them."""
TIERED = [5, 5]
"""Offsets of the two buckets up to which the lake has the log as a test begins."""


def half_tiered(world: LakeWorld) -> TableInfo:
    """Returns a table with ten rows in the lake, and ten more in the log: two buckets from offset 5 on. The log has all of them."""
    table = world.table("orders", log_ttl=f"{TTL_S} s")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 10)
    return table


def opened(world: LakeWorld, table: TableInfo) -> bytes:
    """Returns the ticket of a new read."""
    return world.coordinator.reads.open(table.path, "spark", "").ticket


def renewed(world: LakeWorld, ticket: bytes) -> bytes:
    """Renews a read, and returns its new ticket."""
    return world.coordinator.reads.renew(ticket)[1]


def planned(world: LakeWorld, ticket: bytes) -> list[bytes]:
    """Returns the tasks of a scan of all rows, as executors get them."""
    return [encode(task) for task in world.coordinator.reads.plan(ticket, ReadScan())[0]]


def rows_of(tasks: Iterable[bytes]) -> list[tuple[Any, ...]]:
    """Returns the rows of tasks, sorted, read as executors do."""
    return sorted(tuple(row.values()) for task in tasks for batch in decode(task).read() for row in batch.to_pylist())


def ids(tasks: Iterable[bytes]) -> list[int]:
    """Returns the ids of the rows of tasks, sorted, read as executors do."""
    return sorted(value for task in tasks for batch in decode(task).read() for value in batch.column("id").to_pylist())


def starts(world: LakeWorld, table: TableInfo) -> list[int]:
    """Returns the starts of the buckets' logs."""
    return [offsets.log_start for _, offsets in sorted(world.storage.offsets(table).items(), key=lambda entry: entry[0].sort_key())]


def retain(world: LakeWorld, table: TableInfo) -> list[int]:
    """Tiers all rows, and lets retention run. Returns the starts of the buckets' logs."""
    world.tier(table)
    world.clock.advance(TTL_S + 1)
    world.storage.maintenance.run()
    return starts(world, table)
