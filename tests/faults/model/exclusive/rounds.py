"""What tierers and coordinator do, a step at a time, and the commit requests on their way (DESIGN 6 steps 1-9).

A step is atomic: nothing comes between what stands in one function. Each mirrors a place in the product's code, which it names.
"""

from __future__ import annotations

from collections.abc import Iterator

from faults.model.exclusive import invariants
from faults.model.exclusive.lake_states import (
    Checked,
    Copy,
    LakeTable,
    Mark,
    Split,
    base_check,
    committed_splits,
    file_of,
    goes_on,
    refused_at_last_gate,
    refused_by_log,
    resolved,
    same_base,
)
from faults.model.exclusive.rules import Rule
from faults.model.exclusive.world import Grant, Record, Request, Round, Size, Telling, World

from tiering.lake.rules.base_check import CommitOutcome

TIERERS = 2
COMMIT_ATTEMPTS = 2
"""`steps_to_commit.COMMIT_ATTEMPTS` is 5; the third does nothing that the second does not."""

NOBODY = 0
"""The round that hears of an ack whose answer is lost: its tierer acks again."""

Step = tuple[str, World]


def steps(size: Size, world: World) -> Iterator[Step]:
    """Everything that tierers, coordinator and network may do next."""
    if world.rounds_left and can_assign(world):
        yield assign(world)
    for current in world.rounds:
        yield from round_steps(size, world, current)
    for request in world.requests:
        yield deliver(size, world, request)
        if world.faults and "repeat" in size.fault_actions:
            yield deliver(size, world._replace(faults=world.faults - 1), request, stays=True)
        if world.faults and "lost request" in size.fault_actions:
            yield lose(world._replace(faults=world.faults - 1), request)
    if world.telling is not None:
        yield tell(world, world.telling)
        if world.faults and "lost answer" in size.fault_actions:
            step, after = tell(world._replace(faults=world.faults - 1), world.telling._replace(round_id=NOBODY))
            yield f"{step}, and the tierer does not get the answer", after


def can_assign(world: World) -> bool:
    """Whether the table waits for a tierer, and a tierer for a table."""
    return world.record.running is None and not world.record.error and len(world.rounds) < TIERERS and world.call is None


def assign(world: World) -> Step:
    """`round_lifecycle.assign`: the epoch grows, and what is on record goes along."""
    number, epoch = world.next_round, world.record.epoch + 1
    record = world.record._replace(epoch=epoch, running=number, granted=False)
    rounds = (*world.rounds, Round(number, world.known(), epoch))
    return (
        f"round {number} is assigned, with epoch {epoch}",
        world._replace(record=record, rounds=rounds, next_round=number + 1, rounds_left=max(0, world.rounds_left - 1)),
    )


def round_steps(size: Size, world: World, current: Round) -> Iterator[Step]:
    """What a round's tierer may do next."""
    match current.phase:
        case "assigned":
            yield read_base(size, world, current)
        case "adopting" | "landed":
            if world.telling is None and world.call is None:  # the table's lock (`Commits.acknowledge`)
                yield ack(size, world, current)
        case "based":
            yield write(size, world, current)
            if world.faults and "stop early" in size.fault_actions and world.log_end - current.begin > 1:
                for stopped in (current.begin, world.log_end - 1):
                    yield write(size, world._replace(faults=world.faults - 1), current, stopped)
        case "written":
            yield begin_commit(size, world, current)
            if world.faults and "lost answer" in size.fault_actions:
                _, after = begin_commit(size, world, current)
                if after.record != world.record:
                    lost = world._replace(record=after.record, faults=world.faults - 1)
                    yield f"round {current.id} is granted its commit, and the answer is lost", lost
        case "granted":
            yield send(size, world, current)
        case "sent":
            yield look(size, world, current)


def read_base(size: Size, world: World, current: Round) -> Step:
    """`steps_to_write.base_read`, and `log_read` for a base that need not be adopted first."""
    checked = base_check(world.lake, current.known, size.rules)
    if isinstance(checked, str):
        return f"round {current.id} is refused by the base check: {checked}", fail(world, current, checked)
    based = current._replace(base=checked.lake)
    untold = current.known.cluster is None
    if checked.lake is not None and checked.lake.marker is not None and (checked.ahead or untold) and size.has(Rule.ADOPT):
        adopting = based._replace(phase="adopting")
        return f"round {current.id} passes the base check: the lake is ahead of the records", world.with_round(current, adopting)
    return read_log(world, current, based)


def read_log(world: World, before: Round, current: Round) -> Step:
    """`steps_to_write.log_read`: nothing to do, or where the round begins."""
    marker = None if current.base is None else current.base.marker
    begin = world.log_start if marker is None else marker.tiered
    if refusal := refused_by_log(begin, (world.log_start, world.log_end)):
        return f"round {current.id} is refused by its log: {refusal}", fail(world, before, refusal)
    if begin >= world.log_end:
        ended = end(world, before)
        if world.record.running == current.id and current.base is not None and current.base.head is not None:
            # The coordinator looks itself before it records the head (`Commits.look_at_heads`).
            checked = base_check(world.lake, world.known(), frozenset(Rule))
            if isinstance(checked, Checked) and checked.lake is not None and not checked.ahead:
                ended = ended._replace(record=ended.record._replace(passed_head=checked.lake.head))
        return f"round {current.id} has nothing to tier and ends", ended
    planned = current._replace(phase="based", begin=begin)
    return f"round {current.id} plans the offsets [{begin}, {world.log_end})", world.with_round(before, planned)


def write(size: Size, world: World, current: Round, stopped: int | None = None) -> Step:
    """`lake_ensured`, `Commits.record_plan` and the splits, a record a split; the one at the offset `stopped` did not end."""
    lake = world.lake or LakeTable(world.next_uuid)
    checked = same_base(current.base, lake, current.known, size.rules)
    made_sure = world._replace(lake=lake, next_uuid=world.next_uuid + (world.lake is None))
    if isinstance(checked, str):
        return f"round {current.id} meets another base before it writes: {checked}", fail(made_sure, current, checked)
    if not owns(made_sure.record, current):
        return f"round {current.id} is fenced before it writes", end(made_sure, current)
    splits: tuple[Split, ...] = tuple((offset, offset + 1) for offset in range(current.begin, world.log_end) if offset != stopped)
    kept, reached = committed_splits(splits, current.begin, size.rules)
    written = current._replace(phase="written", base=checked.lake, splits=kept)
    record = made_sure.record._replace(uuid=lake.uuid)
    after = made_sure._replace(files=made_sure.files | {file_of(current.id)}, record=record)
    if not kept:
        return f"round {current.id} is stopped before its first split ends, and commits nothing", fail(after, current, "", deletes=True)
    base = None if lake.marker is None else lake.marker.round_id
    start = current.begin if lake.marker is None else lake.marker.start
    mark = Mark(current.id, current.known.table_id, lake.uuid, current.epoch, base, start, reached)
    how = "" if stopped is None else f", and {stopped} is stopped"
    return f"round {current.id} writes the splits {[first for first, _ in splits]}{how}", after.with_round(
        current, written._replace(mark=mark)
    )


def owns(record: Record, current: Round) -> bool:
    """`round_lifecycle.is_current`."""
    return (record.running, record.epoch, record.table_id) == (current.id, current.epoch, current.known.table_id)


def begin_commit(size: Size, world: World, current: Round) -> Step:
    """`Commits.begin_lake_commit` and `round_lifecycle.grant`: the fence."""
    assert current.base is not None
    record = world.record
    if size.has(Rule.FENCE) and not owns(record, current):
        return f"round {current.id} is fenced, and deletes its file", fail(world, current, "", deletes=True)
    grant = Grant(current.id, current.base.tag, current.base.uuid)
    if current.known.table_id == record.table_id and grant not in record.ledger:
        record = record._replace(ledger=(*record.ledger, grant), granted=record.granted or record.running == current.id)
    return f"round {current.id} is granted its commit", world._replace(record=record).with_round(current, current._replace(phase="granted"))


def send(size: Size, world: World, current: Round) -> Step:
    """`steps_to_commit.send_commit`, behind the last gate (`commit_check`)."""
    assert current.base is not None
    assert current.mark is not None
    if size.last_gate and refused_at_last_gate(current.splits, current.base, current.mark):
        return f"round {current.id} is refused at the last gate", fail(world, current, "", deletes=not current.sent)
    request = Request("round", current.base.uuid, current.base.head, current.base.tag, current.splits, current.mark)
    requests = world.requests if request in world.requests else (*world.requests, request)
    sent = current._replace(phase="sent", sent=current.sent + 1)
    return f"round {current.id} sends its commit", world._replace(requests=requests).with_round(current, sent)


def deliver(size: Size, world: World, request: Request, *, stays: bool = False) -> Step:
    """A commit request reaches the catalog: the compare-and-set."""
    who = f"the commit of {request.kind} {request.mark.round_id} arrives"
    who += ", a copy of it stays on its way," if stays else ""
    requests = tuple(other for other in world.requests if stays or other is not request)
    after, lake = world._replace(requests=requests), world.lake
    conditions = ((Rule.UUID, "uuid"), (Rule.HEAD, "head"), (Rule.TAG, "tag"))
    if lake is None or any(size.has(rule) and getattr(lake, name) != getattr(request, name) for rule, name in conditions):
        return f"{who} and is refused", after
    rows = tuple((request.mark.table_id, offset) for start, stop in request.splits for offset in range(start, stop))
    head = lake.snapshot(lake.head)
    files = (frozenset[str]() if head is None else head.files) | ({file_of(request.mark.round_id)} if request.splits else frozenset())
    landed = lake.with_snapshot((*lake.rows, *rows), files, request.mark)
    removed = world.removed
    if request.kind != "round":  # a user says that the lake is right as it is
        marked = {(request.mark.table_id, offset) for offset in range(request.mark.start, request.mark.tiered)}
        removed = removed | marked - set(landed.rows)
    broken = invariants.landed(lake, landed, request.mark, removed) or invariants.files_kept((landed,), world.files)
    return f"{who} and lands as snapshot {landed.head}", after._replace(lake=landed, removed=removed, broken=broken)


def lose(world: World, request: Request) -> Step:
    """A commit request never arrives."""
    requests = tuple(other for other in world.requests if other is not request)
    return f"the commit of {request.kind} {request.mark.round_id} is lost", world._replace(requests=requests)


def look(size: Size, world: World, current: Round) -> Step:
    """The request failed, whatever the error: `steps_to_commit.commit_resolved` reads the lake again."""
    base, lake = current.base, world.lake
    assert base is not None
    assert current.mark is not None
    if not size.has(Rule.UNKNOWN):
        return _send_again_on_new_base(world, current)
    outcome = resolved(lake, current.id, base)
    who = f"round {current.id} gets an error"
    if outcome is CommitOutcome.OURS:
        return f"{who}, and finds its commit in the lake", world.with_round(current, current._replace(phase="landed"))
    given_up = not size.has(Rule.KEEP_FILES)
    if outcome is CommitOutcome.OTHER_ROUND:
        return f"{who}: another round tiered first", fail(world, current, "", deletes=given_up)
    if current.sent >= COMMIT_ATTEMPTS:
        return f"{who}, and gives up", fail(world, current, "", deletes=given_up)
    checked = same_base(base, lake, current.known, size.rules)
    if isinstance(checked, str):
        problem = "" if checked == "Fenced" else checked
        return f"{who}, and meets another base: {checked}", fail(world, current, problem, deletes=given_up)
    again = current._replace(phase="granted", base=checked.lake)
    return f"{who}, and does not find its commit in the lake", world.with_round(current, again)


def _send_again_on_new_base(world: World, current: Round) -> Step:
    """Without the rule: the error is believed, and the same files are sent on whatever the lake is by now, as libraries do."""
    if world.lake is None or current.sent >= COMMIT_ATTEMPTS or current.mark is None:
        return f"round {current.id} gets an error, and gives up", fail(world, current, "")
    base = world.lake.trimmed()
    mark = current.mark._replace(base=None if base.marker is None else base.marker.round_id)
    again = current._replace(phase="granted", base=base, mark=mark)
    return f"round {current.id} gets an error, takes it for a refusal, and builds on the new head", world.with_round(current, again)


def ack(size: Size, world: World, current: Round) -> Step:
    """`Commits.acknowledge` and `lake_acks.record_contents`: the coordinator reads the lake itself, and records what that holds."""
    who = f"the ack of round {current.id} reaches the coordinator"
    record = world.record
    if current.known.table_id != record.table_id:
        return f"{who}, and its table is gone", end(world, current)
    if not size.has(Rule.ACKS) and current.mark is not None and current.base is not None:
        return f"{who}, which believes it", world._replace(telling=Telling(Copy(current.base.head or 0, current.mark.tiered), current.id))
    checked = base_check(world.lake, world.known(), size.rules)
    if isinstance(checked, str):
        return f"{who}, which refuses the lake: {checked}", fail(world, current, checked)
    lake = checked.lake
    if lake is None or lake.marker is None or lake.tag is None:
        return f"{who}, which finds nothing that was committed", end(world, current)
    copy = Copy(lake.tag, lake.marker.tiered)
    ledger = tuple(grant._replace(landed=grant.landed or grant.round_id == lake.marker.round_id) for grant in record.ledger)
    known = record._replace(uuid=lake.uuid, passed_head=lake.head, copy=copy, ledger=ledger)
    return f"{who}, which records snapshot {copy.snapshot_id}", world._replace(record=known, telling=Telling(copy, current.id))


def tell(world: World, telling: Telling) -> Step:
    """`Commits._tell_cluster`, and the answer to the tierer."""
    after, current = world._replace(telling=None), world.round_of(telling.round_id)
    if world.cluster is not None and not goes_on(world.cluster, telling.copy):
        if current is not None:
            after = fail(after, current, "RecordAheadOfLake") if current.phase == "adopting" else end(after, current)
        return f"the cluster refuses to be told of snapshot {telling.copy.snapshot_id}: it has more", after
    after = after._replace(cluster=telling.copy)
    lake = after.lake
    tiered = 0 if lake is None or lake.marker is None else lake.marker.tiered
    if lake is not None and lake.uuid == after.record.uuid and telling.copy.tiered > tiered:
        after = after._replace(broken=f"the cluster is told of {telling.copy.tiered} offsets, and the lake's marker says {tiered}")
    if current is not None and current.phase == "adopting":
        checked = current._replace(known=current.known._replace(own=telling.copy, cluster=telling.copy))
        step, after = read_log(after, current, checked)
        return f"the cluster is told of snapshot {telling.copy.snapshot_id}; {step}", after
    if current is not None:
        after = end(after, current)
    return f"the cluster is told of snapshot {telling.copy.snapshot_id}", after


def end(world: World, current: Round) -> World:
    """`round_lifecycle.finish`: the round is over, and its report arrives."""
    return _ended(world, current, "")


def fail(world: World, current: Round, error: str, *, deletes: bool = False) -> World:
    """`round_lifecycle.fail`. A permanent error stays until a user acts; `deletes`: the round's own file goes."""
    after = _ended(world, current, "" if error == "Fenced" else error)
    if not deletes:
        return after
    files = after.files - {file_of(current.id)}
    return after._replace(files=files, broken=after.broken or invariants.files_kept((after.lake, *after.others), files))


def _ended(world: World, current: Round, error: str) -> World:
    after = world.with_round(current, None)
    if not owns(world.record, current):
        return after
    record = world.record._replace(running=None, granted=False, error=error, ended=world.record.ended | {current.id})
    return after._replace(record=record)
