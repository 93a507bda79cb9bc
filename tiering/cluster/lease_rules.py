"""Limits on ids, durations and numbers of leases on KV snapshots, the same for every cluster and for a dry run. Pure."""

from __future__ import annotations

from tiering.access.request_bounds import check_id
from tiering.durations import format_duration
from tiering.errors import InvalidArgument

MIN_TTL_MS = 1
MAX_TTL_MS = 7 * 24 * 60 * 60 * 1_000
"""One week, in milliseconds. A lease that is not renewed must end before the files that it keeps fill a disk."""
MAX_ID_LENGTH = 200
MAX_OWNER_LENGTH = 200
MAX_LEASES = 10_000
"""Largest number of leases at one time. One lease for each tierer and manual reader makes some dozens. Each lease keeps files on disk."""

MAX_LEASED = 100_000
"""Largest number of KV snapshots that one request leases or releases: all buckets of the largest tables."""


def check_size(snapshots: int) -> None:
    """Raises InvalidArgument for a request with too many snapshots."""
    if snapshots > MAX_LEASED:
        raise InvalidArgument(
            f"a request names at most {MAX_LEASED} KV snapshots; this one has {snapshots}", hint="Send several with the same lease id."
        )


def check_lease(lease_id: str, ttl_ms: int) -> None:
    """Raises InvalidArgument, which names the limits, for an id or a duration outside of them."""
    check_id(lease_id, "a lease id", MAX_ID_LENGTH)
    if not MIN_TTL_MS <= ttl_ms <= MAX_TTL_MS:
        raise InvalidArgument(
            f"a lease cannot last {ttl_ms} ms; it must be between {MIN_TTL_MS} ms and {format_duration(MAX_TTL_MS)}",
            hint="Take a shorter duration and renew the lease." if ttl_ms > MAX_TTL_MS else "To end a lease, drop it.",
        )


def check_room(leases: int) -> None:
    """Raises InvalidArgument if the number of leases is at its limit."""
    if leases >= MAX_LEASES:
        raise InvalidArgument(
            f"there are {leases} leases already, which is the limit",
            hint="See sys.kv_snapshot_leases; CALL sys.drop_kv_snapshot_lease ends leases that are not needed any more.",
        )
