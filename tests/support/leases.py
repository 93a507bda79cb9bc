"""For worlds without KV snapshots: lease calls that nobody makes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tiering.effects import SystemClock
from tiering.model import TableBucket
from tiering.round.base import Transport
from tiering.round.leases import LeaseKeeper


class NoLeaseCalls:
    """For transports of tests: there is nothing to lease."""

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        raise AssertionError("nothing is leased here")

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> None:
        raise AssertionError("nothing is leased here")

    def drop_lease(self, lease_id: str) -> None:
        raise AssertionError("nothing is leased here")


def keeper(transport: Transport) -> LeaseKeeper:
    """A keeper that is never asked to keep anything."""
    return LeaseKeeper(transport, SystemClock(), "lease-of-tests")
