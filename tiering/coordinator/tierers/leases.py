"""Lease calls of tierers, forwarded to the cluster. The cluster owns the leases, because its clean-up must see them (DESIGN 2)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import structlog

from tiering.access.request_bounds import informative
from tiering.cluster.base import KvSnapshotLeases
from tiering.cluster.lease_rules import check_size
from tiering.coordinator.decisions.records import EventRecord, Level
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.tierers.bound_identity import bound_lease_id
from tiering.model.tables import TableBucket
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import SNAPSHOTS_TO_LEASE, TABLE_BUCKET

_log = structlog.get_logger(__name__)

SNAPSHOTS_NOT_LEASED = "KV_SNAPSHOTS_NOT_LEASED"
"""The event type for KV snapshots that a tierer asked to keep alive but that no longer exist."""

MOST_NAMED = 10
"""Upper bound of snapshots that a message names one by one."""

MOST_DETAILED = 1_000
"""Upper bound of snapshots that the details of an event name. A request may name very many."""

MOST_TABLES = 100
"""Upper bound of tables of one request that get an event. A tierer's rounds have some dozens; other tables may not exist."""


class Leases:
    """The lease calls. It is thread-safe; every call may raise ClusterUnavailable."""

    def __init__(self, cluster: KvSnapshotLeases, table_records: TableRecords) -> None:
        self._cluster = cluster
        self._table_records = table_records

    def acquire(self, request: pb.AcquireKvSnapshotLeaseRequest) -> pb.AcquireKvSnapshotLeaseResponse:
        """Acquires or renews a lease, and returns the unavailable snapshots.

        Raises InvalidArgument (lease id, duration), UnknownLease (a renewal of a lease that expired), StoreError, Fenced.
        """
        check_size(len(request.snapshots_to_lease))
        snapshots = SNAPSHOTS_TO_LEASE.from_pb(request.snapshots_to_lease)
        owner = informative(request.owner) if request.HasField("owner") else None
        lease_id = bound_lease_id(request.lease_id)
        buckets = self._cluster.acquire_lease(lease_id, request.lease_duration_ms, snapshots, owner)
        unavailable = {bucket: snapshots[bucket] for bucket in buckets}
        if unavailable:
            self.report_unleased(lease_id, unavailable)
        return pb.AcquireKvSnapshotLeaseResponse(unavailable_snapshots=SNAPSHOTS_TO_LEASE.to_pb(unavailable))

    def release(self, request: pb.ReleaseKvSnapshotLeaseRequest) -> pb.ReleaseKvSnapshotLeaseResponse:
        """Releases buckets and returns those that were leased. Raises InvalidArgument for too many."""
        check_size(len(request.buckets_to_release))
        buckets = [TABLE_BUCKET.from_pb(bucket) for bucket in request.buckets_to_release]
        released = self._cluster.release_lease(bound_lease_id(request.lease_id), buckets)
        return pb.ReleaseKvSnapshotLeaseResponse(released_buckets=map(TABLE_BUCKET.to_pb, released))

    def drop(self, request: pb.DropKvSnapshotLeaseRequest) -> pb.DropKvSnapshotLeaseResponse:
        """Drops a lease and returns whether it existed."""
        return pb.DropKvSnapshotLeaseResponse(dropped=self._cluster.drop_lease(bound_lease_id(request.lease_id)))

    def report_unleased(self, lease_id: str, snapshots: Mapping[TableBucket, int]) -> None:
        """Writes a log line and an event for each table with KV snapshots that could not be leased. Raises StoreError, Fenced."""
        by_table: dict[int, dict[str, int]] = {}
        for bucket in sorted(snapshots, key=lambda bucket: (bucket.table_id, str(bucket.bucket))):
            by_table.setdefault(bucket.table_id, {})[str(bucket.bucket)] = snapshots[bucket]
        named = dict(islice(by_table.items(), MOST_TABLES))
        with self._table_records.changing():
            events = [self._event(table_id, lease_id, by_bucket) for table_id, by_bucket in named.items()]
            self._table_records.put(events=events)
        for event in events:
            _log.warning(event.message, table=f"{event.database_name}.{event.table_name}", lease_id=lease_id)

    def _event(self, table_id: int, lease_id: str, by_bucket: Mapping[str, int]) -> EventRecord:
        record = self._table_records.get(table_id)
        named = ", ".join(f"{snapshot_id} of bucket {bucket}" for bucket, snapshot_id in list(by_bucket.items())[:MOST_NAMED])
        more = f", and {len(by_bucket) - MOST_NAMED} more" if len(by_bucket) > MOST_NAMED else ""
        return EventRecord(
            occurred_at=self._table_records.now().wall,
            level=Level.WARN,
            event_type=SNAPSHOTS_NOT_LEASED,
            message=f"KV snapshots could not be leased, because newer ones superseded them: {named}{more}",
            database_name=record.database_name if record else None,
            table_name=record.table_name if record else None,
            round_id=record.running.round_id if record and record.running else None,
            details={"table_id": table_id, "lease_id": lease_id, "snapshots": dict(islice(by_bucket.items(), MOST_DETAILED))},
        )
