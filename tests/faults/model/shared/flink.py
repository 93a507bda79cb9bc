"""Flink's committer, step by step: plan, check, prepare, append, tell. It may sleep between any two, and nothing fences it.

The same as `support.flink.flink_committer`, which was seen on a server, over values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from faults.model.shared.lake_table import KV_SNAPSHOT_OFFSET, Added, OffsetsFile, Snapshot
from faults.model.shared.world import Flink, Size, World

INCARNATIONS = 2
KEEP_ALL = -1
Step = tuple[str, World]


def steps(size: Size, world: World) -> Iterator[Step]:
    """Everything that Flink may do next."""
    if world.flinks_left and len(world.flinks) < INCARNATIONS and world.turn not in (("ours", "flink") if size.strict else ("ours",)):
        yield from plan(size, world._replace(flinks_left=world.flinks_left - 1))
    for flink in world.flinks:
        yield advance(size, world, flink)
        if size.compacts and flink.step == "appended":
            yield compact(world, flink)
        if world.faults and "flink dies" in size.fault_actions:
            yield f"Flink {flink.number} dies", world._replace(faults=world.faults - 1).with_flink(flink, None)


def plan(size: Size, world: World) -> Iterator[Step]:
    """Takes the end that the cluster has, and the log's. Nothing if there is nothing to do, or the cluster cannot say."""
    start, stop = world.cluster.end, world.log.end
    if not world.cluster.is_readable:
        return
    if start is None:
        start = KV_SNAPSHOT_OFFSET if size.keyed and size.kv_snapshots else 0
    if start >= stop or 0 <= start < world.log.start:
        return
    flink = Flink(world.next_flink, "planned", start, stop)
    planned = world._replace(flinks=(*world.flinks, flink), next_flink=world.next_flink + 1, turn="flink")
    yield f"Flink {flink.number} plans [{start}, {stop})", planned


def advance(size: Size, world: World, flink: Flink) -> Step:
    """Takes the next step of Flink's committer."""
    match flink.step:
        case "planned":
            return check(world, flink)
        case "checked":
            return prepare(world, flink)
        case "prepared":
            return append(size, world, flink)
        case _:
            return tell(world, flink)


def check(world: World, flink: Flink) -> Step:
    """The newest tiering snapshot, rolled back or not, is to be the one that the cluster knows; else the cluster is told of it."""
    who, over = f"Flink {flink.number}", world.with_flink(flink, None)
    known, newest = world.cluster.latest, world.lake.newest
    if not world.cluster.is_readable:
        return f"{who} cannot read the cluster's record, and fails", over
    if known is not None and world.lake.snapshot(known) is None:
        return f"{who} does not find the cluster's snapshot {known}, and fails", over
    if newest is not None and (known is None or newest.id > known):
        assert newest.file is not None
        informed = over._replace(cluster=world.cluster.registering(newest.id, newest.file, KEEP_ALL))
        return f"{who} tells the cluster of snapshot {newest.id} ({newest.author}), which it lacked, and fails", informed
    return f"{who} passes its check", world.with_flink(flink, flink._replace(step="checked"))


def prepare(world: World, flink: Flink) -> Step:
    """Prepares a commit with Flink's own ends, over those that the cluster has."""
    if not world.cluster.is_readable:
        return f"Flink {flink.number} cannot read the cluster's record, and fails", world.with_flink(flink, None)
    file = OffsetsFile("flink", flink.number, flink.stop)
    prepared = world._replace(cluster=world.cluster.with_file(file))
    return f"Flink {flink.number} prepares its end", prepared.with_flink(flink, flink._replace(step="prepared", file=file))


def append(size: Size, world: World, flink: Flink) -> Step:
    """On whatever the head is by now."""
    lake, start = world.lake, flink.start or 0
    if start == KV_SNAPSHOT_OFFSET:
        truth = world.log.truth(flink.stop)
        rows, added = (*lake.rows, *truth), Added(KV_SNAPSHOT_OFFSET, 0, len(truth)) if truth else None
    else:
        rows, added = world.log.appended(lake.rows, start, flink.stop)
    landed = lake.with_snapshot(Snapshot(0, None, "flink", rows, flink.file, added=added))
    after = world._replace(lake=landed).with_flink(flink, flink._replace(step="appended", snapshot_id=landed.head))
    if size.strict and max(Counter(rows).values(), default=1) > 1:
        after = after._replace(broken="rows are doubled, though every service kept to its turn")
    return f"Flink {flink.number} appends [{start}, {flink.stop}) as snapshot {landed.head}", after


def compact(world: World, flink: Flink) -> Step:
    """The `replace` behind its append, of which the cluster is told instead."""
    landed = world.lake.with_snapshot(Snapshot(0, None, "flink", world.lake.rows, flink.file, is_rewrite=True))
    after = world._replace(lake=landed).with_flink(flink, flink._replace(step="compacted", snapshot_id=landed.head))
    return f"Flink {flink.number} compacts as snapshot {landed.head}", after


def tell(world: World, flink: Flink) -> Step:
    """Last write wins; the files of all others are deleted."""
    assert flink.file is not None
    assert flink.snapshot_id is not None
    informed = world._replace(cluster=world.cluster.registering(flink.snapshot_id, flink.file, None))
    return f"Flink {flink.number} tells the cluster {flink.stop} with snapshot {flink.snapshot_id}", informed.with_flink(flink, None)
