"""Which rows of a lake table a new lake table would lack, because neither the cluster nor its log has them any more. Pure.

Rows name their partition only by its values. If a partition was recreated under the same name and tiered, no row of a primary-key table
tells which of the two partitions wrote it. So a round records in its marker that rows were there before it (`Marker.archives`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from tiering.lake.marker import Marker, TieredRange
from tiering.lake.rules.contiguous_offsets import Place
from tiering.lake.rules.reconcile import ReconcileInput
from tiering.model.tables import BucketKey, TableInfo, TableType


def archived_rows(situation: ReconcileInput, rows: Mapping[str | None, int], occupied: Collection[Place] | None = None) -> int | None:
    """Returns an upper bound of the rows that dropped partitions have in the lake. None = the number cannot be determined.

    `rows` has the row count by partition name; the key None is for partitions without a name. `occupied` has the buckets of a
    primary-key table that have data files; None = unknown.

    Rows under the name of a living partition belong to a dropped one if the head's marker does not name the living one, or if there are
    more of them than the marker counts. In a primary-key partition with an archive all rows are counted.
    """
    marker = situation.survey.head_marker
    marked = {} if marker is None else marker.buckets
    tiered = Counter[str | None]()
    named = set[str | None]()
    for bucket, (name, _) in situation.places.items():
        if bucket in marked:
            named.add(name)
            tiered[name] += marked[bucket].tiered - marked[bucket].start
    living = {name for name, _ in situation.places.values()}
    archived = 0
    for name, count in rows.items():
        if name not in living or (marker is not None and name not in named):
            archived += count
        elif marker is not None and situation.table_type is TableType.LOG:
            archived += max(0, count - tiered[name])
        elif marker is not None and count:
            has_archive = _has_archive(situation, marker, name, occupied)
            if has_archive is None:
                return None
            archived += count if has_archive else 0
    return archived


def _has_archive(situation: ReconcileInput, marker: Marker, name: str | None, occupied: Collection[Place] | None) -> bool | None:
    """Whether a primary-key table has rows of a dropped partition under the name of a living one; None = it cannot be determined."""
    buckets = [bucket for bucket, (partition, _) in situation.places.items() if partition == name]
    if marker.archives is not None and any(bucket.partition_id in marker.archives for bucket in buckets):
        return True
    untiered = [bucket for bucket in buckets if not is_tiered(marker.buckets, bucket)]
    if occupied is not None and any(situation.places[bucket] in occupied for bucket in untiered):
        return True
    return None if marker.archives is None or (untiered and occupied is None) else False


def is_tiered(ranges: Mapping[BucketKey, TieredRange], bucket: BucketKey) -> bool:
    """Whether a record of the bucket was ever tiered."""
    return bucket in ranges and ranges[bucket].tiered > 0


def next_archives(
    table: TableInfo,
    base: Marker | None,
    ranges: Mapping[BucketKey, TieredRange],
    occupied: Iterable[BucketKey],
    buckets: Collection[BucketKey],
) -> frozenset[int] | None:
    """Returns `Marker.archives` after a round that leads from `base` and `ranges` to `buckets`.

    `occupied`: the buckets that it wrote to and in which files stood before.
    """
    before = frozenset[int]() if base is None and not ranges else None if base is None else base.archives
    if table.table_type is TableType.LOG or not table.partition_keys or before is None:
        return None
    started = {bucket.partition_id for bucket in occupied if not is_tiered(ranges, bucket)}
    return frozenset(
        bucket.partition_id for bucket in buckets if bucket.partition_id is not None and bucket.partition_id in before | started
    )


def kept_archives(markers: Iterable[Marker | None], buckets: Collection[BucketKey]) -> frozenset[int] | None:
    """Returns `Marker.archives` of a reconciliation with `buckets`: all archives that readable markers record.

    None if a readable marker records no archives. Also None if there are buckets but no readable marker: the markers may be lost.
    """
    readable = [marker.archives for marker in markers if marker is not None]
    recorded = [archives for archives in readable if archives is not None]
    if len(recorded) < len(readable) or (not readable and buckets):
        return None
    living = {bucket.partition_id for bucket in buckets}
    return frozenset(partition_id for archives in recorded for partition_id in archives if partition_id in living)
