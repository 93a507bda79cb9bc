"""How long a table waits after failures before its next round.

The wait doubles with each failure in a row, from `backoff_min_ms` to `backoff_max_ms`: a fault that lasts is not asked about
every second, and one that passes costs a second. Jitter takes off up to half, so that tables that failed together, as all do
when the lake's catalog is away, do not all come back at once. Success and CALL sys.retry_tiering begin anew. A failure for
which a retry cannot help has no back-off: it waits for a CALL or a change of the table.
"""

from __future__ import annotations

from tiering.coordinator.options import CoordinatorOptions

MAX_DOUBLINGS = 30
"""Bounds the power of two: after many weeks of failures it would be a number of thousands of digits."""


def backoff_ms(failures: int, jitter: float, options: CoordinatorOptions) -> int:
    """Milliseconds to wait after so many failures in a row. `jitter` is in [0, 1)."""
    doubled = options.backoff_min_ms * 2 ** min(max(failures, 1) - 1, MAX_DOUBLINGS)
    longest = min(options.backoff_max_ms, doubled)
    return max(options.backoff_min_ms, int(longest * (1 - jitter / 2)))
