"""Whether what another tiering service added to a clean lake table is what the log has between our ends and its own. Pure.

Its rows tell no offsets. The ends are those that its snapshots state (`fluss-offsets`), or that the cluster recorded of the newest one.
They are believed only if number and checksum of what all of its snapshots added together are those of the log up to there
(`proof.change_sums`): rows that stand twice, are missing or are others make them differ, and so do ends that are not those of the rows.
Then nothing is adopted.

A scope is a bucket, or all buckets of a partition where they share files. In one where nobody tiered before nothing stood, so what lives
is all that counts: a first round may have begun with a KV snapshot.

Rows of former partitions of a scope's name are not among what is compared (`former_rows`). A log without before-images does not tell which
keys were replaced. Unless the deletes name each key that it updated, the keys may stand twice, and the bucket is replayed from our end.
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
class CleanStretch:
    """What is known where the other service went on: our ends, and those that it states. `begins_at`: the snapshot before its first.

    `is_lossless` False: it may have added rows of dropped partitions, which a way back to `begins_at` would lose.
    """

    view: LakeView
    table_type: TableType
    begins_at: int | None
    ranges: Mapping[BucketKey, TieredRange]
    stated: Offsets
    is_lossless: bool = True


@dataclass
class ComparedEnds:
    """Where buckets go on; `moved_back`: buckets that are replayed from there."""

    ranges: dict[BucketKey, TieredRange] = field(default_factory=dict)
    moved_back: set[BucketKey] = field(default_factory=set)


def highest(offsets: Iterable[Offsets]) -> dict[BucketKey, int]:
    """Per bucket the highest: one that planned long ago states less than the lake has."""
    ends: dict[BucketKey, int] = {}
    for stated in offsets:
        for bucket, offset in stated.items():
            ends[bucket] = max(offset, ends.get(bucket, 0))
    return ends


def check_former(stretch: CleanStretch, partitions: Partitions, snapshots: Iterable[ForeignSnapshot]) -> None:
    """Raises ForeignTieringUnproved if a former partition's rows may have set keys back that were tiered before."""
    if stretch.table_type is TableType.LOG:
        return
    tiered = {bucket.partition_id for bucket in stretch.ranges}
    for snapshot in snapshots:
        if members := sorted(partitions.former_in(snapshot) & tiered & snapshot.clean_partitions):
            raise _unproved(
                stretch, f"snapshot {snapshot.snapshot_id} has rows under the name of the partition {members[0]}, and states nothing of it"
            )


def compared_ends(stretch: CleanStretch, rows: Sequence[CleanRows], log_sums: LogSums) -> ComparedEnds:
    """Where the buckets of these rows go on. Raises ForeignTieringUnproved."""
    ends = ComparedEnds()
    for scope in rows:
        _compare(stretch, scope, log_sums, ends)
    return ends


def _compare(stretch: CleanStretch, scope: CleanRows, log_sums: LogSums, ends: ComparedEnds) -> None:
    if scope.complaint:
        raise _unproved(stretch, f"{scope.complaint}, which no healthy round of it does")
    members = sorted((bucket for bucket in {*stretch.ranges, *stretch.stated} if scope.has(bucket)), key=BucketKey.sort_key)
    if not any(bucket in stretch.stated for bucket in members):
        raise _unproved(stretch, f"how far {_name(scope)} goes by now can be read nowhere: its file of offsets is gone")
    reached_ends: dict[BucketKey, TieredRange] = {}
    in_log, ranges = ChangeSums(), []
    for bucket in members:
        reached = stretch.ranges.get(bucket, TieredRange(0, 0))
        end = max(reached.tiered, stretch.stated.get(bucket, 0))
        reached_ends[bucket] = TieredRange(reached.start, end)
        if end == reached.tiered:
            continue
        ranges.append(f"[{reached.tiered}, {end}) of bucket {bucket}")
        sums = log_sums(bucket, reached.tiered, end)
        if sums is None:
            why = f"it would be compared with the log, which does not hold all of the offsets {ranges[-1]}"
            raise _unproved(stretch, why, log_lacks=ranges[-1])
        in_log += sums
    is_first = stretch.ranges.keys().isdisjoint(members)
    if _may_have_doubled_keys(scope.sums, in_log, is_first=is_first):
        ends.moved_back.update(members)
        ends.ranges |= {bucket: stretch.ranges.get(bucket, TieredRange(0, 0)) for bucket in members}
        return
    if (difference := _difference(stretch.table_type, scope.sums, in_log, is_first=is_first)) is not None:
        where = f"the offsets {', '.join(ranges)}" if ranges else "no offset, for it states none behind ours"
        raise _unproved(stretch, f"{_name(scope)} {difference} of {where}")
    ends.ranges |= reached_ends


def _may_have_doubled_keys(in_lake: ChangeSums, in_log: ChangeSums, *, is_first: bool) -> bool:
    """Whether keys that the log updates without a before-image may stand twice, as not all of their former rows were deleted.

    Not where readers take the newest change of a key: such a lake tells which keys are gone. A first round found nothing to replace.
    All rows that were written must be those of the log, and there are as many deletes as one that misses some may have.
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
"""What is compared, of the lake and of the log; None = its files do not tell."""


def _difference(table_type: TableType, in_lake: ChangeSums, in_log: ChangeSums, *, is_first: bool) -> str | None:
    """What differs first, as the part of a sentence; None = nothing."""
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


def _unproved(stretch: CleanStretch, why: str, log_lacks: str | None = None) -> ForeignTieringUnproved:
    view, former = stretch.view, stretch.begins_at if stretch.is_lossless else None
    path = view.path
    back = "" if former is None else f"{set_head_back(view, f'snapshot {former}')}, the last one before, then {tier_call(path)}: "
    is_partitioned = any(bucket.partition_id is not None for bucket in {*stretch.ranges, *stretch.stated})
    new_table = new_table_hint(path) if stretch.is_lossless and not is_partitioned else keeping_table_hint(path)
    if log_lacks is not None:
        hint = f"Is it right all the same? {reconcile_call(path, 'adopt')} takes it over as it is. Or: {new_table}"
    elif back:
        hint = f"{back}what came since is tiered again from the log."
    else:
        hint = new_table
    if stretch.table_type is TableType.PRIMARY_KEY and is_partitioned:
        hint = hint if new_table in hint else f"{hint} Or: {new_table}"
    elif stretch.table_type is TableType.PRIMARY_KEY:
        hint = f"{reconcile_call(path, 'retier')} begins anew with KV snapshots. Or: {hint}"
    return ForeignTieringUnproved(
        f"another tiering service committed rows to the lake table {path}, whose layout is clean, and nothing of it was adopted: {why}",
        hint=hint,
        table_path=path,
        lake_snapshot_id=former,
        log_lacks=log_lacks,
    )
