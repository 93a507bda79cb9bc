"""The lease calls of tierers: handed on to the cluster, which has the leases (DESIGN 2: its clean-up must see them)."""

from __future__ import annotations

from tiering.cluster.base import KvSnapshotLeases
from tiering.coordinator.tierers.bound_identity import bound_lease_id
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.leases import buckets_from_pb, buckets_to_pb, snapshots_from_pb, snapshots_to_pb
from tiering.wire.request_bounds import informative


class Leases:
    """Thread-safe. Every call may raise ClusterUnavailable."""

    def __init__(self, cluster: KvSnapshotLeases) -> None:
        self._cluster = cluster

    def acquire(self, request: pb.AcquireKvSnapshotLeaseRequest) -> pb.AcquireKvSnapshotLeaseResponse:
        """Answers the snapshots that are not there. Raises InvalidArgument (lease id, duration), UnknownLease (only renewed, and gone)."""
        snapshots = snapshots_from_pb(request.snapshots_to_lease)
        owner = informative(request.owner) if request.HasField("owner") else None
        unavailable = self._cluster.acquire_lease(bound_lease_id(request.lease_id), request.lease_duration_ms, snapshots, owner)
        return pb.AcquireKvSnapshotLeaseResponse(
            unavailable_snapshots=snapshots_to_pb({bucket: snapshots[bucket] for bucket in unavailable})
        )

    def release(self, request: pb.ReleaseKvSnapshotLeaseRequest) -> pb.ReleaseKvSnapshotLeaseResponse:
        """Answers the buckets that were leased."""
        released = self._cluster.release_lease(bound_lease_id(request.lease_id), buckets_from_pb(request.buckets_to_release))
        return pb.ReleaseKvSnapshotLeaseResponse(released_buckets=buckets_to_pb(released))

    def drop(self, request: pb.DropKvSnapshotLeaseRequest) -> pb.DropKvSnapshotLeaseResponse:
        """Answers whether there was such a lease."""
        return pb.DropKvSnapshotLeaseResponse(dropped=self._cluster.drop_lease(bound_lease_id(request.lease_id)))
