"""What a lease on KV snapshots may be called and how long it may last. Pure; the same for every cluster, and for a dry run."""

from __future__ import annotations

from tiering.durations import format_duration
from tiering.errors import InvalidArgument
from tiering.request_bounds import check_id

MIN_TTL_MS = 1
MAX_TTL_MS = 7 * 24 * 60 * 60 * 1_000
"""A week: a claim that nobody renews must end in a time that a disk survives."""
MAX_ID_LENGTH = 200


def check_lease(lease_id: str, ttl_ms: int) -> None:
    """Raises InvalidArgument naming the bounds."""
    check_id(lease_id, "a lease id", MAX_ID_LENGTH)
    if not MIN_TTL_MS <= ttl_ms <= MAX_TTL_MS:
        raise InvalidArgument(
            f"a lease cannot last {ttl_ms} ms; it must be between {MIN_TTL_MS} ms and {format_duration(MAX_TTL_MS)}",
            hint="Take a shorter one and renew it." if ttl_ms > MAX_TTL_MS else "A lease is ended by dropping it.",
        )
