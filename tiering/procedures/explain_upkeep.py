"""`CALL sys.explain_upkeep`: shows what the next upkeep of a table would do, and what it waits for. It changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tiering.model.declare import INT, column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import DESCRIBE_TABLE, LOOK_SECONDS, CallRequest, Pool


class UpkeepDecision(StrEnum):
    """The kind of a line of `CALL sys.explain_upkeep`."""

    BEGIN = "begin"
    """The next upkeep round begins as soon as a slot is free."""
    WAIT = "wait"
    """The next upkeep round waits for the end of this condition."""
    RUNNING = "running"
    """An upkeep round runs."""
    NOTHING = "nothing"
    """There is nothing to do."""
    REWRITE = "rewrite"
    """The next round would rewrite these files."""
    LEFT = "left"
    """Bytes that the next round would leave to later rounds."""
    LAST = "last"
    """The latest upkeep."""
    OPTION = "option"
    """An option of the table, with its value in effect."""
    NOTE = "note"
    """A fact that does not change what happens."""


@dataclass(frozen=True)
class UpkeepLine:
    """One line of an explanation. A line without a bucket is about the whole table."""

    decision: UpkeepDecision = column(
        "begin, wait, running, nothing: the next upkeep round; last: the latest one; option: one in effect; rewrite: files of a bucket; "
        "left: bytes for later rounds; note."
    )
    reason: str = column("The reason, or a description.", is_last=True)
    partition_name: str | None = column("Partition of the bucket.", default=None)
    bucket_id: int | None = column("Id of the bucket; NULL in a row about the table as a whole.", default=None, arrow_type=INT)
    files: int | None = column("Files that would be rewritten.", default=None)
    bytes: int | None = column("Bytes of these files.", default=None)


@dataclass(frozen=True)
class ExplainUpkeep(CallRequest[tuple[UpkeepLine, ...]]):
    """The table to explain. The lines about the whole table precede those about its buckets."""

    procedure = "explain_upkeep"
    comment = "Shows what the next upkeep of a lake table would do, and why it waits."
    requirement = DESCRIBE_TABLE
    pool = Pool.EXPLANATION
    answer_seconds = LOOK_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
