"""Upkeep of the lake table: rewrites of files in a round's own commit and in rounds of their own, expiry with commits, and what users
do that upkeep has to respect (DESIGN 7, Upkeep).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from faults.model.exclusive.lake_states import DataFile, LakeTable
from faults.model.exclusive.rules import Rule
from faults.model.exclusive.world import Request, Rewrite, Size, Step, World

from tiering.lake.rules.upkeep.snapshot_expiry import TableHistory, TableReference, TableSnapshot, expired_snapshots
from tiering.model.tables import SnapshotRetention

DAY_MS = 86_400_000
NOW_MS = 10 * DAY_MS
"""All snapshots were committed at 0: each is old enough to expire."""

AT_ONCE = SnapshotRetention(max_age_ms=1, min_count=1)


def rewrite_of(lake: LakeTable, round_id: int) -> Rewrite | None:
    """The files of the head as one file without deleted rows; None if there is nothing to rewrite."""
    if not lake.rows or (len(lake.data) < 2 and not lake.deleted):
        return None
    return Rewrite(DataFile(f"lakeward-{round_id}-r-0.parquet", lake.rows), frozenset(file.name for file in lake.data), lake.deleted)


def fits(size: Size, world: World, rewrite: Rewrite, base: LakeTable) -> bool:
    """`fitting_rewrites`: whether the rewrite may be committed on the head of `base`. A rewrite whose file is gone is left out, too."""
    tables = [table for table in (world.lake, *world.others) if table is not None and table.uuid == base.uuid]
    head = tables[0].snapshot(base.head) if tables else None
    if head is None or rewrite.file.name not in world.files:
        return False
    has_files = rewrite.replaced <= head.files or not size.has(Rule.UPKEEP_FILES)
    deleted = frozenset(position for position in head.deleted if position[0] in rewrite.replaced)
    return has_files and (deleted == rewrite.deleted or not size.has(Rule.UPKEEP_DELETES))


def with_rewrite(lake: LakeTable, rewrite: Rewrite) -> LakeTable:
    """After the `replace` snapshot: files that are not live any more cannot be removed (`FileChanges`: "as far as they are live")."""
    data = (rewrite.file, *(file for file in lake.data if file.name not in rewrite.replaced))
    deleted = frozenset(position for position in lake.deleted if position[0] not in rewrite.replaced)
    return lake.with_snapshot(data, None, deleted)


def removed_at(size: Size, world: World, base: LakeTable, *, is_repeated: bool) -> frozenset[int]:
    """`upkeep_of`: the snapshots that a request on `base` removes. A repeated request removes none."""
    lake = world.lake
    if "expire" not in size.upkeep or lake is None or (lake.uuid, lake.head, lake.tag) != (base.uuid, base.head, base.tag):
        return frozenset()
    if is_repeated and size.has(Rule.EXPIRY_ONCE):
        return frozenset()
    return _removable(lake, respects_tags=size.has(Rule.EXPIRY_TAGS))


@cache
def _removable(lake: LakeTable, *, respects_tags: bool) -> frozenset[int]:
    if lake.head is None or lake.tag is None:
        return frozenset()
    snapshots = [TableSnapshot(row.id, row.parent, row.id, 0, row.mark is not None) for row in lake.snapshots]
    references = [TableReference(tag, False) for tag in sorted(lake.tags)] if respects_tags else []
    history = TableHistory(snapshots, lake.head, lake.tag, references, former_heads=[row.id for row in lake.snapshots])
    return frozenset(expired_snapshots(history, AT_ONCE, NOW_MS))


def refuses(size: Size, lake: LakeTable, request: Request) -> bool:
    """Whether the catalog refuses what the request removes: `AssertReferences` and `RemovedSnapshots`."""
    if not request.removed:
        return False
    if size.has(Rule.EXPIRY_REFERENCES) and lake.tags != request.tags:
        return True
    return not request.removed <= {snapshot.id for snapshot in lake.snapshots}


def tags_kept(lake: LakeTable) -> str:
    """An invariant: what a user's tag names is there."""
    lost = sorted(lake.tags - {snapshot.id for snapshot in lake.snapshots})
    return f"the snapshot {lost[0]} of a user's tag expired" if lost else ""


def cancel(world: World) -> Iterator[Step]:
    """The coordinator: the table is due, and its upkeep round makes room for a tiering round, unless its commit was granted."""
    record = world.record
    if record.running is not None and record.is_upkeep:
        ended = record._replace(running=None, granted=False, is_upkeep=False, ended=record.ended | {record.running})
        step = f"the table is due, and its upkeep round {record.running} is cancelled"
        yield step, world._replace(record=ended, cancelled=world.cancelled | {record.running})


def delete_row(world: World) -> Iterator[Step]:
    """A user deletes the oldest row, by a delete file: a snapshot without a marker."""
    lake = world.lake
    if lake is None or not lake.rows:
        return
    row = lake.rows[0]
    positions = frozenset((file.name, row) for file in lake.data if row in file.rows)
    after = lake.with_snapshot(lake.data, None, lake.deleted | positions)
    taken_out = world._replace(lake=after, removed=world.removed | {row}, deleted=world.deleted | {row})
    yield f"a user deletes the row at offset {row[1]} of the lake table", taken_out


def tag(world: World) -> Iterator[Step]:
    """A user names the oldest snapshot by a tag, or drops a tag."""
    lake = world.lake
    if lake is None or not lake.snapshots:
        return
    oldest = min(snapshot.id for snapshot in lake.snapshots)
    if oldest not in lake.tags:
        yield f"a user names snapshot {oldest} by a tag", world._replace(lake=lake._replace(tags=lake.tags | {oldest}))
    for name in sorted(lake.tags):
        yield f"a user drops the tag of snapshot {name}", world._replace(lake=lake._replace(tags=lake.tags - {name}))
