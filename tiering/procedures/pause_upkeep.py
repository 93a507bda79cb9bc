"""`CALL sys.pause_upkeep`: a table gets no upkeep until its upkeep is resumed. Its tiering continues."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, Mutation, PauseResult, Pool


@dataclass(frozen=True)
class PauseUpkeepResult(PauseResult):
    """The pause of the table's upkeep."""

    previous_paused: bool = column("Whether the upkeep of the table was paused before the call.")
    status: str = column("State of the table's tiering, which continues.")


@dataclass(frozen=True)
class PauseUpkeep(Mutation[PauseUpkeepResult]):
    """The table whose upkeep is paused."""

    procedure = "pause_upkeep"
    comment = "Stops the upkeep of a lake table, also in tiering rounds, until it is resumed."
    requirement = OPERATE_TABLE
    pool = Pool.STORE
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    reason: str | None = parameter("The reason, for the events.", default=None, is_free_text=True)
