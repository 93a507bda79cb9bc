"""Lease calls of transports in tests: to a coordinator in this process, or none at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tiering.clock import SystemClock
from tiering.coordinator.tierers.leases import Leases
from tiering.model.tables import TableBucket
from tiering.round.lease_keeper import LeaseKeeper
from tiering.round.ports import Transport
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import SNAPSHOTS_TO_LEASE, TABLE_BUCKET


class NoLeaseCalls:
    """For transports of tests: there is nothing to lease."""

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        raise AssertionError("nothing is leased here")

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> None:
        raise AssertionError("nothing is leased here")

    def drop_lease(self, lease_id: str) -> None:
        raise AssertionError("nothing is leased here")


class DirectLeaseCalls:
    """For transports that call a coordinator in this process."""

    def lease_service(self) -> Leases:
        raise NotImplementedError

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        wanted = SNAPSHOTS_TO_LEASE.to_pb(snapshots)
        request = pb.AcquireKvSnapshotLeaseRequest(lease_id=lease_id, lease_duration_ms=ttl_ms, snapshots_to_lease=wanted)
        return set(SNAPSHOTS_TO_LEASE.from_pb(self.lease_service().acquire(request).unavailable_snapshots))

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> None:
        request = pb.ReleaseKvSnapshotLeaseRequest(lease_id=lease_id, buckets_to_release=map(TABLE_BUCKET.to_pb, buckets))
        self.lease_service().release(request)

    def drop_lease(self, lease_id: str) -> None:
        self.lease_service().drop(pb.DropKvSnapshotLeaseRequest(lease_id=lease_id))


def keeper(transport: Transport) -> LeaseKeeper:
    """A keeper that is never asked to keep anything."""
    return LeaseKeeper(transport, SystemClock(), "lease-of-tests")
