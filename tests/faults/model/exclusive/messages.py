"""Messages of tierers to the coordinator, and what it does with them: plans, requests for the grant, acks, and reports of how rounds ended.

A tierer repeats a message until it is answered, so one that is lost is no step of its own. A copy of it may arrive at any later time: its
tierer may have continued, given up or died, and no process waits for the answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from faults.model.exclusive.lake_states import Checked, Copy, base_check
from faults.model.exclusive.rules import ALL_RULES, Rule
from faults.model.exclusive.world import NO_RECEIVER, Message, Record, Ref, Size, Step, Telling, World


def steps(size: Size, world: World) -> Iterator[Step]:
    """Reports that arrive, late copies that do, and tierers that die with the report of a round."""
    for message in world.reports:
        yield deliver_report(world, message)
        if world.faults:
            spent = world._replace(faults=world.faults - 1)
            yield f"a copy of {message} is late", spent.with_late_copy(message)
            if "crash" in size.fault_actions:
                yield f"the tierer dies with {message}", spent.without_report(message)
    for message in dict.fromkeys(world.late):
        yield from deliver_late_copy(size, world, message)


def deliver_report(world: World, message: Message) -> Step:
    """A report arrives and is answered."""
    return f"{message} arrives", end_round(world.without_report(message), message)


def deliver_late_copy(size: Size, world: World, message: Message) -> Iterator[Step]:
    """Delivers a copy whose answer no process waits for. An ack waits for the table's lock."""
    late = list(world.late)
    late.remove(message)
    after = world._replace(late=tuple(late))
    match message.kind:
        case "plan":
            yield check_plan(size, after, message)
        case "checked plan":
            yield f"{message} is recorded", record_plan(after, message)
        case "request for the grant":
            granted = grant(size, after, message)
            if granted is None:
                yield f"a late copy of {message} arrives, and is fenced", after
            else:
                yield f"a late copy of {message} arrives, and is granted", granted
        case "ack" if not world.is_locked:
            acked = acknowledge(size, after, message, NO_RECEIVER)
            if isinstance(acked, str):
                yield f"a late copy of {message} arrives, and is refused: {acked}", after
            else:
                yield f"a late copy of {message} arrives, and the cluster is to be told", acked
        case "report":
            yield f"a late copy of {message} arrives", end_round(after, message)


def owns(record: Record, ref: Ref) -> bool:
    """`round_lifecycle.is_current`."""
    return (record.running, record.epoch, record.table_id) == (ref.round_id, ref.epoch, ref.table_id)


def check_plan(size: Size, world: World, message: Message) -> Step:
    """`Commits._check_lake_table`: a plan for a lake table that is not on record is checked against the lake, without the table's lock."""
    record, who = world.record, f"a late copy of {message} arrives"
    assert message.grant is not None
    if not owns(record, message.ref):
        return f"{who}, and is fenced", world
    if message.grant.uuid == record.uuid:
        return f"{who}, and says what is on record", world
    checked = base_check(world.lake, world.known(), size.rules)
    if isinstance(checked, str) or checked.lake is None or checked.lake.uuid != message.grant.uuid:
        return f"{who}, and names no lake table that is right", world
    return f"{who}, and passes its check", world.with_late_copy(message._replace(kind="checked plan"))


def record_plan(world: World, message: Message) -> World:
    """`round_lifecycle.plan`: the lake table's uuid is on record from here on. Nothing of a round that does not own the table."""
    assert message.grant is not None
    return world._replace(record=world.record._replace(uuid=message.grant.uuid)) if owns(world.record, message.ref) else world


def grant(size: Size, world: World, message: Message) -> World | None:
    """`Commits.begin_lake_commit` and `round_lifecycle.grant`: the fence. None if the round is fenced; a repeat changes nothing."""
    record, ref = world.record, message.ref
    assert message.grant is not None
    if size.has(Rule.FENCE) and not owns(record, ref):
        return None
    if ref.table_id != record.table_id or any(row.round_id == ref.round_id for row in record.ledger):
        return world
    granted = record.granted or record.running == ref.round_id
    return world._replace(record=record._replace(ledger=(*record.ledger, message.grant), granted=granted))


def acknowledge(size: Size, world: World, message: Message, waiting: int) -> World | str:
    """`Commits.acknowledge` and `lake_acks.record_contents`: the coordinator reads the lake itself, and records what that holds.

    Returns the class of the error if it refuses the lake. `waiting`: the round that waits for the answer.
    """
    record = world.record
    if message.ref.table_id != record.table_id:
        return "UnknownTable"
    if not size.has(Rule.ACKS) and message.claim is not None:
        return world._replace(record=record._replace(copy=message.claim), telling=Telling(message.claim, waiting))
    checked = base_check(world.lake, world.known(), size.rules)
    if isinstance(checked, str):
        return checked
    lake = checked.lake
    if lake is None or lake.marker is None or lake.tag is None:
        return "Fenced"
    copy = Copy(lake.tag, lake.marker.tiered)
    ledger = tuple(row._replace(landed=row.landed or row.round_id == lake.marker.round_id) for row in record.ledger)
    known = record._replace(uuid=lake.uuid, passed_head=lake.head, copy=copy, ledger=ledger)
    return world._replace(record=known, telling=Telling(copy, waiting))


def end_round(world: World, message: Message) -> World:
    """`round_lifecycle.finish` and `fail`: a report ends the round that it names, if that still owns the table."""
    if not owns(world.record, message.ref):
        return world
    record = world.record._replace(
        running=None, granted=False, is_upkeep=False, error=message.error, ended=world.record.ended | {message.ref.round_id}
    )
    if message.passed:
        # The coordinator looks itself before it records the head (`Commits.look_at_heads`).
        checked = base_check(world.lake, world.known(), ALL_RULES)
        if isinstance(checked, Checked) and checked.lake is not None and not checked.ahead:
            record = record._replace(passed_head=checked.lake.head)
    return world._replace(record=record)
