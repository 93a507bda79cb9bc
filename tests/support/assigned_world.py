"""A `World` whose cluster assigns its tables, and what tests do with it."""

from __future__ import annotations

from support import operators
from support.clusters.assigner import Assigner
from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import HandTierer, World
from tiering.model.tables import TableInfo, TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb


def tables(count: int) -> tuple[TableInfo, ...]:
    return tuple(log_table(number, TablePath("sales", f"t{number}")) for number in range(1, count + 1))


def assigner(world: World) -> Assigner:
    assert world.assigner is not None
    return world.assigner


def begun(world: World) -> tuple[HandTierer, pb.PbLakeTieringTableInfo]:
    """A tierer that runs a round of the first table."""
    tierer = world.tierer()
    tierer.beat(request=True)
    assigner(world).due(world.table)
    world.later(1)
    return tierer, tierer.get()


def pause(world: World, table: TableInfo) -> None:
    operators.pause(world.coordinator, table.path, "alice")


def resume(world: World, table: TableInfo) -> None:
    operators.resume(world.coordinator, table.path, "alice")


def lose_session(world: World, loss: str) -> None:
    if loss == "restart":
        assigner(world).stop()
        world.later(1)
        assigner(world).start()
    elif loss == "connection":
        assigner(world).break_connection()
    elif loss == "own restart":
        world.restart()
    else:
        world.crash()
    world.later(1)
