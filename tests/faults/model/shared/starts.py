"""Where a search begins: a healthy table, or one with doubled rows, so that short stories show what statements lack."""

from __future__ import annotations

from faults.model.shared import rounds, users
from faults.model.shared.lake_table import OffsetsFile, Snapshot
from faults.model.shared.world import Flink, Size, World, initial


def start(size: Size) -> World:
    """The first state of a search."""
    world = initial(size)
    match size.begins:
        case "doubled":
            return with_late_flink(doubled(world))
        case "deduplicated":
            return deduplicated(size, doubled(world))
        case _:
            return world


def doubled(world: World) -> World:
    """Two rounds of Flink's have landed in a log table, a stale one last and with less, and our round has named that."""
    lake, cluster, stop = world.lake, world.cluster, world.log.end
    for number, end in ((1, stop), (2, stop - 1)):
        file = OffsetsFile("flink", number, end)
        rows, added = world.log.appended(lake.rows, 1, end)
        lake = lake.with_snapshot(Snapshot(0, None, "flink", rows, file, added=added))
        cluster = cluster.with_file(file).registering(lake.head or 0, file, None)
    named = world.changing(epoch=2, error="ForeignTieringOverlap", hints=("deduplicate",))
    return named._replace(lake=lake, cluster=cluster, next_flink=3)


def with_late_flink(world: World) -> World:
    """One that planned when the first two did is past its check."""
    file = OffsetsFile("flink", 3, world.log.end)
    late = Flink(3, "prepared", 1, world.log.end, file)
    return world._replace(cluster=world.cluster.with_file(file), flinks=(late,), next_flink=4)


def deduplicated(size: Size, world: World) -> World:
    """A user has called deduplicate, out of our turn: the cluster was not told."""
    [(_, sent)] = users.begin_reconcile(size, world, "deduplicate")
    _, landed = rounds.deliver(size, sent, sent.requests[0])
    assert landed.call is not None
    return users.end_reconcile(size, landed, landed.call)[1]
