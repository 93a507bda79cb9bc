"""How long a failing table waits before its next round, and how many slots the retries of failing tables may use.

**Wait.** It doubles with each failure in a row, from `backoff_min_ms` to `backoff_max_ms`. So a lasting fault is not retried every second,
and a short fault costs a second. Jitter subtracts up to half, so that tables that failed together do not all retry at the same time; all
tables fail together when the lake's catalog is down. Success and CALL sys.retry_tiering reset the wait. A failure that a retry cannot
resolve has no back-off: it waits for a CALL or a change of the table.

**Slots.** A round that hangs keeps its slot until a deadline while other tables wait. Retries get the share of slots that failing tables
have of all tables, and at least RETRY_SHARE. So a few bad tables leave most slots to the other tables. After an outage of the lake, when
nearly all tables have failed, retries get nearly all slots.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiering.coordinator.decisions.records import TableRecord, Trigger
from tiering.coordinator.options import CoordinatorOptions

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


MAX_DOUBLINGS = 30
"""Upper bound of the exponent. After weeks of failures the power of two would otherwise have thousands of digits."""


def backoff_ms(failures: int, jitter: float, options: CoordinatorOptions) -> int:
    """Returns the milliseconds to wait after this many consecutive failures. `jitter` is in [0, 1)."""
    doubled = options.backoff_min_ms * 2 ** min(max(failures, 1) - 1, MAX_DOUBLINGS)
    longest = min(options.backoff_max_ms, doubled)
    return max(options.backoff_min_ms, int(longest * (1 - jitter / 2)))
