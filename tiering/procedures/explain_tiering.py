"""`CALL sys.explain_tiering`: shows what a round would read now, and all reasons why none begins. It changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tiering.model.declare import INT, column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import DESCRIBE_TABLE, LOOK_SECONDS, CallRequest, Pool


class Decision(StrEnum):
    """The meaning of one line of an explanation."""

    BEGIN = "begin"
    """Nothing prevents a round from beginning."""
    WAIT = "wait"
    """No round begins before this condition ends. It may end without a user's action."""
    REFUSE = "refuse"
    """No round succeeds before a user repairs this."""
    RUNNING = "running"
    """A round runs. The lines after this one ignore it."""
    READ = "read"
    """A round would read this split."""
    SKIP = "skip"
    """This bucket has nothing to read."""
    NOTE = "note"
    """A fact that does not prevent tiering."""


@dataclass(frozen=True)
class Explanation:
    """One line. A line without a bucket is about the whole table."""

    decision: Decision = column("begin, wait, refuse, running, note for the table; read, skip, refuse for a bucket.", is_last=True)
    reason: str = column("The reason.", is_last=True)
    split_type: str | None = column("LOG or SNAPSHOT; NULL = about the table, or a bucket that has nothing to read.", default=None)
    partition_name: str | None = column("Partition of the bucket.", default=None)
    bucket_id: int | None = column("Bucket; NULL = about the table as a whole.", default=None, arrow_type=INT)
    snapshot_id: int | None = column("KV snapshot that a SNAPSHOT split reads.", default=None)
    starting_offset: int | None = column("First offset that the split reads.", default=None)
    stopping_offset: int | None = column("Offset before which it stops; for a SNAPSHOT split the log offset of the snapshot.", default=None)
    records: int | None = column("Records of the log that it reads; NULL = not known.", default=None)


@dataclass(frozen=True)
class ExplainTiering(CallRequest[tuple[Explanation, ...]]):
    """The table to explain. The lines about the whole table precede those about its buckets."""

    procedure = "explain_tiering"
    comment = "Shows what a round would read now, and everything that prevents one from beginning."
    requirement = DESCRIBE_TABLE
    pool = Pool.EXPLANATION
    answer_seconds = LOOK_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
