"""How long a table waits after failures before its next round.

The wait doubles with each failure in a row, from `backoff_min_ms` to `backoff_max_ms`. So a lasting fault is not retried every second, and
a short fault costs a second. Jitter subtracts up to half, so that tables that failed together do not all retry at the same time; all tables
fail together when the lake's catalog is down. Success and CALL sys.retry_tiering reset the wait. A failure that a retry cannot resolve has
no back-off: it waits for a CALL or a change of the table.
"""

from __future__ import annotations

from tiering.coordinator.options import CoordinatorOptions

MAX_DOUBLINGS = 30
"""Upper bound of the exponent. After weeks of failures the power of two would otherwise have thousands of digits."""


def backoff_ms(failures: int, jitter: float, options: CoordinatorOptions) -> int:
    """Returns the milliseconds to wait after this many consecutive failures. `jitter` is in [0, 1)."""
    doubled = options.backoff_min_ms * 2 ** min(max(failures, 1) - 1, MAX_DOUBLINGS)
    longest = min(options.backoff_max_ms, doubled)
    return max(options.backoff_min_ms, int(longest * (1 - jitter / 2)))
