"""Our rounds beside Flink's, and the commit requests on their way.

Each step is atomic, and mirrors a place in the product, which it names.
"""

from __future__ import annotations

from collections.abc import Iterator

from faults.model.shared import invariants
from faults.model.shared.flink import Step
from faults.model.shared.lake_table import LakeTable, Mark, OffsetsFile, Snapshot
from faults.model.shared.looks import Known, Look, Own, Refusal, outcome_of, planned, same_stand, stand_of
from faults.model.shared.rules import SharedRule
from faults.model.shared.world import Ack, Request, Round, Size, World

from tiering.lake.rules.base_check import CommitOutcome

COMMIT_ATTEMPTS = 2
"""`steps_to_commit.COMMIT_ATTEMPTS` is 5; the third does nothing that the second does not."""


def steps(size: Size, world: World) -> Iterator[Step]:
    """Everything that our tierer and the network may do next."""
    if world.rounds_left and can_assign(size, world):
        yield assign(world._replace(rounds_left=world.rounds_left - 1))
    if world.round is not None:
        yield from round_steps(size, world, world.round)
    for request in world.requests:
        yield deliver(size, world, request)


def look(size: Size, world: World, known: Known, cluster: tuple[Own | None, bool], lake: LakeTable | None = None) -> Look:
    """At the lake as it is now, with what was read of the cluster before."""
    lake = lake or world.lake
    return lake, known, cluster, world.cluster.alive & lake.files, world.log, size.rules


def can_assign(size: Size, world: World) -> bool:
    """Whether the cluster may assign the table to us: it does so too while a round of Flink's that it has given up goes on."""
    is_free = world.turn in (("", "ours") if size.strict else ("", "ours", "flink"))
    return is_free and world.round is None and world.call is None and not world.record.error


def assign(world: World) -> Step:
    """`round_lifecycle.assign`."""
    number = world.record.epoch + 1
    current = Round(number, world.known(), world.record.unresolved is not None)
    after = world.changing(epoch=number, running=number, granted=False)._replace(round=current, turn="ours")
    return f"round {number} is assigned", after


def round_steps(size: Size, world: World, current: Round) -> Iterator[Step]:
    """Yields the next possible steps of a round's tierer."""
    who = f"round {current.id}"
    match current.step:
        case "assigned" if size.has(SharedRule.CLUSTER_FIRST):
            read = current._replace(step="read", cluster=world.recorded())
            yield f"{who} reads the cluster's record", world._replace(round=read)
        case "assigned":
            yield f"{who} reads the lake", world._replace(round=current._replace(step="read", lake=world.lake))
        case "read":
            yield base_read(size, world, current)
        case "adopting" | "landed":
            if world.ack is None and world.call is None:  # the table's lock
                yield f"{who} calls the coordinator", world._replace(ack=Ack(current.id))
        case "planned":
            yield send(size, world, current, current.stop)
            if world.faults and "stop early" in size.fault_actions and may_stop(size, current):
                yield send(size, world._replace(faults=world.faults - 1), current, current.begin + 1)
        case "sent":
            yield look_again(size, world, current)


def may_stop(size: Size, current: Round) -> bool:
    """Whether a round that takes too long commits what it has: not one that replays."""
    replays = current.stand is not None and current.stand.moved_back and size.has(SharedRule.WHOLE_REPLAY)
    return current.stop - current.begin > 1 and not current.from_snapshot and not replays


def base_read(size: Size, world: World, current: Round) -> Step:
    """`steps_to_write.base_read`."""
    cluster = current.cluster if size.has(SharedRule.CLUSTER_FIRST) else world.recorded()
    stand = stand_of(look(size, world, current.known, cluster, current.lake))
    if isinstance(stand, Refusal):
        return f"round {current.id} is refused by the base check: {stand.error}", fail(size, world, current, stand)
    based = current._replace(stand=stand, cluster=cluster, lake=None)
    if stand.ahead and stand.mark is not None and stand.newest is not None:
        adopting = world._replace(round=based._replace(step="adopting"))
        return f"round {current.id} passes the base check at {stand.end}: the lake is ahead of what is recorded", adopting
    return read_log(size, world, based)


def read_log(size: Size, world: World, current: Round) -> Step:
    """`steps_to_write.log_read`."""
    stand = current.stand
    assert stand is not None
    ranges = None if stand.end is None else (stand.start or 0, stand.end)
    plan = planned(ranges, world.log, size.kv_snapshots)
    if isinstance(plan, Refusal):
        return f"round {current.id} is refused by its log: {plan.error}", fail(size, world, current, plan)
    has_to_commit = stand.needs_commit or (current.unresolved and size.has(SharedRule.NEVER_EMPTY))
    if plan.begin == plan.stop and not plan.from_snapshot and not has_to_commit:
        return f"round {current.id} has nothing to tier and ends", look_at_head(size, finish(size, world, current))
    begun = current._replace(step="planned", begin=plan.begin, stop=plan.stop, start=plan.start, from_snapshot=plan.from_snapshot)
    return f"round {current.id} plans [{plan.begin}, {plan.stop})", world._replace(round=begun)


def look_at_head(size: Size, world: World) -> World:
    """`Commits.look_at_heads`, for the head that an EMPTY round passed: the coordinator looks itself."""
    stand = stand_of(look(size, world, world.known(), world.recorded()))
    if isinstance(stand, Refusal) or stand.head is None or stand.ahead:
        return world
    return world.changing(passed_head=stand.head)


def send(size: Size, world: World, current: Round, stop: int) -> Step:
    """`lake_ensured`, the splits, `Commits.begin_lake_commit` and `send_commit`: what is between them the compare-and-set decides."""
    who = f"round {current.id}"
    assert current.stand is not None
    stand = same_stand(current.stand, look(size, world, current.known, world.recorded()))
    if isinstance(stand, Refusal):
        return f"{who} meets another base before it writes: {stand.error}", fail(size, world, current, stand)
    if current.begin < world.log.start and not current.from_snapshot:
        return f"{who} does not find its records any more", fail(size, world, current, Refusal("", is_permanent=False))
    if world.record.running != current.id or world.turn != "ours":
        return f"{who} is fenced", fail(size, world, current, Refusal("Fenced", is_permanent=False))
    base = None if stand.mark is None else stand.mark.round_id
    mark = Mark(current.id, base, current.start, stop)
    file = OffsetsFile("summary", current.id, stop)
    sent = current._replace(step="sent", stand=stand, stop=stop, mark=mark, file=file)
    granted = world.changing(granted=True)._replace(cluster=world.cluster.with_file(file))
    return f"{who} sends its commit of [{current.begin}, {stop})", _sent(granted, sent)


def _sent(world: World, current: Round) -> World:
    assert current.stand is not None
    assert current.mark is not None
    assert current.file is not None
    span = current.begin, current.stop
    request = Request("round", current.stand.head, current.stand.tag, current.mark, current.file, *span, current.from_snapshot)
    requests = world.requests if request in world.requests else (*world.requests, request)
    return world._replace(requests=requests, round=current._replace(sent=current.sent + 1))


def look_again(size: Size, world: World, current: Round) -> Step:
    """The request failed, whatever the error: `steps_to_commit.commit_resolved`."""
    who = f"round {current.id} gets an error"
    assert current.stand is not None
    outcome = outcome_of(world.lake, current.id, current.stand)
    if outcome is CommitOutcome.OURS:
        return f"{who}, and finds its commit in the lake", world._replace(round=current._replace(step="landed"))
    if outcome is CommitOutcome.OTHER_ROUND or current.sent >= COMMIT_ATTEMPTS:
        return f"{who}, and gives up", fail(size, world, current, Refusal("", is_permanent=False))
    stand = same_stand(current.stand, look(size, world, current.known, world.recorded()))
    if isinstance(stand, Refusal):
        return f"{who}, and meets another base: {stand.error}", fail(size, world, current, stand)
    return f"{who}, and sends its commit again", _sent(world, current._replace(stand=stand))


def deliver(size: Size, world: World, request: Request) -> Step:
    """A commit request reaches the catalog: the compare-and-set."""
    who = f"the commit of {request.kind} {request.mark.round_id} arrives"
    after, lake = world._replace(requests=tuple(other for other in world.requests if other is not request)), world.lake
    if (lake.head, lake.tag) != (request.head, request.tag):
        return f"{who} and is refused", after
    rows = lake.rows
    if request.from_snapshot:
        rows = world.log.truth(request.stop)
    elif request.kind == "round":
        rows = world.log.folded(rows, request.begin, request.stop)
    elif request.removes:
        ceiling = request.ceiling
        kept = sorted(set(rows)) if not world.log.keyed else []
        rows = tuple(row for row in kept if ceiling is None or row[1] < ceiling)
    author = "ours" if request.kind == "round" or size.has(SharedRule.COMMIT_USER) else "user"
    landed = lake.with_snapshot(Snapshot(0, None, author, rows, request.file, request.mark))
    after = invariants.certified(after._replace(lake=landed), request)
    return f"{who} and lands as snapshot {landed.head}", after


def finish(size: Size, world: World, current: Round, acked: bool = False) -> World:
    """`round_lifecycle.finish`."""
    return _ended(size, world, current, acked)


def fail(size: Size, world: World, current: Round, refusal: Refusal) -> World:
    """`round_lifecycle.fail`: a permanent error stays until a user acts."""
    ended = _ended(size, world, current, False)
    if not refusal.is_permanent or refusal.error == "Fenced" or world.record.running != current.id:
        return ended
    return invariants.borne_out(ended.changing(error=refusal.error, hints=refusal.hints))


def _ended(size: Size, world: World, current: Round, acked: bool) -> World:
    after, record = world._replace(round=None), world.record
    if record.running != current.id:
        return after
    unresolved = current.id if record.granted and not acked else record.unresolved
    return given_back(size, after.changing(running=None, granted=False, unresolved=unresolved))


def given_back(size: Size, world: World) -> World:
    """`round_lifecycle.end_assignment` and `assignments.report_of`: our turn ends, unless something keeps it."""
    is_unresolved = world.record.unresolved is not None and size.has(SharedRule.KEEPS_TABLE)
    is_being_notified = world.ack is not None and world.ack.step == "prepared" and size.has(SharedRule.TOLD_IN_TURN)
    is_ours = world.record.running is not None or is_unresolved or is_being_notified
    return world if is_ours or world.turn != "ours" else world._replace(turn="")
