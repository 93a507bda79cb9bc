"""`CALL sys.resume_upkeep`: ends a pause of upkeep."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, Mutation, PauseResult, Pool


@dataclass(frozen=True)
class ResumeUpkeepResult(PauseResult):
    """The pause of the table's upkeep."""

    previous_paused: bool = column("Whether the upkeep of the table was paused before the call.")
    status: str = column("State of the table's tiering, which continues.")


@dataclass(frozen=True)
class ResumeUpkeep(Mutation[ResumeUpkeepResult]):
    """The table whose upkeep is resumed."""

    procedure = "resume_upkeep"
    comment = "Ends a pause of upkeep."
    requirement = OPERATE_TABLE
    pool = Pool.STORE
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
