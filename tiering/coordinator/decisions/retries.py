"""How many slots the retries of failing tables may use. A round that hangs keeps its slot until a deadline while other tables wait.

Retries get the share of slots that failing tables have of all tables, and at least RETRY_SHARE. So a few bad tables leave
most slots to the other tables. After an outage of the lake, when nearly all tables have failed, retries get nearly all slots.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiering.coordinator.decisions.records import TableRecord, Trigger

RETRY_SHARE = 0.25
"""Smallest share of all tierers' slots for retries. At least one slot is left for them; otherwise failing tables were never retried."""

REPEATED_FAILURES = 2
"""From this many consecutive failures on, the next round will probably fail, too: most temporary faults end within one back-off."""


def is_retry(record: TableRecord) -> bool:
    """Returns whether the table's round is an automatic retry. A round that a CALL waits for is not limited."""
    return record.consecutive_failures > 0 and not (record.round is not None and record.round.trigger is Trigger.CALL)


def fails_repeatedly(record: TableRecord) -> bool:
    """Returns whether the table failed more than once in a row. Then it does not overtake other tables because it is late."""
    return record.consecutive_failures >= REPEATED_FAILURES


def may_retry(running: Iterable[TableRecord], slots: int, failing: int, tables: int) -> bool:
    """Returns whether another retry may begin.

    `slots` is the number of slots of all tierers. `failing` is how many of all `tables` failed with their latest rounds.
    """
    share = max(RETRY_SHARE, failing / max(tables, 1))
    return sum(map(is_retry, running)) < max(1, int(slots * share))
