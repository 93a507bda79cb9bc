"""sys.tiering_splits: the splits of running rounds, and how far each of them is now.

Live: a tierer reports its rounds' splits while they run, best effort, and nothing of it outlives the round.
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
    split_id: str = column("Names the split within its round.")
    split_type: str = column("LOG: a range of a bucket's log; SNAPSHOT: a whole KV snapshot of a primary-key bucket.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    partition_name: str | None = column("Name of the partition; NULL in a table without partitions.")
    bucket_id: int = column("The bucket.", arrow_type=INT)
    snapshot_id: int | None = column("The KV snapshot that is read; NULL for a range of the log.")
    starting_offset: int | None = column("First offset to be read; NULL for a KV snapshot.")
    stopping_offset: int = column("Where the range ends, exclusive; a KV snapshot holds the bucket as of this offset.")
    current_offset: int | None = column("The next offset to be read, as last reported; NULL for a KV snapshot, whose rows have none.")
    backlog_offset: int | None = column("Where the log of the bucket ended when reading of it began; NULL if it has no backlog (left).")
    fraction_completed: float = column("The part that is read, between 0 and 1; of a KV snapshot at least this part.")
    executor: str | None = column("Who reads it, as id@host: the id is that of Spark's own pages; NULL until somebody does.")
    attempt: int = column("Number of the attempt at it, counted from 0: Spark tries a failed task again.", arrow_type=INT)
    state: str = column("QUEUED, RUNNING, DONE; STOPPED: ended early, a later round goes on; FAILED: this attempt did.")


@system_table(
    "tiering_splits",
    TieringSplitRow,
    requires=DESCRIBE_EACH_TABLE,
    comment="The splits of running rounds, and how far each of them is now.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TieringSplitRow]:
    for split in view.splits(scan.equals("database_name"), scan.equals("table_name"), scan.equals("round_id")):
        yield TieringSplitRow(**vars(split))
