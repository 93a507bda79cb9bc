"""The rows of a log table's lake table that `CALL sys.backfill_table` copied from another lake table. They have no offsets. Pure.

The marker lists each backfill with its source, and has the number and the checksum of its rows by partition and bucket. So the rows of a
clean log table are those that rounds wrote (`bucket_proof`), and those of its backfills. Their files have this footer instead of that of a
round (`file_footer`), so nothing takes their rows for records of the log:

lakeward.backfill  the round id of the backfill
lakeward.table     <table id>/<uuid of the lake table>
lakeward.rows      the number of rows
lakeward.checksum  v1: and 16 hexadecimal digits: `row_checksum` of all rows
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tiering.lake.proof.change_sums import RowSum
from tiering.lake.proof.file_footer import BACKFILL_KEY, CHECKSUM_KEY, ROWS_KEY, parse_checksum


@dataclass(frozen=True)
class BackfilledBucket:
    """The rows of a backfill in one bucket. `partition_name` is "" in a table without partitions."""

    partition_name: str
    bucket_id: int
    sums: RowSum


@dataclass(frozen=True)
class Backfill:
    """A backfill, by the round id of its commit: the snapshot of the source table, the condition on its rows (None = all), and the rows."""

    round_id: str
    source: str
    source_uuid: str
    source_snapshot_id: int
    condition: str | None
    buckets: tuple[BackfilledBucket, ...]

    @property
    def sums(self) -> RowSum:
        """All of its rows."""
        return sum((bucket.sums for bucket in self.buckets), RowSum())

    def to_plain(self) -> list[Any]:
        """Returns the backfill as JSON values."""
        buckets = [[part.partition_name, part.bucket_id, part.sums.rows, f"{part.sums.checksum:016x}"] for part in self.buckets]
        return [self.round_id, self.source, self.source_uuid, self.source_snapshot_id, self.condition, buckets]

    @staticmethod
    def of_plain(values: Any) -> Backfill:
        """Returns the backfill of these JSON values. Raises ValueError, TypeError."""
        round_id, source, source_uuid, snapshot_id, condition, buckets = values
        parts = (
            BackfilledBucket(str(name), int(bucket_id), RowSum(int(rows), int(checksum, 16))) for name, bucket_id, rows, checksum in buckets
        )
        return Backfill(str(round_id), str(source), str(source_uuid), int(snapshot_id), condition, tuple(parts))


def backfilled_in(backfills: Iterable[Backfill], partition_name: str, bucket_id: int | None) -> RowSum:
    """Returns the rows of all `backfills` in a bucket; `bucket_id` None = in all buckets of the partition."""
    parts = (part for backfill in backfills for part in backfill.buckets if part.partition_name == partition_name)
    return sum((part.sums for part in parts if bucket_id in (None, part.bucket_id)), RowSum())


@dataclass(frozen=True)
class BackfillFooter:
    """The values of a backfilled file's footer."""

    round_id: str
    sums: RowSum


def decode_backfill_footer(metadata: Mapping[str, str]) -> BackfillFooter | None:
    """Returns the footer of this metadata; None if it has none. Raises ValueError."""
    if BACKFILL_KEY not in metadata:
        return None
    try:
        return BackfillFooter(metadata[BACKFILL_KEY], RowSum(int(metadata[ROWS_KEY]), parse_checksum(metadata[CHECKSUM_KEY])))
    except KeyError as error:
        raise ValueError(f"it lacks {error}") from error
