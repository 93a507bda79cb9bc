"""sys.tiering_splits: the splits of running rounds, with their progress.

A tierer reports the splits of its running rounds, best effort. The rows disappear with the round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import INT, column


@dataclass(frozen=True)
class TieringSplitRow:
    """One split of a running round."""

    round_id: str = column("The running round.")
    split_id: str = column("Identifies the split within its round.")
    split_type: str = column("LOG: a range of a bucket's log; SNAPSHOT: a whole KV snapshot of a primary-key bucket.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    partition_name: str | None = column("Name of the partition; NULL in a table without partitions.")
    bucket_id: int = column("The bucket.", arrow_type=INT)
    snapshot_id: int | None = column("The KV snapshot that is read; NULL for a range of the log.")
    starting_offset: int | None = column("First offset to read; NULL for a KV snapshot.")
    stopping_offset: int = column("End of the range, exclusive. A KV snapshot has the bucket's state at this offset.")
    current_offset: int | None = column("The next offset to read, as last reported; NULL for a KV snapshot, whose rows have none.")
    backlog_offset: int | None = column("End of the bucket's log when reading of the bucket began; NULL if it has no backlog (left).")
    fraction_completed: float = column("The completed part, between 0 and 1; for a KV snapshot a lower bound.")
    executor: str | None = column("The executor that reads it, as id@host, with Spark's id; NULL before it is read.")
    attempt: int = column("Number of the attempt, from 0: Spark retries a failed task.", arrow_type=INT)
    state: str = column("QUEUED, RUNNING, DONE; STOPPED: ended early, and a later round continues; FAILED: this attempt failed.")


@system_table(
    "tiering_splits",
    TieringSplitRow,
    requires=DESCRIBE_EACH_TABLE,
    comment="The splits of running rounds, with their progress.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TieringSplitRow]:
    for split in view.splits(scan.equals("database_name"), scan.equals("table_name"), scan.equals("round_id")):
        yield TieringSplitRow(**vars(split))
