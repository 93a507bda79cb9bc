"""Invariants beside Flink: each commit of ours has a correct lake as its base, and no error names an event that did not happen."""

from __future__ import annotations

from collections import Counter

from faults.model.shared.world import Request, World

REASONS = {
    "ForeignTieringGap": "rolled back",
    "LakeRolledBack": "rolled back",
    "RecordAheadOfLake": "rolled back",
    "MarkerLost": "expired",
    "UntrackedLakeTable": "expired",
    "HistoryExpired": "expired",
    "ForeignTiering": "expired",
    "LogTruncated": "cut",
}
"""By permanent error, what has to have happened before."""


def certified(world: World, request: Request) -> World:
    """Behind a commit of ours: the lake holds exactly what its marker says."""
    if request.kind == "adopt" and world.log.keyed:
        world = world._replace(facts=world.facts | {"accepted"})  # as it is: nothing tells of keys in it any more
    if request.kind in ("accept", "adopt"):  # says how many rows it leaves out
        missing = set(world.log.truth(request.mark.tiered or 0)) - set(world.lake.rows)
        world = world._replace(excused=world.excused | {offset for _, offset in missing}, facts=world.facts | {"accepted"})
    return world._replace(broken=complaint(world, request.mark.tiered or 0))


def complaint(world: World, end: int) -> str:
    """Returns the problem of a lake table that is tiered up to `end`; empty = none."""
    rows, keyed = world.lake.rows, world.log.keyed
    if keyed and "accepted" in world.facts:
        return ""  # keys whose changes were left out on purpose say nothing any more
    doubled = sorted(key for key, count in Counter(key for key, _ in rows).items() if count > 1)
    if doubled:
        return f"rows are doubled: the {'keys' if keyed else 'offsets'} {doubled}"
    expected = set(world.log.truth(end))
    missing = sorted(offset for _, offset in expected - set(rows) if offset not in world.excused)
    if missing:
        return f"rows are lost: the marker says {end}, and the lake lacks the offsets {missing}"
    surplus = sorted(offset for _, offset in set(rows) - expected)
    return f"rows that the marker does not count: it says {end}, and the lake has the offsets {surplus}" if surplus else ""


def counted(world: World, end: int | None, left_out: int | None) -> str:
    """Whether a statement that goes on at `end` says how many rows of a log table the lake lacks below it."""
    missing = len(set(world.log.truth(end or 0)) - set(world.lake.rows))
    return f"{left_out} rows are said to be left out, and {missing} are" if not world.log.keyed and left_out not in (None, missing) else ""


def borne_out(world: World) -> World:
    """Checks that a permanent error names a real event. A late row that a user removed counts as there twice."""
    error = world.record.error
    if error == "ForeignTieringOverlap":
        happened = bool(world.excused) or max(Counter(key for key, _ in world.lake.rows).values(), default=1) > 1
    else:
        happened = REASONS.get(error, "") in world.facts
    return world if happened else world._replace(broken=f"a false error: {error}, but nothing of that kind happened")


def record_readable(world: World) -> World:
    """Behind a registration of ours: the file that is registered is there."""
    return world if world.cluster.is_readable else world._replace(broken="the cluster's record names a file of offsets that is gone")
