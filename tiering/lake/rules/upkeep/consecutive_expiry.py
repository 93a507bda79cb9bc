"""Which snapshots expire in a lake table whose snapshot ids must stay consecutive, such as a Paimon table. Pure.

Readers of such a table search a time by bisection over the ids, and a gap is an error for them (Paimon's `SnapshotManager`). So snapshots
expire from the oldest one on, and none in between is removed. These always stay:

    the newest tiering commit, and every newer snapshot
    the newest tiering commit when the round was assigned, and every newer snapshot: reads that were opened since need one of them
    the snapshot that a consumer reads next, and every newer snapshot
    the newest `min_count` snapshots
    every snapshot up to the age, or the count, that the lake table's own settings keep
    every snapshot that was the newest one within the last hour    Paimon's default of `snapshot.time-retained`

A snapshot expires once the next one is older than `max_age_ms`. So a query as of any time within the maximum age still works.
With a commit every 10 s, a day has thousands of snapshots of about 8 kB each. So of those that are older than an hour only the newest
MAX_SNAPSHOTS stay, unless the user configured how long they are kept.

Tags and branches have copies of their snapshots, so they keep no snapshot here. They keep files (`live_files`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tiering.lake.rules.upkeep.snapshot_expiry import NEWEST, NEWEST_OF_MAIN, REMOVED_AT_ONCE, YOUNG
from tiering.model.tables import SnapshotRetention

MAX_SNAPSHOTS = 500
"""Upper bound of the snapshots that stay by default, in addition to those of the last hour."""

UNBOUNDED_MS = 3_600_000
"""Snapshots that were the newest one within this time do not count: readers that follow the table may not have read them yet."""

OF_CONSUMERS = "not read yet by a consumer"
KEPT_BY_OPTIONS = "the lake table's own retention (snapshot.time-retained, snapshot.num-retained.min)"
NO_GAP = "an older one stays, and ids have no gaps"


@dataclass(frozen=True)
class ConsecutiveHistory:
    """The snapshots of a table, and the conditions that keep them.

    `committed_ms`: commit times, the oldest first; the oldest snapshot has the id `oldest`. `reserved`: ids that consumers read next.
    `kept_since`: as in `TableInfo`.
    `user_max_age_ms` and `user_min_count` are settings of the lake table. `is_bounded`: no option says how long snapshots are kept.
    """

    oldest: int
    committed_ms: Sequence[int]
    tiered: int
    reserved: Collection[int] = ()
    user_max_age_ms: int = 0
    user_min_count: int = 0
    is_bounded: bool = True
    kept_since: int | None = None


def oldest_kept(history: ConsecutiveHistory, retention: SnapshotRetention, now_ms: int, *, limit: int = REMOVED_AT_ONCE) -> int:
    """Returns the id of the oldest snapshot that stays. At most `limit` snapshots expire."""
    newest = history.oldest + len(history.committed_ms) - 1
    min_count = max(retention.min_count, history.user_min_count, 1)
    oldest_ms = now_ms - max(retention.max_age_ms, history.user_max_age_ms)
    since = history.tiered if history.kept_since is None else min(history.tiered, history.kept_since)
    stop = min((since, newest - min_count + 1, history.oldest + limit, *history.reserved))
    kept = history.oldest
    while kept < stop:
        replaced_ms = history.committed_ms[kept + 1 - history.oldest]
        is_surplus = history.is_bounded and kept <= newest - MAX_SNAPSHOTS and replaced_ms < now_ms - UNBOUNDED_MS
        if replaced_ms > oldest_ms and not is_surplus:
            break
        kept += 1
    return kept


def reasons_to_keep(history: ConsecutiveHistory, retention: SnapshotRetention, now_ms: int) -> Mapping[str, int]:
    """Returns how many snapshots stay for each reason. All other snapshots expire, by one commit or by several."""
    newest = history.oldest + len(history.committed_ms) - 1
    min_count, reserved = max(retention.min_count, 1), min(history.reserved, default=newest + 1)
    reasons: Counter[str] = Counter()
    for number in range(oldest_kept(history, retention, now_ms, limit=newest), newest + 1):
        age_ms = now_ms - history.committed_ms[min(number + 1, newest) - history.oldest]
        if number >= history.tiered:
            reasons[NEWEST] += 1
        elif number > newest - min_count:
            reasons[NEWEST_OF_MAIN] += 1
        elif number >= reserved:
            reasons[OF_CONSUMERS] += 1
        elif age_ms < retention.max_age_ms:
            reasons[YOUNG] += 1
        elif age_ms < history.user_max_age_ms or number > newest - history.user_min_count:
            reasons[KEPT_BY_OPTIONS] += 1
        else:
            reasons[NO_GAP] += 1
    return dict(sorted(reasons.items()))
