"""Whether what another tiering service added to a clean lake table is what the log has between our ends and its own. Pure.

Its rows tell no offsets. The ends are those that its snapshots state (`fluss-offsets`), or that the cluster recorded of the newest one.
They are believed only if number and checksum of what all of its snapshots added together are those of the log up to there
(`proof.change_sums`): rows that stand twice, are missing or are others make them differ, and so do ends that are not those of the rows.
Then nothing is adopted.

A scope is a bucket, or all buckets of a partition where they share files. In one where nobody tiered before nothing stood, so what lives
is all that counts: a first round may have begun with a KV snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tiering.errors import ForeignTieringUnproved
from tiering.lake.base import LakeView
from tiering.lake.foreign import CleanRows, LogSums
from tiering.lake.marker import TieredRange
from tiering.lake.proof.change_sums import ChangeSums, RowSum
from tiering.lake.rules.hints import new_table_hint, reconcile_call, set_head_back, tier_call
from tiering.model.tables import BucketKey, Offsets, TableType


@dataclass(frozen=True)
class CleanStretch:
    """What is known where the other service went on: our ends, and those that it states. `begins_at`: the snapshot before its first."""

    view: LakeView
    table_type: TableType
    begins_at: int | None
    ranges: Mapping[BucketKey, TieredRange]
    stated: Offsets


def highest(offsets: Iterable[Offsets]) -> dict[BucketKey, int]:
    """Per bucket the highest: one that planned long ago states less than the lake has."""
    ends: dict[BucketKey, int] = {}
    for stated in offsets:
        for bucket, offset in stated.items():
            ends[bucket] = max(offset, ends.get(bucket, 0))
    return ends


def compared_ends(stretch: CleanStretch, rows: Sequence[CleanRows], log_sums: LogSums) -> dict[BucketKey, TieredRange]:
    """Where the buckets of these rows go on. Raises ForeignTieringUnproved."""
    ends: dict[BucketKey, TieredRange] = {}
    for scope in rows:
        ends |= _compared(stretch, scope, log_sums)
    return ends


def _compared(stretch: CleanStretch, scope: CleanRows, log_sums: LogSums) -> dict[BucketKey, TieredRange]:
    if scope.complaint:
        raise _unproved(stretch, f"{scope.complaint}, which no healthy round of it does")
    members = sorted((bucket for bucket in {*stretch.ranges, *stretch.stated} if scope.has(bucket)), key=BucketKey.sort_key)
    if not any(bucket in stretch.stated for bucket in members):
        raise _unproved(stretch, f"how far {_name(scope)} goes by now can be read nowhere: its file of offsets is gone")
    ends: dict[BucketKey, TieredRange] = {}
    in_log, ranges = ChangeSums(), []
    for bucket in members:
        reached = stretch.ranges.get(bucket, TieredRange(0, 0))
        end = max(reached.tiered, stretch.stated.get(bucket, 0))
        ends[bucket] = TieredRange(reached.start, end)
        if end == reached.tiered:
            continue
        ranges.append(f"[{reached.tiered}, {end}) of bucket {bucket}")
        sums = log_sums(bucket, reached.tiered, end)
        if sums is None:
            why = f"it would be compared with the log, which does not hold all of the offsets {ranges[-1]}"
            raise _unproved(stretch, why, log_lacks=ranges[-1])
        in_log += sums
    is_first = stretch.ranges.keys().isdisjoint(members)
    if (difference := _difference(stretch.table_type, scope.sums, in_log, is_first=is_first)) is not None:
        where = f"the offsets {', '.join(ranges)}" if ranges else "no offset, for it states none behind ours"
        raise _unproved(stretch, f"{_name(scope)} {difference} of {where}")
    return ends


_Pair = tuple[str, RowSum | None, RowSum | None]
"""What is compared, of the lake and of the log; None = its files do not tell."""


def _difference(table_type: TableType, in_lake: ChangeSums, in_log: ChangeSums, *, is_first: bool) -> str | None:
    """What differs first, as the part of a sentence; None = nothing."""
    pairs: list[tuple[str, RowSum | None, RowSum | None]] = [
        ("rows", in_lake.written, in_log.written),
        ("deletes", in_lake.deleted, in_log.deleted),
    ]
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
    view, former = stretch.view, stretch.begins_at
    path = view.path
    back = "" if former is None else f"{set_head_back(view, f'snapshot {former}')}, the last one before, then {tier_call(path)}: "
    if log_lacks is not None:
        hint = f"Is it right all the same? {reconcile_call(path, 'adopt')} takes it over as it is. Or: {new_table_hint(path)}"
    elif back:
        hint = f"{back}what came since is tiered again from the log."
    else:
        hint = new_table_hint(path)
    if stretch.table_type is TableType.PRIMARY_KEY:
        hint = f"{reconcile_call(path, 'retier')} begins anew with KV snapshots. Or: {hint}"
    return ForeignTieringUnproved(
        f"another tiering service committed rows to the lake table {path}, whose layout is clean, and nothing of it was adopted: {why}",
        hint=hint,
        table_path=path,
        lake_snapshot_id=former,
        log_lacks=log_lacks,
    )
