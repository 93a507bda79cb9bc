"""Actions of users on the lake table, retention, failures, and `CALL sys.reconcile_lake`."""

from __future__ import annotations

from collections.abc import Iterator

from faults.model.shared import invariants, statements
from faults.model.shared.coordinator import telling_file
from faults.model.shared.flink import Step
from faults.model.shared.lake_table import Mark, OffsetsFile, Snapshot
from faults.model.shared.looks import Own, Refusal
from faults.model.shared.rounds import fail, look
from faults.model.shared.rules import SharedRule
from faults.model.shared.world import Request, Size, World

ACTIONS = ("retier", "deduplicate", "accept", "adopt")


def steps(size: Size, world: World) -> Iterator[Step]:
    """Everything that users, retention and faults may do next."""
    if world.log.end < len(size.records) - 1:
        yield write(world)
    if world.users:
        spent = world._replace(users=world.users - 1)
        for name, act in USER_ACTIONS.items():
            if name in size.user_actions:
                yield from act(spent)
        if "reconcile" in size.user_actions and world.record.error:
            for action in ACTIONS:
                yield from begin_reconcile(size, spent, action)
    if world.call is not None:
        yield end_reconcile(size, world, world.call)
    if world.faults:
        yield from faults(size, world._replace(faults=world.faults - 1))


def write(world: World) -> Step:
    """The log grows by a record."""
    return f"the log grows to {world.log.end + 1}", world._replace(log=world.log._replace(end=world.log.end + 1))


def faults(size: Size, world: World) -> Iterator[Step]:
    """Yields failures on our side."""
    actions = size.fault_actions
    if world.round is not None and "tierer dies" in actions:
        yield f"the tierer of round {world.round.id} dies", fail(size, world, world.round, Refusal("", is_permanent=False))
    if "request is lost" in actions:
        for request in world.requests:
            requests = tuple(other for other in world.requests if other is not request)
            yield f"the commit of {request.kind} {request.mark.round_id} is lost", world._replace(requests=requests)
    if world.turn == "ours" and "lapse" in actions and not size.strict:
        fenced = world if world.record.granted else world.changing(running=None)
        yield "the cluster takes us for dead", fenced._replace(turn="")
    if world.call is not None and "coordinator dies" in actions:
        yield "the coordinator dies and starts again", world._replace(call=None)


def compact(world: World) -> Iterator[Step]:
    """A user's compaction: the same rows in files of its own."""
    if world.lake.rows:
        yield "a user compacts the lake table", world._replace(lake=world.lake.with_snapshot(Snapshot(0, None, "user", world.lake.rows)))


def expire(world: World) -> Iterator[Step]:
    """A user expires all snapshots but the head and the one that the tag keeps."""
    kept = tuple(snapshot for snapshot in world.lake.snapshots if snapshot.id in (world.lake.head, world.lake.tag))
    if len(kept) < len(world.lake.snapshots):
        yield "a user expires old snapshots", world._replace(lake=world.lake._replace(snapshots=kept), facts=world.facts | {"expired"})


def roll_back(world: World) -> Iterator[Step]:
    """A user sets the main branch on the snapshot before."""
    head = world.lake.snapshot(world.lake.head)
    if head is not None and world.lake.snapshot(head.parent) is not None:
        rolled = world.lake._replace(head=head.parent)
        yield "a user rolls the lake table back", world._replace(lake=rolled, facts=world.facts | {"rolled back"})


def delete(world: World) -> Iterator[Step]:
    """A user deletes the oldest row, on purpose."""
    if world.lake.rows and not world.log.keyed:
        _, offset = world.lake.rows[0]
        left = tuple(row for row in world.lake.rows if row[1] != offset)
        lake = world.lake.with_snapshot(Snapshot(0, None, "user", left))
        yield f"a user deletes the row {offset}", world._replace(lake=lake, excused=world.excused | {offset})


def cut(world: World) -> Iterator[Step]:
    """Retention, no user: it follows the highest end that the cluster was ever told."""
    start = min(world.cluster.highest, world.log.end)
    if start <= world.log.start:
        return
    lost = sorted(offset for _, offset in set(world.log.truth(start)) - set(world.lake.rows) if offset not in world.excused)
    broken = f"rows are lost: retention cut the log to {start}, and the lake lacks {lost}" if lost and not world.log.keyed else ""
    after = world._replace(log=world.log._replace(start=start), facts=world.facts | {"cut"}, broken=broken)
    yield f"retention cuts the log to {start}", after


USER_ACTIONS = {"compact": compact, "expire": expire, "roll back": roll_back, "delete": delete, "cut": cut}


def begin_reconcile(size: Size, world: World, action: str) -> Iterator[Step]:
    """`Reconciler._decide` and `_carry_out` to where its commit is sent. Nothing if it is refused."""
    record = world.record
    if world.call is not None or world.ack is not None or (record.running is not None and record.granted):
        return
    at = look(size, world, world.known(), world.recorded())
    decision = statements.decided(action, at, record.marker_tells, size.kv_snapshots)
    if isinstance(decision, Refusal):
        return
    if decision is None:
        yield f"a user calls {action}, and nothing is wrong any more", world.changing(error="", hints=())
        return
    number, mark = record.epoch + 1, world.lake.marker
    claimed = world.changing(epoch=number, running=None, granted=False)
    if action == "accept" and decision.left_out != 0:
        claimed = claimed.changing(marker_tells=False)
    file = statement_file(size, world, number, decision.end)
    wanted = Mark(number, None if mark is None else mark.round_id, decision.start, decision.end)
    request = Request(action, world.lake.head, world.lake.tag, wanted, file, removes=decision.removes, ceiling=decision.ceiling)
    cluster = world.cluster.with_file(file) if file.number == number else world.cluster
    sent = claimed._replace(requests=(*world.requests, request), call=request, cluster=cluster)
    if action in ("accept", "adopt"):
        sent = sent._replace(broken=invariants.counted(world, decision.end, decision.left_out))
    yield f"a user calls {action}, which sends a marker at {decision.end}", sent


def statement_file(size: Size, world: World, number: int, end: int | None) -> OffsetsFile:
    """The offsets file that the commit of a statement names."""
    head = world.lake.snapshot(world.lake.head)
    if size.has(SharedRule.FRESH_FILE) or head is None or head.file is None:
        return OffsetsFile("summary", number, end)
    return head.file


def end_reconcile(size: Size, world: World, call: Request) -> Step:
    """`Reconciler._read_again` and `_settle`: what became of it stands in the lake."""
    after, lake = world._replace(call=None), world.lake
    landed = any(snapshot.mark is not None and snapshot.mark.round_id == call.mark.round_id for snapshot in lake.snapshots)
    if not landed or lake.marker is None or lake.tag is None:
        return f"{call.kind} does not find its commit in the lake", after
    own = Own(lake.tag, lake.marker.tiered, False, lake.marker.round_id)
    tells = world.record.marker_tells or call.kind == "retier"
    passed = lake.tag if size.has(SharedRule.OWN_COMMIT_PASSED) else lake.head
    known = after.changing(own=own, passed_head=passed, unresolved=None, marker_tells=tells, error="", hints=())
    cluster, (has, _) = world.cluster, world.recorded()
    in_turn = world.turn == "ours" or not size.has(SharedRule.TOLD_IN_TURN)
    if in_turn and (has is None or (has.snapshot_id, has.end) != (own.snapshot_id, own.end)):
        file, keep = telling_file(size, world, lake.tag, lake.marker.tiered, lake)
        cluster = (cluster if file in lake.files else cluster.with_file(file)).registering(lake.tag, file, keep)
    return f"{call.kind} finds its commit{', and tells the cluster' if in_turn else ''}", known._replace(cluster=cluster)
