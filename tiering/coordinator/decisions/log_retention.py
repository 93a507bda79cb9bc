"""Whether the cluster may remove records from a log because the lake has them. Pure.

The cluster's record of the lake says what was tiered. It says nothing of what became of the lake table since: a user may have dropped
it, or rolled it back. The log is then the only place that has the rows.
"""

from __future__ import annotations

from datetime import timedelta

from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import TableRecord

CONFIRMED_FOR = timedelta(hours=2)
"""How long the success of a round confirms the lake table, at least. A healthy table has a round once in its freshness."""


def lake_is_confirmed(record: TableRecord | None, now: Moment) -> bool:
    """Whether a round succeeded lately, and none failed since. A round without rows counts: it checks the lake table, too.

    False for a table without a record, such as one that the coordinator has not discovered since a start on an empty store.
    """
    if record is None or record.state is None or record.error is not None:
        return False
    confirmed = [moment for moment in (record.last_checked_time, record.last_tiered_time) if moment is not None]
    valid_for = max(CONFIRMED_FOR, timedelta(milliseconds=2 * record.freshness_ms))
    return bool(confirmed) and abs(now.wall - max(confirmed)) <= valid_for
