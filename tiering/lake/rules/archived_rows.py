"""Which rows of a lake table a new lake table would lack, because neither the cluster nor its log has them any more. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tiering.lake.rules.reconcile import Situation
from tiering.model.tables import TableType


def archived_rows(situation: Situation, rows: Mapping[str | None, int]) -> int:
    """Returns how many rows dropped partitions have in the lake. `rows`: by the partition's name; None = a partition that cannot be named.

    Rows under the name of a living partition are a dropped one's where the head's marker does not name the living one, or where they are
    more than the marker counts. Of a primary-key partition that was tiered since it was recreated it cannot be told; those are not counted.
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
    return archived
