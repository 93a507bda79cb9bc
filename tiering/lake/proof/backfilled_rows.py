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
class ConditionColumn:
    """A column that the condition of a backfill compares. It identifies the column after names have changed.

    `field_id`: its id in the lake table that was copied; None = that table did not have the column. `type_name`: the type in Spark SQL with
    which it was compared.
    """

    name: str
    field_id: int | None
    type_name: str


@dataclass(frozen=True)
class Backfill:
    """A backfill, by the round id of its commit: the snapshot of the source table, the condition on its rows (None = all), and the rows.

    `condition_columns` are the columns of the condition; none without a condition, and in markers of older versions.
    """

    round_id: str
    source: str
    source_uuid: str
    source_snapshot_id: int
    condition: str | None
    buckets: tuple[BackfilledBucket, ...]
    condition_columns: tuple[ConditionColumn, ...] = ()

    @property
    def sums(self) -> RowSum:
        """All of its rows."""
        return sum((bucket.sums for bucket in self.buckets), RowSum())

    def to_plain(self) -> list[Any]:
        """Returns the backfill as JSON values."""
        buckets = [[part.partition_name, part.bucket_id, part.sums.rows, f"{part.sums.checksum:016x}"] for part in self.buckets]
        columns = [[column.name, column.field_id, column.type_name] for column in self.condition_columns]
        fields = [self.round_id, self.source, self.source_uuid, self.source_snapshot_id, self.condition, buckets]
        return [*fields, columns] if columns else fields

    @staticmethod
    def of_plain(values: Any) -> Backfill:
        """Returns the backfill of these JSON values. Raises ValueError, TypeError."""
        round_id, source, source_uuid, snapshot_id, condition, buckets, *columns = values
        parts = (
            BackfilledBucket(str(name), int(bucket_id), RowSum(int(rows), int(checksum, 16))) for name, bucket_id, rows, checksum in buckets
        )
        compared = (
            ConditionColumn(str(name), None if field_id is None else int(field_id), str(type_name))
            for listed in columns
            for name, field_id, type_name in listed
        )
        return Backfill(str(round_id), str(source), str(source_uuid), int(snapshot_id), condition, tuple(parts), tuple(compared))


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
