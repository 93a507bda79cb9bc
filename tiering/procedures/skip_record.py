"""`CALL sys.skip_record`: leaves out the record at which a bucket stops (docs/reference.md)."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import INT, column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import LOOK_SECONDS, OPERATE_TABLE, Mutation, Pool


@dataclass(frozen=True)
class SkipRecordResult:
    """The skipped record. `value` is the record's value as text, shortened. `outcome` is a `SkipOutcome`."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    partition_name: str | None = column("The partition; NULL if the table has none.")
    bucket_id: int = column("The bucket.", arrow_type=INT)
    offset: int = column("Offset of the record.")
    value: str = column("The record as text, shortened; empty for a caller without SELECT.")
    outcome: str = column("skipped, already_skipped, or would_skip for a dry run.")


@dataclass(frozen=True)
class SkipRecord(Mutation[SkipRecordResult]):
    """The record to skip."""

    procedure = "skip_record"
    comment = "Excludes the record at which a bucket has stopped."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = LOOK_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    bucket_id: int = parameter("The stopped bucket, from its error.")
    offset: int = parameter("The offset at which the bucket has stopped. No other record can be skipped.")
    partition: str | None = parameter("The partition's name, if the table is partitioned.", default=None)
    reason: str | None = parameter("The reason, for the events.", default=None, is_free_text=True)
