"""What a lease on KV snapshots may be called and how long it may last. Pure; the same for every cluster, and for a dry run."""

from __future__ import annotations

from tiering.durations import format_duration
from tiering.errors import InvalidArgument
from tiering.wire.request_bounds import check_id

MIN_TTL_MS = 1
MAX_TTL_MS = 7 * 24 * 60 * 60 * 1_000
"""A week: a claim that nobody renews must end in a time that a disk survives."""
MAX_ID_LENGTH = 200
MAX_OWNER_LENGTH = 200
MAX_LEASES = 10_000
"""At one time: one a tierer and one a reader by hand are some dozens. Each keeps files on disk that nobody else needs."""

MAX_LEASED = 100_000
"""KV snapshots that one request leases or releases: all buckets of the largest tables."""


def check_size(snapshots: int) -> None:
    """Raises InvalidArgument for a request with too many snapshots."""
    if snapshots > MAX_LEASED:
        raise InvalidArgument(
            f"a request names at most {MAX_LEASED} KV snapshots; this one has {snapshots}", hint="Send several, under the same lease id."
        )


def check_lease(lease_id: str, ttl_ms: int) -> None:
    """Raises InvalidArgument naming the bounds."""
    check_id(lease_id, "a lease id", MAX_ID_LENGTH)
    if not MIN_TTL_MS <= ttl_ms <= MAX_TTL_MS:
        raise InvalidArgument(
            f"a lease cannot last {ttl_ms} ms; it must be between {MIN_TTL_MS} ms and {format_duration(MAX_TTL_MS)}",
            hint="Take a shorter one and renew it." if ttl_ms > MAX_TTL_MS else "A lease is ended by dropping it.",
        )


def check_room(leases: int) -> None:
    """Raises InvalidArgument if so many leases are there that there is room for no other."""
    if leases >= MAX_LEASES:
        raise InvalidArgument(
            f"there are {leases} leases already, and no room for another",
            hint="See sys.kv_snapshot_leases; CALL sys.drop_kv_snapshot_lease ends those that nobody needs.",
        )
