"""Leases on KV snapshots of a Fluss cluster: they are taken in Fluss, and recorded in the ledger, because Fluss cannot list them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tiering.clock import Clock
from tiering.cluster.fluss.kv.snapshots import log_offsets_of
from tiering.cluster.fluss.lease_ledger import LeaseLedger, SnapshotEntry
from tiering.cluster.fluss.wire.api import LEASES
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import UNKNOWN_TABLE_OR_BUCKET, error_code
from tiering.cluster.lease_rules import check_lease, check_room
from tiering.errors import ClusterUnavailable, PeerTooOld, UnknownLease
from tiering.model.leases import KvSnapshotLease
from tiering.model.tables import TableBucket
from tiering.rpc.fluss import fluss_pb2 as pb

_UNKNOWN_FAILURE = -1
_NULL_TABLE_LEASE = "KvSnapshotTableLease"
"""Part of the failure with which 0.9.1 answers a release if the lease holds nothing of the table."""


class FlussLeases:
    """The `KvSnapshotLeases` of a Fluss cluster. Changes run one at a time.

    Fluss leases snapshots that do not exist, and may delete a superseded snapshot at any moment before its lease. So each snapshot is
    looked up before it is leased, and once more afterwards.
    """

    def __init__(self, client: FlussClient, ledger: LeaseLedger, clock: Clock) -> None:
        self._client = client
        self._ledger = ledger
        self._clock = clock
        self._changing = threading.Lock()

    def leases(self) -> Sequence[KvSnapshotLease]:
        """Returns the leases in the ledger. Raises StoreError. Implements `LeaseListing.leases`."""
        return self._ledger.leases(self._clock.now())

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        """Leases KV snapshots; returns the buckets whose snapshot is unavailable. Implements `KvSnapshotLeases.acquire_lease`.

        Fluss renews a lease by acquiring it again, so each call names all snapshots of the lease. Raises PeerTooOld for a Fluss without
        leases, StoreError.
        """
        check_lease(lease_id, ttl_ms)
        self._check_offered()
        with self._changing:
            now = self._clock.now()
            self._ledger.sweep(now)
            held_entries = self._ledger.entries(lease_id)
            if held_entries is None and not snapshots:
                raise UnknownLease(f"there is no lease {lease_id!r} to renew", hint="It may have expired: acquire the snapshots again.")
            if held_entries is None:
                check_room(self._ledger.count())
            return self._renew(lease_id, ttl_ms, owner, dict(snapshots), held_entries or {})

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> Collection[TableBucket]:
        """Releases buckets of a lease; returns the released ones. Raises PeerTooOld, StoreError. Implements
        `KvSnapshotLeases.release_lease`.
        """
        self._check_offered()
        with self._changing:
            held_entries = self._ledger.entries(lease_id) or {}
            released = {place: held_entries[place].snapshot_id for place in buckets if place in held_entries}
            self._release(lease_id, released)
            return list(released)

    def drop_lease(self, lease_id: str) -> bool:
        """Ends a lease. Raises PeerTooOld, StoreError. Implements `KvSnapshotLeases.drop_lease`."""
        self._check_offered()
        with self._changing:
            self._client.coordinator(pb.DropKvSnapshotLeaseRequest(lease_id=lease_id))
            return self._ledger.drop(lease_id)

    def _check_offered(self) -> None:
        if not self._client.offers(*LEASES):
            raise PeerTooOld(
                f"the Fluss cluster has no leases on KV snapshots ({', '.join(map(str, LEASES))})",
                hint="Use Fluss 0.9.1 or newer. Rounds continue without leases; a round whose KV snapshot is deleted meanwhile is retried.",
            )

    def _renew(
        self,
        lease_id: str,
        ttl_ms: int,
        owner: str | None,
        named: Mapping[TableBucket, int],
        held_entries: Mapping[TableBucket, SnapshotEntry],
    ) -> Collection[TableBucket]:
        """Looks up, leases and looks up again; returns the named buckets whose snapshot does not exist."""
        snapshot_ids = {**{place: entry.snapshot_id for place, entry in held_entries.items()}, **named}
        offsets = log_offsets_of(self._client, snapshot_ids)
        existing = {place: snapshot_id for place, snapshot_id in snapshot_ids.items() if place in offsets}
        if not held_entries and not existing:
            return list(named)
        entries = {place: SnapshotEntry(snapshot_id, offsets[place]) for place, snapshot_id in existing.items()}
        now = self._clock.now()
        self._ledger.renew(lease_id, ttl_ms, owner, now, entries)
        if existing:
            request = pb.AcquireKvSnapshotLeaseRequest(
                lease_id=lease_id, lease_duration_ms=ttl_ms, snapshots_to_lease=_leased_to_pb(existing)
            )
            self._client.coordinator(request)
            offsets = log_offsets_of(self._client, existing)
        gone = [place for place in snapshot_ids if place not in offsets]
        lost = {
            place: replace(held_entries[place], is_gone=True)
            for place in gone
            if place in held_entries and held_entries[place].snapshot_id == snapshot_ids[place]
        }
        self._ledger.renew(lease_id, ttl_ms, owner, now, lost)
        self._release(lease_id, {place: existing[place] for place in gone if place in existing and place not in lost})
        return [place for place in gone if place in named]

    def _release(self, lease_id: str, snapshots: Mapping[TableBucket, int]) -> None:
        """Releases buckets, table by table: 0.9.1 refuses a whole request because of one table that it does not know (any more)."""
        for table_id in {place.table_id for place in snapshots}:
            of_table = {place: snapshot_id for place, snapshot_id in snapshots.items() if place.table_id == table_id}
            request = pb.ReleaseKvSnapshotLeaseRequest(lease_id=lease_id, buckets_to_release=map(_place_to_pb, of_table))
            try:
                self._client.coordinator(request)
            except ClusterUnavailable as error:
                if not self._has_nothing_to_release(error, of_table):
                    raise
            self._ledger.remove(lease_id, list(of_table))

    def _has_nothing_to_release(self, error: ClusterUnavailable, snapshots: Mapping[TableBucket, int]) -> bool:
        """Returns whether the error of a refused release means that there is nothing to release."""
        if error_code(error) == UNKNOWN_TABLE_OR_BUCKET:  # a dropped table; or a table just after a start of Fluss's coordinator
            return not log_offsets_of(self._client, snapshots)
        return error_code(error) == _UNKNOWN_FAILURE and _NULL_TABLE_LEASE in error.message


def _leased_to_pb(snapshots: Mapping[TableBucket, int]) -> list[pb.PbKvSnapshotLeaseForTable]:
    tables: dict[int, pb.PbKvSnapshotLeaseForTable] = {}
    for place, snapshot_id in snapshots.items():
        table = tables.setdefault(place.table_id, pb.PbKvSnapshotLeaseForTable(table_id=place.table_id))
        table.bucket_snapshots.add(partition_id=place.bucket.partition_id, bucket_id=place.bucket.bucket_id, snapshot_id=snapshot_id)
    return list(tables.values())


def _place_to_pb(place: TableBucket) -> pb.PbTableBucket:
    return pb.PbTableBucket(table_id=place.table_id, partition_id=place.bucket.partition_id, bucket_id=place.bucket.bucket_id)
