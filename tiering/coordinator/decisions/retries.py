"""How many slots the retries of failing tables may take: a round that hangs has its slot until a deadline, and others wait for it.

Retries get the share of slots that failing tables are of all tables, and at least RETRY_SHARE: a few bad tables leave most slots to the
others, however often they are tried, and after an outage of the lake, when nearly all tables failed, nearly all slots are theirs.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiering.coordinator.decisions.records import TableRecord, Trigger

RETRY_SHARE = 0.25
"""Of the slots of all tierers; one slot at least, or failing tables were never tried again."""

AGAIN = 2
"""From so many failures in a row on the next round will hardly go well: most faults that pass do so within one back-off."""


def is_retry(record: TableRecord) -> bool:
    """Whether the table's round follows a failure, by itself: one that a CALL waits for is not held back."""
    return record.consecutive_failures > 0 and not (record.round is not None and record.round.trigger is Trigger.CALL)


def fails_again_and_again(record: TableRecord) -> bool:
    """Whether the table failed more than once in a row: it does not overtake others because it is late."""
    return record.consecutive_failures >= AGAIN


def may_retry(running: Iterable[TableRecord], slots: int, failing: int, tables: int) -> bool:
    """Whether another retry may begin. `slots`: of all tierers; `failing`: how many of all `tables` failed with their latest rounds."""
    share = max(RETRY_SHARE, failing / max(tables, 1))
    return sum(map(is_retry, running)) < max(1, int(slots * share))
