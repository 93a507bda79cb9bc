"""Refused records (`refused_records.py`) in the metadata. The functions use one connection; the caller controls the transaction."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from tiering.cluster.embedded.kv.refused_records import RefusedRecord
from tiering.cluster.embedded.metadata.database import NO_PARTITION, bucket_key, in_bucket, refused_records
from tiering.model.tables import BucketKey


def refused_of_table(connection: sa.Connection, table_id: int, bucket: BucketKey | None = None) -> Mapping[BucketKey, list[RefusedRecord]]:
    """Returns the refused records of a table, or of one bucket, by bucket and in the order of their offsets."""
    condition = refused_records.c.table_id == table_id if bucket is None else in_bucket(refused_records, table_id, bucket)
    refused: dict[BucketKey, list[RefusedRecord]] = {}
    for row in connection.execute(sa.select(refused_records).where(condition).order_by(refused_records.c.offset)):
        record = RefusedRecord(row.offset, row.value, row.error, row.skipped_us is not None)
        refused.setdefault(bucket_key(row.partition_id, row.bucket_id), []).append(record)
    return refused


def insert_refused(connection: sa.Connection, table_id: int, bucket: BucketKey, record: RefusedRecord, now_us: int) -> None:
    """Records the record at which a bucket is stopped."""
    connection.execute(
        sa.insert(refused_records).values(
            table_id=table_id,
            partition_id=NO_PARTITION if bucket.partition_id is None else bucket.partition_id,
            bucket_id=bucket.bucket_id,
            offset=record.offset,
            value=record.value,
            error=record.error,
            refused_us=now_us,
        )
    )


def mark_skipped(
    connection: sa.Connection, table_id: int, bucket: BucketKey, offset: int, caller: str, reason: str | None, now_us: int
) -> None:
    """Marks the record as skipped: readers leave it out from now on."""
    condition = in_bucket(refused_records, table_id, bucket) & (refused_records.c.offset == offset)
    connection.execute(sa.update(refused_records).where(condition).values(skipped_us=now_us, skipped_by=caller, reason=reason))
