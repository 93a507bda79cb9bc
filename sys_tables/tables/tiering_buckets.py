"""sys.tiering_buckets: how far the lake is with each bucket of each lake table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE, SELECT_ON_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import INT, column


@dataclass(frozen=True)
class TieringBucketRow:
    """One bucket, within its partition."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    partition_id: int | None = column("Id of the partition, never reused; NULL in a table without partitions.")
    partition_name: str | None = column("Name of the partition; NULL without partitions, and of one that was dropped.")
    bucket_id: int = column("The bucket.", arrow_type=INT)
    log_start_offset: int | None = column("First offset that the log still has; NULL if the log has not got the bucket any more.")
    log_end_offset: int | None = column("Offset of the next record of the log.")
    lake_offset: int | None = column("The lake has the bucket up to this offset; NULL if it has nothing of it.")
    staged_offset: int | None = column("Where a commit reaches that was granted and is not known to be in the lake; NULL without one.")
    lag_records: int | None = column("Records of the log that the lake lacks.")
    lag_ms: int | None = column("Age of the oldest of them in milliseconds, 0 if there are none; NULL if it is unknown.")
    oldest_pending_time: datetime | None = column("When the oldest of them was written; NULL if there are none, or it is unknown.")
    backlog_offset: int | None = column("Where the backlog of the bucket ends; NULL once the lake has passed that.")
    is_backlog: bool | None = column(
        "Whether the lake lacks some of what was there when reading of the bucket began (anew); NULL before that plan."
    )
    offsets_observed_time: datetime | None = column("When the log was looked at.")
    error_class: str | None = column("Class of the error for which it does not go on; NULL if it goes on, or the whole table does not.")
    error_message: str | None = column("That error, in words.")
    stopped_at_offset: int | None = column("Offset of the record at which it stands; NULL if it goes on.")
    stopped_at_record: str | None = column(
        "That record as text, cut, and what a library says of its values; NULL if it is not known, and for a caller without SELECT."
    )
    log_only_records: int | None = column("Hot: records that only the log has. NULL, as the next two, if offsets cannot tell.")
    both_records: int | None = column("Warm: records that log and lake have; of a primary-key table changes that the lake has taken in.")
    lake_only_records: int | None = column("Cold: records that only the lake has; NULL in a primary-key table, whose lake has rows.")


@system_table(
    "tiering_buckets",
    TieringBucketRow,
    requires=DESCRIBE_EACH_TABLE,
    further=((SELECT_ON_TABLE, "`stopped_at_record`"),),
    comment="How far the lake is with each bucket of each lake table.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TieringBucketRow]:
    for bucket in view.buckets(scan.equals("database_name"), scan.equals("table_name")):
        yield TieringBucketRow(**vars(bucket))
