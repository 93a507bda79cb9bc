"""The offsets of one bucket in the log and in the lake, which `sys.tiering_buckets` shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiering.model.declare import INT, column


@dataclass(frozen=True)
class BucketStatus:
    """Offsets of one bucket's log and of its rows in the lake. None = not observed, or not known."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    partition_id: int | None = column("Id of the partition, never reused; NULL in a table without partitions.")
    partition_name: str | None = column("Name of the partition; NULL without partitions, and of one that was dropped.")
    bucket_id: int = column("The bucket.", arrow_type=INT)
    log_start_offset: int | None = column("First offset that the log still has; NULL if the bucket was dropped.")
    log_end_offset: int | None = column("Offset of the next record of the log.")
    lake_offset: int | None = column("The lake has the bucket's records below this offset; NULL if it has none.")
    staged_offset: int | None = column("End offset of a granted commit that is not known to be in the lake; NULL without one.")
    lag_records: int | None = column("Records of the log that the lake lacks.")
    lag_ms: int | None = column("Age of the oldest such record in milliseconds, 0 if there are none; NULL if unknown.")
    oldest_pending_time: datetime | None = column("When the oldest such record was written; NULL if there are none, or if unknown.")
    backlog_offset: int | None = column("End offset of the bucket's backlog; NULL once the lake has passed it.")
    is_backlog: bool | None = column(
        "Whether the lake lacks records that were in the log when reading of the bucket began (again); NULL before that plan."
    )
    offsets_observed_time: datetime | None = column("When the log was observed.")
    error_class: str | None = column(
        "Class of the error that stopped the bucket; NULL if the bucket is not stopped, or if the whole table is."
    )
    error_message: str | None = column("Message of the error.")
    stopped_at_offset: int | None = column("Offset of the record at which it stopped; NULL if it is not stopped.")
    stopped_at_record: str | None = column(
        "Shortened text of that record, with a library's error about its values; NULL if unknown, and for a caller without SELECT."
    )
    log_only_records: int | None = column("Hot: records that only the log has. NULL, like the next two columns, if offsets do not show it.")
    both_records: int | None = column("Warm: records that log and lake have. In a primary-key table: changes that the lake has applied.")
    lake_only_records: int | None = column(
        "Cold: records that only the lake has; NULL in a primary-key table, whose lake has rows and not records."
    )
