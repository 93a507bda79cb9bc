"""Leases on KV snapshots of a Fluss cluster: they are taken in Fluss, and recorded in the ledger, because Fluss cannot list them.

A lease is added to the ledger before Fluss has it, and removed after Fluss has released it. After a crash in between, a lease is listed
until it expires; an existing lease is never missing. Times are wall times, as in Fluss, which deletes expired leases every ten minutes.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from tiering.clock import Clock
from tiering.cluster.fluss.kv.snapshots import log_offsets_of
from tiering.cluster.fluss.memory import SCHEMA, ledger_errors
from tiering.cluster.fluss.wire.api import LEASES
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import UNKNOWN_SERVER_ERROR, UNKNOWN_TABLE_OR_BUCKET, error_code
from tiering.cluster.lease_rules import MAX_OWNER_LENGTH, check_lease, check_room
from tiering.errors import ClusterUnavailable, PeerTooOld, UnknownLease
from tiering.instants import from_microseconds, to_microseconds
from tiering.model.leases import KvSnapshotLease, LeasedSnapshot
from tiering.model.tables import BucketKey, TableBucket
from tiering.rpc.fluss import fluss_pb2 as pb

SWEEP = timedelta(minutes=10)
"""Longest time that an expired lease continues to exist in Fluss, where it can still be renewed."""
_NO_PARTITION = -1
"""Stands for no partition; Fluss's partition ids start at 0."""

_leases = sa.Table(
    "kv_snapshot_leases",
    SCHEMA,
    sa.Column("lease_id", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text),
    sa.Column("acquired_us", sa.BigInteger, nullable=False),
    sa.Column("renewed_us", sa.BigInteger, nullable=False),
    sa.Column("ttl_ms", sa.BigInteger, nullable=False),
)
_leased = sa.Table(
    "leased_kv_snapshots",
    SCHEMA,
    sa.Column("lease_id", sa.Text, primary_key=True),
    sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("partition_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("bucket_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("snapshot_id", sa.BigInteger, nullable=False),
    sa.Column("log_offset", sa.BigInteger, nullable=False),
    sa.Column("is_gone", sa.Boolean, nullable=False),
)


@dataclass(frozen=True)
class SnapshotEntry:
    """A leased snapshot of one bucket. `is_gone`: Fluss did not have it when it was last looked up."""

    snapshot_id: int
    log_offset: int
    is_gone: bool = False


class LeaseLedger:
    """The ledger in one database. Safe to use from several threads; every call may raise StoreError."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def leases(self, now: datetime) -> Sequence[KvSnapshotLease]:
        """Returns all leases, without those that Fluss has deleted by now."""
        with ledger_errors("read the ledger of leases"), self._engine.connect() as connection:
            leases = connection.execute(sa.select(_leases).where(~_swept(now)).order_by(_leases.c.lease_id)).all()
            rows = connection.execute(sa.select(_leased).order_by(_leased.c.table_id, _leased.c.partition_id, _leased.c.bucket_id)).all()
        snapshots: defaultdict[str, list[LeasedSnapshot]] = defaultdict(list)
        for row in rows:
            available = False if row.is_gone else None
            snapshots[row.lease_id].append(LeasedSnapshot(_place(row), row.snapshot_id, row.log_offset, available))
        return [_lease(row, tuple(snapshots[row.lease_id])) for row in leases]

    def entries(self, lease_id: str) -> Mapping[TableBucket, SnapshotEntry] | None:
        """Returns the snapshots of a lease; None if the lease does not exist."""
        with ledger_errors("read the ledger of leases"), self._engine.connect() as connection:
            if connection.execute(sa.select(_leases.c.lease_id).where(_leases.c.lease_id == lease_id)).first() is None:
                return None
            rows = connection.execute(sa.select(_leased).where(_leased.c.lease_id == lease_id)).all()
        return {_place(row): SnapshotEntry(row.snapshot_id, row.log_offset, row.is_gone) for row in rows}

    def count(self) -> int:
        """Returns the number of leases."""
        with ledger_errors("read the ledger of leases"), self._engine.connect() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(_leases)).scalar_one()

    def sweep(self, now: datetime) -> None:
        """Deletes leases that Fluss has deleted by now."""
        with ledger_errors("write the ledger of leases"), self._engine.begin() as connection:
            connection.execute(sa.delete(_leases).where(_swept(now)))
            connection.execute(sa.delete(_leased).where(_leased.c.lease_id.not_in(sa.select(_leases.c.lease_id))))

    def renew(self, lease_id: str, ttl_ms: int, owner: str | None, now: datetime, entries: Mapping[TableBucket, SnapshotEntry]) -> None:
        """Creates or renews a lease, and replaces its entries of the buckets in `entries`. An owner of None keeps the former owner."""
        renewal = {"renewed_us": to_microseconds(now), "ttl_ms": ttl_ms} | ({} if owner is None else {"owner": owner[:MAX_OWNER_LENGTH]})
        with ledger_errors("write the ledger of leases"), self._engine.begin() as connection:
            if not connection.execute(sa.update(_leases).where(_leases.c.lease_id == lease_id).values(renewal)).rowcount:
                connection.execute(sa.insert(_leases).values(lease_id=lease_id, acquired_us=to_microseconds(now), **renewal))
            for place, entry in entries.items():
                connection.execute(sa.delete(_leased).where(_is_entry(lease_id, place)))
                connection.execute(sa.insert(_leased).values(lease_id=lease_id, **_key(place), **vars(entry)))

    def remove(self, lease_id: str, places: Collection[TableBucket]) -> None:
        """Removes buckets of a lease, and the lease if none is left."""
        with ledger_errors("write the ledger of leases"), self._engine.begin() as connection:
            for place in places:
                connection.execute(sa.delete(_leased).where(_is_entry(lease_id, place)))
            is_empty = ~sa.exists().where(_leased.c.lease_id == lease_id)
            connection.execute(sa.delete(_leases).where(_leases.c.lease_id == lease_id, is_empty))

    def drop(self, lease_id: str) -> bool:
        """Removes a lease; returns False if it did not exist."""
        with ledger_errors("write the ledger of leases"), self._engine.begin() as connection:
            connection.execute(sa.delete(_leased).where(_leased.c.lease_id == lease_id))
            return connection.execute(sa.delete(_leases).where(_leases.c.lease_id == lease_id)).rowcount > 0


def _swept(now: datetime) -> sa.ColumnElement[bool]:
    return _leases.c.renewed_us + _leases.c.ttl_ms * 1_000 <= to_microseconds(now - SWEEP)


def _lease(row: sa.Row[Any], snapshots: tuple[LeasedSnapshot, ...]) -> KvSnapshotLease:
    renewed_at = from_microseconds(row.renewed_us)
    return KvSnapshotLease(
        lease_id=row.lease_id,
        acquired_at=from_microseconds(row.acquired_us),
        renewed_at=renewed_at,
        expires_at=renewed_at + timedelta(milliseconds=row.ttl_ms),
        ttl_ms=row.ttl_ms,
        snapshots=snapshots,
        owner=row.owner,
    )


def _place(row: sa.Row[Any]) -> TableBucket:
    return TableBucket(row.table_id, BucketKey(None if row.partition_id == _NO_PARTITION else row.partition_id, row.bucket_id))


def _key(place: TableBucket) -> Mapping[str, int]:
    partition_id = place.bucket.partition_id
    return {
        "table_id": place.table_id,
        "partition_id": _NO_PARTITION if partition_id is None else partition_id,
        "bucket_id": place.bucket.bucket_id,
    }


def _is_entry(lease_id: str, place: TableBucket) -> sa.ColumnElement[bool]:
    return sa.and_(_leased.c.lease_id == lease_id, *(_leased.c[name] == value for name, value in _key(place).items()))


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
        """Returns the leases in the ledger. Raises StoreError."""
        return self._ledger.leases(self._clock.now())

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        """Leases KV snapshots; returns the buckets whose snapshot is unavailable.

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
        """Releases buckets of a lease; returns the released ones. Raises PeerTooOld, StoreError."""
        self._check_offered()
        with self._changing:
            held_entries = self._ledger.entries(lease_id) or {}
            released = {place: held_entries[place].snapshot_id for place in buckets if place in held_entries}
            self._release(lease_id, released)
            return list(released)

    def drop_lease(self, lease_id: str) -> bool:
        """Ends a lease. Raises PeerTooOld, StoreError."""
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
        released = [place for place in snapshot_ids if place not in offsets]
        lost = {
            place: replace(held_entries[place], is_gone=True)
            for place in released
            if place in held_entries and held_entries[place].snapshot_id == snapshot_ids[place]
        }
        self._ledger.renew(lease_id, ttl_ms, owner, now, lost)
        self._release(lease_id, {place: existing[place] for place in released if place in existing and place not in lost})
        return [place for place in released if place in named]

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
        return error_code(error) == UNKNOWN_SERVER_ERROR and _NULL_TABLE_LEASE in error.message


def _leased_to_pb(snapshots: Mapping[TableBucket, int]) -> list[pb.PbKvSnapshotLeaseForTable]:
    tables: dict[int, pb.PbKvSnapshotLeaseForTable] = {}
    for place, snapshot_id in snapshots.items():
        table = tables.setdefault(place.table_id, pb.PbKvSnapshotLeaseForTable(table_id=place.table_id))
        table.bucket_snapshots.add(partition_id=place.bucket.partition_id, bucket_id=place.bucket.bucket_id, snapshot_id=snapshot_id)
    return list(tables.values())


def _place_to_pb(place: TableBucket) -> pb.PbTableBucket:
    return pb.PbTableBucket(table_id=place.table_id, partition_id=place.bucket.partition_id, bucket_id=place.bucket.bucket_id)
