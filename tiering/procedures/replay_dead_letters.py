"""`CALL sys.replay_dead_letters`: gives the lake records that it could not hold before (docs/dead-letters.md)."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, VALIDATION_SECONDS, Mutation, Pool

WHERE = (
    "Only dead letters for which this condition in SQL is true. It compares columns of sys.dead_letters, except for record, with literals. "
    "NULL = all that wait."
)


@dataclass(frozen=True)
class ReplayDeadLettersResult:
    """The replay. A record that is refused again keeps waiting."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    outcome: str = column("replayed; would_replay for a dry run; nothing_to_replay if no record could become a row.")
    round_id: str | None = column("The round id in the marker of the commit; NULL if there was none.")
    lake_snapshot_id: int | None = column("The table's newest tiering commit after the call; NULL if the call made no commit.")
    rows_replayed: int = column("Number of records that are rows of the lake table now.")
    rows_superseded: int = column("Number of records of a primary-key table whose key changed later. They stay out, and no longer wait.")
    rows_refused: int = column("Number of records that the lake still cannot hold. They keep waiting.")
    refusal: str | None = column("Why the first of these is refused, without its values.")
    refusals: tuple[str, ...] = column("Why each of these is refused: a text for each bucket and reason, with the offsets.", default=())


@dataclass(frozen=True)
class ReplayDeadLetters(Mutation[ReplayDeadLettersResult]):
    """The table, and which of its dead letters."""

    procedure = "replay_dead_letters"
    comment = "Writes dead letters of a table, with their offsets, into its lake table, each once."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = VALIDATION_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    where: str | None = parameter(WHERE, default=None)
