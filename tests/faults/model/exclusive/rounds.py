"""The steps of tierers and coordinator, and the commit requests on their way (DESIGN 6 steps 1-9).

A step is atomic: nothing comes between what stands in one function. Each mirrors a place in the product's code, which it names.
"""

from __future__ import annotations

from collections.abc import Iterator

from faults.model.exclusive import invariants, messages, upkeep
from faults.model.exclusive.lake_states import (
    Copy,
    DataFile,
    LakeTable,
    Mark,
    Row,
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
from faults.model.exclusive.world import NO_RECEIVER, Grant, Message, Request, Round, Size, Step, Telling, World

from tiering.lake.rules.base_check import CommitOutcome

TIERERS = 2
RECONCILED = ("retier", "accept")
"""Kinds of requests that are reconciliations."""
COMMIT_ATTEMPTS = 2
"""`steps_to_commit.COMMIT_ATTEMPTS` is 5; the third does nothing that the second does not."""


def steps(size: Size, world: World) -> Iterator[Step]:
    """Everything that tierers, coordinator and network may do next."""
    if world.rounds_left and can_assign(world):
        yield assign(world)
        if "rounds" in size.upkeep and world.lake is not None:
            yield assign(world, is_upkeep=True)
    if not (world.record.granted and size.has(Rule.UPKEEP_CANCEL)):
        yield from upkeep.cancel(world)
    for current in world.rounds:
        yield from round_steps(size, world, current)
    for request in world.requests:
        yield deliver(size, world, request)
        if world.faults and "repeat" in size.fault_actions:
            yield deliver(size, world._replace(faults=world.faults - 1), request, stays=True)
        if world.faults and "lost request" in size.fault_actions:
            yield lose(world._replace(faults=world.faults - 1), request)
    if world.telling is not None:
        yield tell(size, world, world.telling)
        if world.faults and "lost answer" in size.fault_actions:
            step, after = tell(size, world._replace(faults=world.faults - 1), world.telling._replace(round_id=NO_RECEIVER))
            yield f"{step}, and the tierer does not get the answer", after


def can_assign(world: World) -> bool:
    """Whether the table waits for a tierer, and a tierer for a table."""
    return world.record.running is None and not world.record.error and len(world.rounds) < TIERERS and world.call is None


def assign(world: World, *, is_upkeep: bool = False) -> Step:
    """`round_lifecycle.assign`: the epoch grows, and what is on record goes along."""
    number, epoch = world.next_round, world.record.epoch + 1
    record = world.record._replace(epoch=epoch, running=number, granted=False, is_upkeep=is_upkeep)
    rounds = (*world.rounds, Round(number, world.known(), epoch, is_upkeep=is_upkeep))
    return (
        f"{'upkeep ' if is_upkeep else ''}round {number} is assigned, with epoch {epoch}",
        world._replace(record=record, rounds=rounds, next_round=number + 1, rounds_left=max(0, world.rounds_left - 1)),
    )


def round_steps(size: Size, world: World, current: Round) -> Iterator[Step]:
    """Yields the next possible steps of a round's tierer."""
    match current.phase:
        case "assigned":
            yield read_base(size, world, current)
        case "adopting" | "landed":
            if not world.is_locked:
                yield ack(size, world, current)
            yield from calls_that_fail(size, world, current, ack_of(current))
        case "based":
            if current.is_upkeep:
                yield rewrite(size, world, current)
                return
            yield write(size, world, current)
            if world.faults and "stop early" in size.fault_actions and world.log_end - current.begin > 1:
                for stopped in (current.begin, world.log_end - 1):
                    yield write(size, world._replace(faults=world.faults - 1), current, stopped)
        case "written":
            if current.is_upkeep and not size.has(Rule.UPKEEP_FENCE):
                yield (
                    f"upkeep round {current.id} goes on without a grant",
                    world.with_round(current, current._replace(phase="granted")),
                )
                return
            yield begin_commit(size, world, current)
            if world.faults and "lost answer" in size.fault_actions:
                _, after = begin_commit(size, world, current)
                if after.record != world.record:
                    lost = world._replace(record=after.record, faults=world.faults - 1)
                    yield f"round {current.id} is granted its commit, and the answer is lost", lost
            yield from calls_that_fail(size, world, current, grant_request_of(current))
            if world.faults and size.has_late_messages:
                plan = grant_request_of(current)._replace(kind="plan")
                yield f"a copy of {plan} is late", world._replace(faults=world.faults - 1).with_late_copy(plan)
        case "granted":
            yield send(size, world, current)
        case "sent":
            yield look(size, world, current)


def calls_that_fail(size: Size, world: World, current: Round, message: Message) -> Iterator[Step]:
    """A call to the coordinator that does not arrive now, and is repeated; or one that is answered with an error, and given up."""
    if not world.faults:
        return
    spent = world._replace(faults=world.faults - 1)
    if size.has_late_messages:
        yield f"a copy of {message} is late", spent.with_late_copy(message)
    if "given up" in size.fault_actions:
        step = f"round {current.id} gives up its {message.kind}"
        if current.phase == "landed":  # the lake has it (`machine._action_failed`)
            yield step, end(size, spent, current)
        else:
            yield step, fail(size, spent, current, "", deletes=current.phase == "written")


def read_base(size: Size, world: World, current: Round) -> Step:
    """`steps_to_write.base_read`, and `log_read` for a base that need not be adopted first."""
    checked = base_check(world.lake, current.known, size.rules)
    if isinstance(checked, str):
        return f"round {current.id} is refused by the base check: {checked}", fail(size, world, current, checked)
    based = current._replace(base=checked.lake)
    untold = current.known.cluster is None
    if checked.lake is not None and checked.lake.marker is not None and (checked.ahead or untold) and size.has(Rule.ADOPT):
        adopting = based._replace(phase="adopting", claim=claim_of(checked.lake))
        return f"round {current.id} passes the base check: the lake is ahead of the records", world.with_round(current, adopting)
    return read_log(size, world, current, based)


def read_log(size: Size, world: World, before: Round, current: Round) -> Step:
    """`steps_to_write.log_read`: nothing to do, or where the round begins."""
    marker = None if current.base is None else current.base.marker
    if current.is_upkeep and marker is not None:
        planned = current._replace(phase="based", begin=marker.tiered)
        return f"upkeep round {current.id} plans its rewrite", world.with_round(before, planned)
    begin = world.log_start if marker is None else marker.tiered
    if refusal := refused_by_log(begin, (world.log_start, world.log_end)):
        return f"round {current.id} is refused by its log: {refusal}", fail(size, world, before, refusal)
    if begin >= world.log_end:
        passed = current.base is not None and current.base.head is not None
        return f"round {current.id} has nothing to tier and ends", end(size, world, before, passed=passed)
    planned = current._replace(phase="based", begin=begin)
    return f"round {current.id} plans the offsets [{begin}, {world.log_end})", world.with_round(before, planned)


def write(size: Size, world: World, current: Round, stopped: int | None = None) -> Step:
    """`lake_ensured`, `Commits.record_plan` and the splits, a record a split; the one at the offset `stopped` did not end."""
    makes = world.lake is None and current.base is None
    lake = LakeTable(world.next_uuid) if makes else world.lake
    checked = same_base(current.base, lake, current.known, size.rules)
    made_sure = world._replace(lake=lake, next_uuid=world.next_uuid + makes)
    if lake is None or isinstance(checked, str):
        assert isinstance(checked, str), "one that had a lake table misses it"
        return f"round {current.id} meets another base before it writes: {checked}", fail(size, made_sure, current, checked)
    if not messages.owns(made_sure.record, current.ref):
        return f"round {current.id} is fenced before it writes", end(size, made_sure, current)
    splits: tuple[Split, ...] = tuple((offset, offset + 1) for offset in range(current.begin, world.log_end) if offset != stopped)
    kept, reached = committed_splits(splits, current.begin, size.rules)
    written = current._replace(phase="written", base=checked.lake, splits=kept)
    record = made_sure.record._replace(uuid=lake.uuid)
    after = made_sure._replace(files=made_sure.files | {file_of(current.id)}, record=record)
    if "merge" in size.upkeep and (merged := upkeep.rewrite_of(lake, current.id)) is not None:
        written = written._replace(rewrite=merged)
        after = after._replace(files=after.files | {merged.file.name})
    if not kept:
        step = f"round {current.id} is stopped before its first split ends, and commits nothing"
        return step, fail(size, after, current, "", deletes=True)
    base = None if lake.marker is None else lake.marker.round_id
    start = current.begin if lake.marker is None else lake.marker.start
    mark = Mark(current.id, current.known.table_id, lake.uuid, current.epoch, base, start, reached)
    how = "" if stopped is None else f", and {stopped} is stopped"
    return f"round {current.id} writes the splits {[first for first, _ in splits]}{how}", after.with_round(
        current, written._replace(mark=mark)
    )


def rewrite(size: Size, world: World, current: Round) -> Step:
    """An upkeep round rewrites files of its base (`TableUpkeep.plan_upkeep`, `FileRewriter.rewrite`); its marker has the base's offsets."""
    lake, who = world.lake, f"upkeep round {current.id}"
    checked = same_base(current.base, lake, current.known, size.rules)
    if lake is None or isinstance(checked, str):
        assert isinstance(checked, str), "one that had a lake table misses it"
        return f"{who} meets another base before it writes: {checked}", fail(size, world, current, checked)
    base = lake.marker
    assert base is not None
    planned = upkeep.rewrite_of(lake, current.id)
    if planned is None or not messages.owns(world.record, current.ref):
        return f"{who} has nothing to rewrite, or is fenced", end(size, world, current)
    tiered = base.tiered if size.has(Rule.UPKEEP_OFFSETS) else world.log_end
    mark = Mark(current.id, current.known.table_id, lake.uuid, current.epoch, base.round_id, base.start, tiered)
    written = current._replace(phase="written", base=checked.lake, rewrite=planned, mark=mark)
    after = world._replace(files=world.files | {planned.file.name})
    return f"{who} rewrites {len(planned.replaced)} files", after.with_round(current, written)


def grant_request_of(current: Round) -> Message:
    """The request for the grant of what the round wrote."""
    assert current.base is not None
    base = None if current.base.marker is None else current.base.marker.round_id
    return Message("request for the grant", current.ref, Grant(current.id, current.base.tag, current.base.uuid, base=base))


def begin_commit(size: Size, world: World, current: Round) -> Step:
    """A request for the grant arrives and is answered."""
    granted = messages.grant(size, world, grant_request_of(current))
    if granted is None:
        return f"round {current.id} is fenced, and deletes its file", fail(size, world, current, "", deletes=True)
    return f"round {current.id} is granted its commit", granted.with_round(current, current._replace(phase="granted"))


def send(size: Size, world: World, current: Round) -> Step:
    """`steps_to_commit.send_commit`, behind the last gate (`commit_check`) and the committer's look at its files."""
    assert current.base is not None
    assert current.mark is not None
    if size.last_gate and refused_at_last_gate(current.splits, current.base, current.mark, is_upkeep=current.is_upkeep):
        return f"round {current.id} is refused at the last gate", fail(size, world, current, "", deletes=not current.sent)
    if size.has(Rule.FILES_THERE) and current.splits and file_of(current.id) not in world.files:
        return f"round {current.id} misses its file before it sends its commit", fail(size, world, current, "", deletes=not current.sent)
    sequence = current.base.next_id if size.numbered else 0
    fitting = current.rewrite if current.rewrite is not None and upkeep.fits(size, world, current.rewrite, current.base) else None
    removed = upkeep.removed_at(size, world, current.base, is_repeated=current.sent > 0)
    request = Request(
        "upkeep round" if current.is_upkeep else "round",
        current.base.uuid,
        current.base.head,
        current.base.tag,
        current.splits,
        current.mark,
        sequence,
        fitting,
        removed,
        world.lake.tags if removed and world.lake is not None else frozenset(),
        bool(removed) and not current.is_upkeep and current.sent + 1 >= COMMIT_ATTEMPTS,
    )
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
    is_old = size.numbered and lake is not None and request.head is not None and lake.next_id > request.sequence
    if lake is None or is_old or any(size.has(rule) and getattr(lake, name) != getattr(request, name) for rule, name in conditions):
        return f"{who} and is refused", after
    if upkeep.refuses(size, lake, request):
        lost = f"the tiering round {request.mark.round_id} loses to the expiry in its own last request" if request.is_last else ""
        return f"{who} and is refused for the snapshots that expire with it", after._replace(broken=lost)
    rows = tuple((request.mark.table_id, offset) for start, stop in request.splits for offset in range(start, stop))
    added = (DataFile(file_of(request.mark.round_id), rows),) if request.splits else ()
    below = lake if request.rewrite is None else upkeep.with_rewrite(lake, request.rewrite)
    landed = below.with_snapshot((*below.data, *added), request.mark, below.deleted)
    removed = world.removed
    if request.removed:
        landed = landed.with_expired({row.id for row in landed.snapshots} - request.removed, forgets=False)
    if request.kind in RECONCILED:  # a user says that the lake is right as it is
        marked = {(request.mark.table_id, offset) for offset in range(request.mark.start, request.mark.tiered)}
        removed = removed | marked - set(landed.rows)
    broken = (
        invariants.landed(lake, landed, request.mark, removed)
        or invariants.files_kept((landed,), world.files)
        or invariants.stays_deleted(landed, world.deleted)
        or upkeep.tags_kept(landed)
    )
    deleted = frozenset[Row]() if request.kind in RECONCILED else world.deleted
    return f"{who} and lands as snapshot {landed.head}", after._replace(lake=landed, removed=removed, deleted=deleted, broken=broken)


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
        return _send_again_on_new_base(size, world, current)
    outcome = resolved(lake, current.id, base)
    who = f"round {current.id} gets an error"
    if outcome is CommitOutcome.OURS:
        return f"{who}, and finds its commit in the lake", world.with_round(current, current._replace(phase="landed", claim=claim_of(lake)))
    given_up = not size.has(Rule.KEEP_FILES)
    if outcome is CommitOutcome.OTHER_ROUND:
        tiered_first = 0 if lake is None or lake.marker is None else lake.marker.round_id
        if not current.is_upkeep and tiered_first in world.cancelled:
            world = world._replace(broken=f"the tiering round {current.id} loses to the upkeep round {tiered_first}, which was cancelled")
        return f"{who}: another round tiered first", fail(size, world, current, "", deletes=given_up)
    if current.sent >= COMMIT_ATTEMPTS:
        return f"{who}, and gives up", fail(size, world, current, "", deletes=given_up)
    checked = same_base(base, lake, current.known, size.rules)
    if isinstance(checked, str):
        problem = "" if checked == "Fenced" else checked
        return f"{who}, and meets another base: {checked}", fail(size, world, current, problem, deletes=given_up)
    again = current._replace(phase="granted", base=checked.lake)
    return f"{who}, and does not find its commit in the lake", world.with_round(current, again)


def _send_again_on_new_base(size: Size, world: World, current: Round) -> Step:
    """Without the rule: the error is believed, and the same files are sent on whatever the lake is by now, as libraries do."""
    if world.lake is None or current.sent >= COMMIT_ATTEMPTS or current.mark is None:
        return f"round {current.id} gets an error, and gives up", fail(size, world, current, "")
    base = world.lake.trimmed()
    mark = current.mark._replace(base=None if base.marker is None else base.marker.round_id)
    again = current._replace(phase="granted", base=base, mark=mark)
    return f"round {current.id} gets an error, takes it for a refusal, and builds on the new head", world.with_round(current, again)


def claim_of(lake: LakeTable | None) -> Copy | None:
    """Returns the claim of a tierer that read the lake."""
    return None if lake is None or lake.tag is None or lake.marker is None else Copy(lake.tag, lake.marker.tiered)


def ack_of(current: Round) -> Message:
    """The ack of what the round found in the lake."""
    return Message("ack", current.ref, claim=current.claim)


def ack(size: Size, world: World, current: Round) -> Step:
    """An ack arrives; its answer comes when the cluster was told. After its own commit a round ends well, whatever the answer."""
    who = f"the ack of round {current.id} reaches the coordinator"
    acked = messages.acknowledge(size, world, ack_of(current), current.id)
    if isinstance(acked, str):
        ended = end(size, world, current) if current.phase == "landed" else fail(size, world, current, acked)
        return f"{who}, which refuses it: {acked}", ended
    assert acked.telling is not None
    return f"{who}, which records snapshot {acked.telling.copy.snapshot_id}", acked


def tell(size: Size, world: World, telling: Telling) -> Step:
    """`Commits._notify_cluster`, and the answer to the tierer."""
    after, current = world._replace(telling=None), world.round_of(telling.round_id)
    if world.cluster is not None and not goes_on(world.cluster, telling.copy):
        if current is not None:
            after = fail(size, after, current, "RecordAheadOfLake") if current.phase == "adopting" else end(size, after, current)
        return f"the cluster refuses to be told of snapshot {telling.copy.snapshot_id}: it has more", after
    after = after._replace(cluster=telling.copy)
    lake = after.lake
    tiered = 0 if lake is None or lake.marker is None else lake.marker.tiered
    is_as_it_was = lake is not None and lake.uuid == after.record.uuid and not lake.was_set_back
    if is_as_it_was and telling.copy.tiered > tiered:
        after = after._replace(broken=f"the cluster is told of {telling.copy.tiered} offsets, and the lake's marker says {tiered}")
    if current is not None and current.phase == "adopting":
        checked = current._replace(known=current.known._replace(own=telling.copy, cluster=telling.copy))
        step, after = read_log(size, after, current, checked)
        return f"the cluster is told of snapshot {telling.copy.snapshot_id}; {step}", after
    if current is not None:
        after = end(size, after, current)
    return f"the cluster is told of snapshot {telling.copy.snapshot_id}", after


def end(size: Size, world: World, current: Round, *, passed: bool = False) -> World:
    """The round is over, and its report on its way."""
    return _reported(size, world, current, Message("report", current.ref, passed=passed))


def fail(size: Size, world: World, current: Round, error: str, *, deletes: bool = False) -> World:
    """Ends a round with an error. A permanent error stays until a user acts; `deletes`: the round's own file is deleted."""
    after = _reported(size, world, current, Message("report", current.ref, error="" if error == "Fenced" else error))
    if not deletes:
        return after
    rewritten = frozenset[str]() if current.rewrite is None else {current.rewrite.file.name}
    files = after.files - {file_of(current.id)} - rewritten
    return after._replace(files=files, broken=after.broken or invariants.files_kept((after.lake, *after.others), files))


def _reported(size: Size, world: World, current: Round, report: Message) -> World:
    after = world.with_round(current, None)
    return after._replace(reports=(*after.reports, report)) if size.has_late_messages else messages.end_round(after, report)
