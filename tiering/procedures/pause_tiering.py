"""`CALL sys.pause_tiering`: a table is not tiered until it is resumed. A running round ends normally (DESIGN 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, Mutation, PauseResult, Pool


@dataclass(frozen=True)
class PauseTieringResult(PauseResult):
    """The pause of the table."""

    status: str = column("State of its tiering. A running round ends normally.")


@dataclass(frozen=True)
class PauseTiering(Mutation[PauseTieringResult]):
    """The table to pause. `until` None: until a user resumes the table."""

    procedure = "pause_tiering"
    comment = "Stops the tiering of a table until it is resumed."
    requirement = OPERATE_TABLE
    pool = Pool.STORE
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    reason: str | None = parameter("The reason, for the events.", default=None, is_free_text=True)
    until: datetime | None = parameter("When the pause ends by itself. NULL = only when a user resumes the table.", default=None)
