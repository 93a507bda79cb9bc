"""`CALL sys.discard_dead_letters`: decides that records stay out of the lake (docs/dead-letters.md)."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, VALIDATION_SECONDS, Mutation, Pool
from tiering.procedures.replay_dead_letters import WHERE


@dataclass(frozen=True)
class DiscardDeadLettersResult:
    """The records that do not wait any more."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    outcome: str = column("discarded; would_discard for a dry run; nothing_to_discard if no dead letter was chosen.")
    round_id: str | None = column("The round id in the marker of the commit; NULL if there was none.")
    lake_snapshot_id: int | None = column("The table's newest tiering commit after the call; NULL if the call made no commit.")
    records_discarded: int = column("Number of records.")


@dataclass(frozen=True)
class DiscardDeadLetters(Mutation[DiscardDeadLettersResult]):
    """The table, which of its dead letters, and why they stay out of the lake."""

    procedure = "discard_dead_letters"
    comment = "Decides that dead letters of a table stay out of its lake table, so that they no longer wait."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = VALIDATION_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    reason: str = parameter("Why, for the events.", is_free_text=True)
    where: str | None = parameter(WHERE, default=None)
