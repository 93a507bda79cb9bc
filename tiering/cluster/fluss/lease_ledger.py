"""The ledger of leases on KV snapshots that were taken through this coordinator: Fluss keeps leases, but cannot list them.

A lease is added to the ledger before Fluss has it, and removed after Fluss has released it. After a crash in between, a lease is listed
until it expires; an existing lease is never missing. Times are wall times, as in Fluss, which deletes expired leases every ten minutes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from tiering.cluster.fluss.memory import SCHEMA
from tiering.cluster.lease_rules import MAX_OWNER_LENGTH
from tiering.errors import StoreError
from tiering.instants import from_microseconds, to_microseconds
from tiering.model.leases import KvSnapshotLease, LeasedSnapshot
from tiering.model.tables import BucketKey, TableBucket

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
        """Returns all leases, without those that Fluss has deleted by now. Implements `LeaseListing.leases`."""
        with _border("read"), self._engine.connect() as connection:
            leases = connection.execute(sa.select(_leases).where(~_swept(now)).order_by(_leases.c.lease_id)).all()
            rows = connection.execute(sa.select(_leased).order_by(_leased.c.table_id, _leased.c.partition_id, _leased.c.bucket_id)).all()
        snapshots: dict[str, list[LeasedSnapshot]] = {}
        for row in rows:
            available = False if row.is_gone else None
            snapshots.setdefault(row.lease_id, []).append(LeasedSnapshot(_place(row), row.snapshot_id, row.log_offset, available))
        return [_lease(row, tuple(snapshots.get(row.lease_id, ()))) for row in leases]

    def entries(self, lease_id: str) -> Mapping[TableBucket, SnapshotEntry] | None:
        """Returns the snapshots of a lease; None if the lease does not exist."""
        with _border("read"), self._engine.connect() as connection:
            if connection.execute(sa.select(_leases.c.lease_id).where(_leases.c.lease_id == lease_id)).first() is None:
                return None
            rows = connection.execute(sa.select(_leased).where(_leased.c.lease_id == lease_id)).all()
        return {_place(row): SnapshotEntry(row.snapshot_id, row.log_offset, row.is_gone) for row in rows}

    def count(self) -> int:
        """Returns the number of leases."""
        with _border("read"), self._engine.connect() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(_leases)).scalar_one()

    def sweep(self, now: datetime) -> None:
        """Deletes leases that Fluss has deleted by now."""
        with _border("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_leases).where(_swept(now)))
            connection.execute(sa.delete(_leased).where(_leased.c.lease_id.not_in(sa.select(_leases.c.lease_id))))

    def renew(self, lease_id: str, ttl_ms: int, owner: str | None, now: datetime, entries: Mapping[TableBucket, SnapshotEntry]) -> None:
        """Creates or renews a lease, and replaces its entries of the buckets in `entries`. An owner of None keeps the former owner."""
        renewal = {"renewed_us": to_microseconds(now), "ttl_ms": ttl_ms} | ({} if owner is None else {"owner": owner[:MAX_OWNER_LENGTH]})
        with _border("write"), self._engine.begin() as connection:
            if not connection.execute(sa.update(_leases).where(_leases.c.lease_id == lease_id).values(renewal)).rowcount:
                connection.execute(sa.insert(_leases).values(lease_id=lease_id, acquired_us=to_microseconds(now), **renewal))
            for place, entry in entries.items():
                connection.execute(sa.delete(_leased).where(_is_entry(lease_id, place)))
                connection.execute(sa.insert(_leased).values(lease_id=lease_id, **_key(place), **vars(entry)))

    def remove(self, lease_id: str, places: Collection[TableBucket]) -> None:
        """Removes buckets of a lease, and the lease if none is left."""
        with _border("write"), self._engine.begin() as connection:
            for place in places:
                connection.execute(sa.delete(_leased).where(_is_entry(lease_id, place)))
            is_empty = ~sa.exists().where(_leased.c.lease_id == lease_id)
            connection.execute(sa.delete(_leases).where(_leases.c.lease_id == lease_id, is_empty))

    def drop(self, lease_id: str) -> bool:
        """Removes a lease; returns False if it did not exist."""
        with _border("write"), self._engine.begin() as connection:
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


@contextmanager
def _border(doing: str) -> Iterator[None]:
    """Converts errors of the database to StoreError, with the cause kept."""
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        text = str(getattr(error, "orig", None) or error)
        raise StoreError(f"cannot {doing} the ledger of leases: {text}", hint="Check the disk of the coordinator's data folder.") from error
