"""Our coordinator handles a round whose base is ahead of the records, or whose commit has landed: it reads the lake, records, and notifies
the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from faults.model.shared import invariants
from faults.model.shared.flink import KEEP_ALL, Step
from faults.model.shared.lake_table import LakeTable, OffsetsFile
from faults.model.shared.looks import Own, Refusal, stand_of, telling_of
from faults.model.shared.rounds import fail, finish, given_back, look, read_log
from faults.model.shared.rules import CoveredPart, SharedRule
from faults.model.shared.world import Ack, Size, World

from tiering.cluster.fluss.offsets_files import PreparedFile, superseded


def steps(size: Size, world: World) -> Iterator[Step]:
    """Yields the next possible steps of the coordinator, or its death."""
    if world.ack is None:
        return
    yield advance(size, world, world.ack)
    if world.faults and "coordinator dies" in size.fault_actions:
        yield "the coordinator dies and starts again", world._replace(faults=world.faults - 1, ack=None)


def advance(size: Size, world: World, ack: Ack) -> Step:
    """The next step of `Commits.acknowledge`."""
    match ack.step:
        case "begun" if not size.has(SharedRule.CLUSTER_FIRST):
            return "the coordinator reads the lake", world._replace(ack=ack._replace(step="read", lake=world.lake))
        case "begun":
            read = ack._replace(step="read", cluster=world.recorded())
            return "the coordinator reads the cluster's record", world._replace(ack=read)
        case "read":
            return record(size, world, ack)
        case "recorded":
            return prepare(size, world, ack)
        case _:
            return register(size, world, ack)


def record(size: Size, world: World, ack: Ack) -> Step:
    """`Commits._contents` and `lake_acks.record_contents`: what the lake holds by its own base check."""
    cluster = ack.cluster if size.has(SharedRule.CLUSTER_FIRST) else world.recorded()
    stand = stand_of(look(size, world, world.known(), cluster, ack.lake))
    if isinstance(stand, Refusal):
        return f"the coordinator refuses the lake: {stand.error}", answered(size, world._replace(ack=None), ack, stand)
    if stand.mark is None or stand.newest is None:
        return "the coordinator finds no marker", answered(size, world._replace(ack=None), ack, Refusal("Fenced", is_permanent=False))
    settled, unresolved = stand.mark.round_id, world.record.unresolved
    own = Own(stand.newest, stand.end, stand.moved_back, settled)
    known = world.changing(own=own, passed_head=stand.head, unresolved=None if settled >= (unresolved or 0) else unresolved)
    if world.record.running == settled:
        known = known.changing(granted=False)
    recorded = ack._replace(step="recorded", stand=stand, lake=(ack.lake or world.lake).trimmed())
    return f"the coordinator records snapshot {stand.newest} with the end {stand.end}", known._replace(ack=recorded)


def prepare(size: Size, world: World, ack: Ack) -> Step:
    """`Commits._notify_shared_cluster`, and the first half of `LakeRecord.write`."""
    assert ack.stand is not None
    assert ack.lake is not None
    has, _ = world.recorded()
    is_exact, can_notify = telling_of(ack.stand, ack.lake, has)
    can_notify = can_notify and (world.turn == "ours" or not size.has(SharedRule.TOLD_IN_TURN))
    if is_exact or not can_notify:
        after = answered(size, world._replace(ack=None), ack, None)
        return "the cluster has it already" if is_exact else "the cluster is not told", cleaned_up(after, ack) if is_exact else after
    file, keep = telling_file(size, world, ack.stand.newest or 0, ack.stand.end, ack.lake)
    prepared = world._replace(cluster=world.cluster if file in ack.lake.files else world.cluster.with_file(file))
    return "the coordinator prepares a file", prepared._replace(ack=ack._replace(step="prepared", file=file, keep=keep))


def telling_file(size: Size, world: World, snapshot_id: int, end: int | None, lake: LakeTable) -> tuple[OffsetsFile, int | None]:
    """The file that is registered for a snapshot of ours, and from which snapshot on the cluster keeps the others'."""
    has, named = world.recorded()[0], lake.snapshot(snapshot_id)
    if not size.has(SharedRule.TWO_FILES) and named is not None and named.file is not None:
        return named.file, KEEP_ALL
    if not size.has(CoveredPart.EXPLICIT_KEEP):
        return OffsetsFile("registered", snapshot_id, end), None
    return OffsetsFile("registered", snapshot_id, end), KEEP_ALL if has is None or has.snapshot_id == snapshot_id else has.snapshot_id


def register(size: Size, world: World, ack: Ack) -> Step:
    """The second half of `LakeRecord.write`: last write wins, ours too."""
    assert ack.stand is not None
    assert ack.file is not None
    informed = world._replace(cluster=world.cluster.registering(ack.stand.newest or 0, ack.file, ack.keep), ack=None)
    after = given_back(size, cleaned_up(answered(size, informed, ack, None), ack))
    return f"the cluster is told {ack.stand.end} with snapshot {ack.stand.newest}", invariants.record_readable(after)


def answered(size: Size, world: World, ack: Ack, refusal: Refusal | None) -> World:
    """The round that called goes on, if it is still there."""
    current = world.round
    if current is None or current.id != ack.round_id:
        return world
    if current.step == "landed":
        return finish(size, world, current, acked=refusal is None)
    if refusal is not None:
        return fail(size, world, current, refusal)
    return read_log(size, world, current)[1]


def cleaned_up(world: World, ack: Ack) -> World:
    """`clean_up_after_commit`: files of earlier commits of ours that no record may name any more."""
    stand, lake = ack.stand, ack.lake
    if stand is None or lake is None or stand.tag != stand.newest:
        return world
    named = {snapshot.file: snapshot.id for snapshot in lake.snapshots if snapshot.file is not None}
    ours = sorted(file for file in world.cluster.alive if file.owner == "summary")
    newest = next((file for file, snapshot_id in named.items() if snapshot_id == stand.newest), None)
    files = [PreparedFile(file.number, f"{file.number}", named.get(file)) for file in ours]
    registered = {number for number, _ in world.cluster.registered}
    doomed = superseded(files, "" if newest is None else f"{newest.number}", lambda snapshot_id: snapshot_id in registered)
    gone = {file.number for file in doomed}
    alive = frozenset(file for file in world.cluster.alive if file.owner != "summary" or file.number not in gone)
    return invariants.record_readable(world._replace(cluster=world.cluster._replace(alive=alive))) if gone else world
