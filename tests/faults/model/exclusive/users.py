"""Actions of users on the lake, failures, the sweep, and `CALL sys.reconcile_lake`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache

from faults.model.exclusive import invariants, upkeep
from faults.model.exclusive.lake_states import WHEN, Copy, DataFile, Known, LakeTable, Mark, Snapshot, base_check, reconciled
from faults.model.exclusive.rules import Rule
from faults.model.exclusive.world import Grant, Record, Request, Sighted, Size, Step, Sweep, World

from tiering.coordinator.lake_repair.sweeper import files_of_rounds
from tiering.lake.maintenance import StoredFile
from tiering.lake.rules.sweep import RoundFate, SweptTable, Verdict, sweep_verdicts
from tiering.lake.rules.upkeep.expired_files import CommittedRound, FilesOfRounds, Lineage, lineage_of

SWEPT = WHEN + timedelta(days=2)
"""When sweeps look."""


def steps(size: Size, world: World) -> Iterator[Step]:
    """Everything that users may do next, and what may fail."""
    if world.users:
        spent = world._replace(users=world.users - 1)
        for action, acts in ACTIONS.items():
            if action in size.user_actions:
                yield from acts(spent)
        if "reconcile" in size.user_actions and world.record.error:
            for action in ("retier", "accept"):
                yield from begin_reconcile(size, spent, action)
        if "sweep" in size.user_actions and world.sweep is None:
            yield begin_sweep(spent)
    if world.sweep is not None:
        yield end_sweep(size, world, world.sweep)
    if world.call is not None:
        yield end_reconcile(size, world)
    if world.faults:
        yield from faults(size, world._replace(faults=world.faults - 1))


def faults(size: Size, world: World) -> Iterator[Step]:
    """Yields failures beside late requests."""
    if world.record.running is not None and "time-out" in size.fault_actions:
        yield time_out(world)
    if "crash" in size.fault_actions:
        for current in world.rounds:
            yield f"the tierer of round {current.id} dies", world.with_round(current, None)
    if "restart" in size.fault_actions and world.is_locked:
        yield "the coordinator dies and starts again", world._replace(telling=None, call=None)


def time_out(world: World) -> Step:
    """`round_lifecycle.expire`: nothing was heard of the round's tierer, which may be asleep."""
    record = world.record
    assert record.running is not None
    ended = record._replace(running=None, granted=False, is_upkeep=False, ended=record.ended | {record.running})
    return f"the coordinator takes round {record.running} for lost", world._replace(record=ended)


def compact(world: World) -> Iterator[Step]:
    """A user's compaction: the same rows in a file of its own."""
    if world.lake is not None and world.lake.rows:
        file = f"compacted-{world.next_file}"
        lake = world.lake.with_snapshot((DataFile(file, world.lake.rows),))
        yield "a user compacts the lake table", world._replace(lake=lake, files=world.files | {file}, next_file=world.next_file + 1)


def expire(world: World) -> Iterator[Step]:
    """A user expires all snapshots but the head and the one that the tag keeps, and deletes the former metadata at times."""
    lake = world.lake
    if lake is None:
        return
    kept = (lake.head, lake.tag, *lake.tags)
    if all(snapshot.id in kept for snapshot in lake.snapshots):
        return
    for forgets in (False, True):
        after = lake.with_expired(kept, forgets=forgets)
        step = "a user expires old snapshots and deletes former metadata" if forgets else "a user expires old snapshots"
        yield step, world._replace(lake=after, files=world.files - (lake.files - after.files))


def roll_back(world: World) -> Iterator[Step]:
    """A user sets the main branch on the snapshot before."""
    lake = world.lake
    head = None if lake is None else lake.snapshot(lake.head)
    if lake is not None and head is not None and lake.snapshot(head.parent) is not None:
        after = lake._replace(head=head.parent)
        yield "a user rolls the lake table back", world._replace(lake=after, deleted=world.deleted - set(after.rows))


def set_back(world: World) -> Iterator[Step]:
    """A user sets head and tag on a former tiering commit: it is the newest again. Snapshots that came after it are still there."""
    lake = world.lake
    for snapshot in () if lake is None else lake.snapshots:
        if lake is not None and snapshot.mark is not None and snapshot.id < (lake.tag or 0):
            after = lake._replace(head=snapshot.id, tag=snapshot.id, was_set_back=True)
            step = f"a user sets head and tag of the lake table on its former tiering commit {snapshot.id}"
            yield step, world._replace(lake=after, deleted=world.deleted - set(after.rows))


def restore(world: World) -> Iterator[Step]:
    """A user puts a copy of the catalog's entry in place that is older, and keeps the present one elsewhere."""
    lake = world.lake
    if lake is None:
        return
    for at in [snapshot.id for snapshot in lake.snapshots if snapshot.mark is not None and snapshot.id < (lake.tag or 0)]:
        kept = tuple(snapshot for snapshot in lake.snapshots if snapshot.id <= at)
        after = LakeTable(lake.uuid, at, at, kept, lake.next_id, was_set_back=True)
        step = f"a user puts a copy of the lake table in place that ends with snapshot {at}"
        yield step, world._replace(lake=after, others=(*world.others, lake), deleted=world.deleted - set(after.rows))


def rename(world: World) -> Iterator[Step]:
    """A user renames the lake table away, or back."""
    if world.lake is not None:
        yield "a user renames the lake table", world._replace(lake=None, others=(*world.others, world.lake))
    elif world.others:
        yield "a user renames the lake table back", world._replace(lake=world.others[-1], others=world.others[:-1])


def drop(world: World) -> Iterator[Step]:
    """A user drops the lake table with its files."""
    if world.lake is not None:
        yield "a user drops the lake table", world._replace(lake=None, files=world.files - world.lake.files)


def recreate(world: World) -> Iterator[Step]:
    """A user drops the source table and makes another one of its name: another id, another log, the same lake table."""
    if world.table_id == 1:
        after = world._replace(table_id=2, log_start=0, record=Record(2), cluster=None, telling=None, call=None, sweep=None, sighted=None)
        yield "a user drops the source table and makes it anew", after


def cut(world: World) -> Iterator[Step]:
    """Retention, no user: it follows what the cluster was told. What a user took out of the lake before is no loss."""
    start = 0 if world.cluster is None else world.cluster.tiered
    if start > world.log_start:
        disturbed = (
            world.lake is None
            or world.lake.is_rolled_back
            or world.lake.was_set_back
            or world.lake.uuid != world.record.uuid
            or bool(world.record.error)
        )
        cut_off = frozenset((world.table_id, offset) for offset in range(start))
        broken = "" if disturbed else invariants.log_kept(world.lake, start)
        removed = world.removed | cut_off if disturbed else world.removed
        yield f"retention cuts the log to {start}", world._replace(log_start=start, removed=removed, broken=broken)


ACTIONS = {
    "compact": compact,
    "expire": expire,
    "roll back": roll_back,
    "set back": set_back,
    "rename": rename,
    "drop": drop,
    "recreate": recreate,
    "cut": cut,
    "delete": upkeep.delete_row,
    "tag": upkeep.tag,
    "restore": restore,
}


def begin_sweep(world: World) -> Step:
    """`sweep_lake.Sweeper` reads rounds and ledger, then the files."""
    return "a sweep reads rounds, ledger and files", world._replace(sweep=Sweep(world.record, world.files))


def end_sweep(size: Size, world: World, sweep: Sweep) -> Step:
    """Ends a sweep: reads the lake table, and deletes."""
    after, lake, uuid = world._replace(sweep=None), world.lake, world.record.uuid
    if lake is None or uuid is None or lake.uuid != uuid:
        return "the sweep finds another lake table, and deletes nothing", after
    lineage = _lineage(sweep.record, lake, size.rules) if "expire" in size.upkeep else None
    doomed, sighted = _doomed(sweep, lake.uuid, lake.tag, lake.snapshots, size.rules, lineage, world.sighted)
    files = world.files - doomed
    broken = invariants.files_kept((lake, *world.others), files)
    return f"the sweep deletes {', '.join(sorted(doomed)) or 'nothing'}", after._replace(files=files, sighted=sighted, broken=broken)


def _lineage(record: Record, lake: LakeTable, rules: frozenset[Rule]) -> Lineage | None:
    """`Sweeper._lineage`: the rounds that lead to the newest tiering commit. None if the lake shows another one than is recorded.

    Without the rule all rounds count that are known.
    """
    known = Known(record.table_id, record.uuid, record.passed_head, record.copy, None)
    marker = lake.marker
    if marker is None:
        return None
    if Rule.SWEEP_LINEAGE not in rules:
        return Lineage(f"lake-{lake.uuid}", str(marker.round_id), frozenset(str(row.round_id) for row in record.ledger))
    if record.copy is None or record.copy.snapshot_id != lake.tag or isinstance(base_check(lake, known, rules), str):
        return None
    base = None if marker.base is None else str(marker.base)
    ledger = [CommittedRound(str(row.round_id), None if row.base is None else str(row.base)) for row in record.ledger]
    return lineage_of(f"lake-{lake.uuid}", str(marker.round_id), base, ledger)


def _sight(lineage: Lineage, files: FilesOfRounds, before: Sighted | None) -> tuple[Sighted, dict[str, datetime]]:
    """`OrphanCandidates.observe`: what it remembers, and since when files are dead. Between two looks the guard passes."""
    is_of_now = before is not None and str(before.newest) in lineage.rounds
    dead = frozenset(location for location, round_id in files.dead.items() if round_id in lineage.rounds)
    earlier = before.dead if before is not None and is_of_now else frozenset[str]()
    return Sighted(int(lineage.newest), dead), {location: WHEN if location in earlier else SWEPT for location in dead}


@cache
def _doomed(
    sweep: Sweep,
    uuid: int,
    tag: int | None,
    snapshots: tuple[Snapshot, ...],
    rules: frozenset[Rule],
    lineage: Lineage | None,
    before: Sighted | None,
) -> tuple[frozenset[str], Sighted | None]:
    """`sweep_verdicts`, and what the sweep remembers. Snapshots of all lake tables have ids of their own, as Iceberg's have."""
    lake = LakeTable(uuid, None, tag, snapshots)
    fates = {str(number): RoundFate(True) for number in sweep.record.ended}
    if sweep.record.running is not None:
        fates[str(sweep.record.running)] = RoundFate(False)
    for grant in sweep.record.ledger:
        fate = fates.get(str(grant.round_id), RoundFate(True))
        tag_at_grant = None if grant.tag is None else _global(grant.uuid, grant.tag)
        granted_on = (*fate.granted_on, tag_at_grant if Rule.SWEEP_TAG in rules else -1)
        granted_for = grant.uuid if Rule.SWEEP_UUID in rules else uuid
        fates[str(grant.round_id)] = RoundFate(fate.ended, granted_on, fate.landed or grant.landed, f"lake-{granted_for}")
    files = [StoredFile(name, name, 1, WHEN) for name in sorted(sweep.files)]
    rounds = {str(snapshot.mark.round_id) for snapshot in lake.snapshots if snapshot.mark is not None}
    ids = {_global(uuid, snapshot.id) for snapshot in lake.snapshots if Rule.SWEEP_BASE in rules}
    live = lake.files if Rule.SWEEP_NAMED in rules else frozenset[str]()
    sighted, dead_since = before, dict[str, datetime]()
    if lineage is not None:
        fates |= {round_id: replace(fates[round_id], landed=True) for round_id in lineage.rounds if round_id in fates}
        sighted, dead_since = _sight(lineage, files_of_rounds(files, fates, live, rounds), before)
    swept = SweptTable(f"lake-{uuid}", ids, None if tag is None else _global(uuid, tag), live, rounds, dead_since=dead_since)
    verdicts = sweep_verdicts(files, fates, swept, SWEPT, timedelta(days=1))
    return frozenset(file.location for file, verdict in verdicts if verdict is Verdict.REMOVE), sighted


def _global(uuid: int, snapshot_id: int) -> int:
    return uuid * 1_000 + snapshot_id


def begin_reconcile(size: Size, world: World, action: str) -> Iterator[Step]:
    """`reconcile_lake.Reconciler`: looks, decides, takes the next epoch, and sends a commit with a marker.

    Nothing if it is refused: while a granted round is open, or by the rules of the action.
    """
    record = world.record
    if world.is_locked or (record.running is not None and record.granted):
        return
    checked = base_check(world.lake, world.known(), size.rules)
    marker = None if world.lake is None else world.lake.marker
    if not isinstance(checked, str) and (marker is None or world.log_start <= marker.tiered <= world.log_end):
        yield f"a user calls {action}, and nothing is wrong any more", world._replace(record=record._replace(error=""))
        return
    at = reconciled(action, world.lake, world.known(), (world.log_start, world.log_end), size.rules)
    if isinstance(at, str):
        return
    lake = world.lake or LakeTable(world.next_uuid)
    number, epoch = world.next_round, record.epoch + 1
    start, tiered = (world.log_start, world.log_start) if at is None else (at.start, at.tiered)
    base = None if lake.marker is None else lake.marker.round_id
    mark = Mark(number, record.table_id, lake.uuid, epoch, base, start, tiered)
    ended = record.ended if record.running is None else record.ended | {record.running}
    ledger = (*record.ledger, Grant(number, lake.tag, lake.uuid, base=base))
    claimed = record._replace(epoch=epoch, running=None, granted=False, is_upkeep=False, ended=ended, ledger=ledger)
    requests = (*world.requests, Request(action, lake.uuid, lake.head, lake.tag, (), mark, lake.next_id if size.numbered else 0))
    after = world._replace(lake=lake, next_uuid=world.next_uuid + (world.lake is None), record=claimed, next_round=number + 1)
    yield f"a user calls {action}, which sends a marker at {tiered}", after._replace(requests=requests, call=(action, number))


def end_reconcile(size: Size, world: World) -> Step:
    """`Reconciler._read_again` and `_settle`: what became of it stands in the lake."""
    assert world.call is not None
    action, number = world.call
    after, lake = world._replace(call=None), world.lake
    marks = () if lake is None else tuple(snapshot.mark for snapshot in lake.snapshots if snapshot.mark is not None)
    if lake is None or lake.marker is None or lake.tag is None or all(mark.round_id != number for mark in marks):
        return f"{action} does not find its commit in the lake", after
    copy = Copy(lake.tag, lake.marker.tiered)
    ledger = tuple(grant._replace(landed=grant.landed or grant.round_id == lake.marker.round_id) for grant in world.record.ledger)
    record = world.record._replace(uuid=lake.uuid, passed_head=lake.head, copy=copy, ledger=ledger, error="")
    return f"{action} finds its commit, and tells coordinator and cluster", after._replace(record=record, cluster=copy)
