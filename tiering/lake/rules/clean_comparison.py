"""Whether the rows that another tiering service added to a clean lake table are those of the log between our ends and its ends. Pure.

These rows carry no offsets. The service's ends are those that its snapshots state (`fluss-offsets`), or those that the cluster recorded
for the newest snapshot. They are accepted only if the log has, up to these ends, the same number of rows and the same checksum as all
snapshots of the service together (`proof.change_sums`). Doubled, missing or different rows make the sums differ, and so do wrong ends.
If the sums differ, nothing is adopted.

A scope is a bucket, or all buckets of a partition that share files. A scope that was never tiered before was empty, so only its living
rows are compared: a first round may have begun with a KV snapshot.

Rows of former partitions of the same name are not compared (`former_rows`). A log without before-images does not tell which keys were
replaced. Unless the deletes name every key that the log updated, keys may be in the lake twice, and the bucket is replayed from our end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tiering.errors import ForeignTieringUnproved
from tiering.lake.base import LakeView
from tiering.lake.foreign import CleanRows, ForeignSnapshot, LogSums
from tiering.lake.marker import TieredRange
from tiering.lake.proof.change_sums import ChangeSums, RowSum
from tiering.lake.rules.former_rows import Partitions
from tiering.lake.rules.hints import keeping_table_hint, new_table_hint, reconcile_call, set_head_back, tier_call
from tiering.model.tables import BucketKey, Offsets, TableType


@dataclass(frozen=True)
class ForeignHistory:
    """The part of a clean table's history that the other service added: where it begins, our ends, and the ends that it states.

    `begins_at` is the snapshot before the service's first one. `is_lossless` is False if it may have added rows of dropped partitions:
    setting the table back to `begins_at` would lose them.
    """

    view: LakeView
    table_type: TableType
    begins_at: int | None
    ranges: Mapping[BucketKey, TieredRange]
    stated: Offsets
    is_lossless: bool = True


@dataclass
class ComparedEnds:
    """Per bucket the tiered range. `moved_back`: the buckets that the next round replays from the end of their range."""

    ranges: dict[BucketKey, TieredRange] = field(default_factory=dict)
    moved_back: set[BucketKey] = field(default_factory=set)


def highest(offsets: Iterable[Offsets]) -> dict[BucketKey, int]:
    """Returns the highest offset of each bucket. A round of the service that was planned long ago states less than the lake has."""
    ends: dict[BucketKey, int] = {}
    for stated in offsets:
        for bucket, offset in stated.items():
            ends[bucket] = max(offset, ends.get(bucket, 0))
    return ends


def check_former(history: ForeignHistory, partitions: Partitions, snapshots: Iterable[ForeignSnapshot]) -> None:
    """Raises ForeignTieringUnproved if rows of a former partition may have set back keys that were tiered before."""
    if history.table_type is TableType.LOG:
        return
    tiered = {bucket.partition_id for bucket in history.ranges}
    for snapshot in snapshots:
        if members := sorted(partitions.former_in(snapshot) & tiered & snapshot.clean_partitions):
            raise _unproved(
                history, f"snapshot {snapshot.snapshot_id} has rows under the name of the partition {members[0]}, and states nothing of it"
            )


def compared_ends(history: ForeignHistory, rows: Sequence[CleanRows], log_sums: LogSums) -> ComparedEnds:
    """Returns where tiering of these buckets continues. Raises ForeignTieringUnproved."""
    ends = ComparedEnds()
    for scope in rows:
        _compare(history, scope, log_sums, ends)
    return ends


def _compare(history: ForeignHistory, scope: CleanRows, log_sums: LogSums, ends: ComparedEnds) -> None:
    if scope.complaint:
        raise _unproved(history, f"{scope.complaint}, which no healthy round of that service does")
    members = sorted((bucket for bucket in {*history.ranges, *history.stated} if scope.has(bucket)), key=BucketKey.sort_key)
    if not any(bucket in history.stated for bucket in members):
        raise _unproved(history, f"the present end of {_name(scope)} is unknown, because its file of offsets is gone")
    reached_ends: dict[BucketKey, TieredRange] = {}
    in_log, ranges = ChangeSums(), []
    for bucket in members:
        reached = history.ranges.get(bucket, TieredRange(0, 0))
        end = max(reached.tiered, history.stated.get(bucket, 0))
        reached_ends[bucket] = TieredRange(reached.start, end)
        if end == reached.tiered:
            continue
        ranges.append(f"[{reached.tiered}, {end}) of bucket {bucket}")
        sums = log_sums(bucket, reached.tiered, end)
        if sums is None:
            why = f"its rows cannot be compared with the log, which does not hold all of the offsets {ranges[-1]}"
            raise _unproved(history, why, log_lacks=ranges[-1])
        in_log += sums
    is_first = history.ranges.keys().isdisjoint(members)
    if _may_have_doubled_keys(scope.sums, in_log, is_first=is_first):
        ends.moved_back.update(members)
        ends.ranges |= {bucket: history.ranges.get(bucket, TieredRange(0, 0)) for bucket in members}
        return
    if (difference := _difference(history.table_type, scope.sums, in_log, is_first=is_first)) is not None:
        where = f"the offsets {', '.join(ranges)}" if ranges else "no offset, because it states none behind ours"
        raise _unproved(history, f"{_name(scope)} {difference} of {where}")
    ends.ranges |= reached_ends


def _may_have_doubled_keys(in_lake: ChangeSums, in_log: ChangeSums, *, is_first: bool) -> bool:
    """Whether keys that the log updates without a before-image may be in the lake twice, because some former rows were not deleted.

    Always False where readers take the newest change of a key, because such a lake tells which keys are gone. A first round replaced no
    rows, so for it only living rows that differ count. All written rows must be those of the log, and the number of deletes must be
    possible for a round that misses some.
    """
    if in_lake.gone is not None or not in_log.replaced.rows or None in (in_lake.deleted, in_log.deleted):
        return False
    assert in_lake.deleted is not None
    assert in_log.deleted is not None
    at_least, at_most = in_log.deleted.rows, in_log.deleted.rows + in_log.replaced.rows
    if in_lake.written != in_log.written or not at_least <= in_lake.deleted.rows <= at_most:
        return False
    return in_lake.living != in_log.living if is_first else in_lake.deleted != in_log.deleted + in_log.replaced


_Pair = tuple[str, RowSum | None, RowSum | None]
"""One comparison: its name, the sum of the lake and the sum of the log. None = the files do not tell it."""


def _difference(table_type: TableType, in_lake: ChangeSums, in_log: ChangeSums, *, is_first: bool) -> str | None:
    """Returns the first difference as a part of a sentence; None = no difference."""
    deleted = in_log.deleted
    if in_lake.gone is None and deleted is not None:
        deleted += in_log.replaced
    pairs: list[_Pair] = [("rows", in_lake.written, in_log.written), ("deletes", in_lake.deleted, deleted)]
    if table_type is TableType.PRIMARY_KEY:
        living: _Pair = ("living rows", in_lake.living, in_log.living)
        pairs = [living] if is_first else [*pairs, living, ("deleted keys", in_lake.gone, in_log.gone)]
    for difference, lake, log in pairs:
        if lake is not None and lake != log:
            return f"was given {difference} that are not those of the log: {lake}; the log has {log}, those"
    return None


def _name(scope: CleanRows) -> str:
    if scope.bucket_id is not None:
        return f"bucket {BucketKey(scope.partition_id, scope.bucket_id)}"
    return "the table" if scope.partition_id is None else f"the partition {scope.partition_id}"


def _unproved(history: ForeignHistory, why: str, log_lacks: str | None = None) -> ForeignTieringUnproved:
    view, former = history.view, history.begins_at if history.is_lossless else None
    path = view.path
    set_back = "" if former is None else f"{set_head_back(view, f'snapshot {former}')}, the last one before, then {tier_call(path)}: "
    is_partitioned = any(bucket.partition_id is not None for bucket in {*history.ranges, *history.stated})
    new_table = new_table_hint(path) if history.is_lossless and not is_partitioned else keeping_table_hint(path)
    if log_lacks is not None:
        hint = f"Are its rows right all the same? {reconcile_call(path, 'adopt')} takes them over as they are. Or: {new_table}"
    elif set_back:
        hint = f"{set_back}newer rows are tiered again from the log."
    else:
        hint = new_table
    if history.table_type is TableType.PRIMARY_KEY and is_partitioned:
        hint = hint if new_table in hint else f"{hint} Or: {new_table}"
    elif history.table_type is TableType.PRIMARY_KEY:
        hint = f"{reconcile_call(path, 'retier')} begins again with KV snapshots. Or: {hint}"
    return ForeignTieringUnproved(
        f"another tiering service committed rows to the lake table {path}, whose layout is clean, and Lakeward adopted none of them: {why}",
        hint=hint,
        table_path=path,
        lake_snapshot_id=former,
        log_lacks=log_lacks,
    )
