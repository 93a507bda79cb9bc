"""KV snapshots in the metadata: which exist, and which may be removed. The functions use one connection.

Ids increase and are never reused. The newest RETAINED snapshots of a bucket stay, and all leased ones. Files of a deleted snapshot are
removed from the disk afterwards; a crash in between leaves files that the next start removes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from tiering.cluster.embedded.kv.snapshot_files import SnapshotFile, StoredSnapshot
from tiering.cluster.embedded.metadata.database import among, bucket_columns, bucket_key, in_bucket, kv_snapshots, leased_snapshots
from tiering.instants import from_microseconds, to_microseconds
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, TableBucket, TableInfo

RETAINED = 2
"""Number of kept snapshots of each bucket: the newest, and the one that a reader may just have looked up."""


def newest_snapshots(
    connection: sa.Connection, table_id: int, files_exist: Callable[[StoredSnapshot], bool]
) -> Mapping[BucketKey, KvSnapshot]:
    """Returns, for each bucket, the newest snapshot whose files exist, in the order of the ids. A plan with a snapshot without files could
    never be read.
    """
    query = sa.select(kv_snapshots).where(kv_snapshots.c.table_id == table_id).order_by(kv_snapshots.c.snapshot_id.desc())
    newest: dict[BucketKey, KvSnapshot] = {}
    for row in connection.execute(query):
        bucket = bucket_key(row.partition_id, row.bucket_id)
        if bucket not in newest and files_exist(stored_snapshot(row)):
            newest[bucket] = KvSnapshot(row.snapshot_id, row.log_offset)
    return dict(reversed(newest.items()))


def oldest_offsets(connection: sa.Connection, table_id: int) -> Mapping[BucketKey, int]:
    """Returns the lowest log offset of each bucket's snapshots: from there on the log is needed."""
    columns = (kv_snapshots.c.partition_id, kv_snapshots.c.bucket_id)
    lowest = sa.func.min(kv_snapshots.c.log_offset).label("lowest")
    rows = connection.execute(sa.select(*columns, lowest).where(kv_snapshots.c.table_id == table_id).group_by(*columns))
    return {bucket_key(row.partition_id, row.bucket_id): row.lowest for row in rows}


def snapshots_of_bucket(connection: sa.Connection, table_id: int, bucket: BucketKey) -> Sequence[StoredSnapshot]:
    """Returns all snapshots of a bucket, the newest first."""
    condition = in_bucket(kv_snapshots, table_id, bucket)
    return [
        stored_snapshot(row)
        for row in connection.execute(sa.select(kv_snapshots).where(condition).order_by(kv_snapshots.c.snapshot_id.desc()))
    ]


def find_snapshot(connection: sa.Connection, table_id: int, bucket: BucketKey, snapshot_id: int) -> StoredSnapshot | None:
    """Returns a snapshot; None if it does not exist (any more) or belongs to another bucket."""
    condition = in_bucket(kv_snapshots, table_id, bucket) & (kv_snapshots.c.snapshot_id == snapshot_id)
    row = connection.execute(sa.select(kv_snapshots).where(condition)).first()
    return None if row is None else stored_snapshot(row)


def find_snapshots(connection: sa.Connection, snapshots: Mapping[TableBucket, int]) -> dict[TableBucket, StoredSnapshot]:
    """Returns the existing ones of the named snapshots (bucket -> snapshot id), with one query."""
    query = sa.select(kv_snapshots).where(kv_snapshots.c.snapshot_id.in_(among(snapshots.values())))
    stored = {row.snapshot_id: row for row in connection.execute(query)}
    rows = ((table_bucket, stored.get(snapshot_id)) for table_bucket, snapshot_id in snapshots.items())
    return {
        table_bucket: stored_snapshot(row)
        for table_bucket, row in rows
        if row is not None and table_bucket == TableBucket(row.table_id, bucket_key(row.partition_id, row.bucket_id))
    }


def last_snapshot_times(connection: sa.Connection) -> dict[int, datetime]:
    """Returns when the last snapshot of any bucket was taken, by table id."""
    query = sa.select(kv_snapshots.c.table_id, sa.func.max(kv_snapshots.c.created_us)).group_by(kv_snapshots.c.table_id)
    return {table_id: from_microseconds(created_us) for table_id, created_us in connection.execute(query)}


def insert_snapshot(
    connection: sa.Connection, table: TableInfo, bucket: BucketKey, log_offset: int, files: Sequence[SnapshotFile], now: datetime
) -> KvSnapshot:
    """Records a snapshot whose files are durable and have the columns of `table`."""
    inserted = connection.execute(
        sa.insert(kv_snapshots).values(
            **bucket_columns(table.table_id, bucket),
            log_offset=log_offset,
            columns=len(table.schema),
            schema_id=table.schema_id,
            files=[[file.path, file.size_bytes, file.crc32, file.records] for file in files],
            created_us=to_microseconds(now),
        )
    )
    return KvSnapshot(int(inserted.lastrowid), log_offset)


def delete_superseded(connection: sa.Connection) -> list[str]:
    """Deletes every snapshot that is neither among the newest of its bucket nor leased, and returns the paths of their files."""
    place = (kv_snapshots.c.table_id, kv_snapshots.c.partition_id, kv_snapshots.c.bucket_id)
    age = sa.func.row_number().over(partition_by=place, order_by=kv_snapshots.c.snapshot_id.desc()).label("age")
    ranked = sa.select(kv_snapshots.c.snapshot_id, age).subquery()
    leased = sa.select(leased_snapshots.c.snapshot_id)
    surplus = sa.select(ranked.c.snapshot_id).where(ranked.c.age > RETAINED, ranked.c.snapshot_id.not_in(leased))
    return delete_where(connection, kv_snapshots.c.snapshot_id.in_(surplus))


def delete_where(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> list[str]:
    """Deletes snapshots and their entries in leases, and returns the paths of their files."""
    rows = connection.execute(sa.select(kv_snapshots.c.snapshot_id, kv_snapshots.c.files).where(condition)).all()
    if rows:
        ids = [{"deleted_id": row.snapshot_id} for row in rows]
        connection.execute(sa.delete(kv_snapshots).where(kv_snapshots.c.snapshot_id == sa.bindparam("deleted_id")), ids)
    return [path for row in rows for path, *_ in row.files]


def all_paths(connection: sa.Connection) -> set[str]:
    """Returns the paths of the files of all snapshots."""
    return {path for files in connection.scalars(sa.select(kv_snapshots.c.files)) for path, *_ in files}


def stored_snapshot(row: sa.Row[Any]) -> StoredSnapshot:
    """Returns a row of `kv_snapshots` as a value."""
    return StoredSnapshot(row.snapshot_id, row.log_offset, row.columns, tuple(SnapshotFile(*file) for file in row.files), row.schema_id)
