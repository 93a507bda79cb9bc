"""`CALL sys.resume_tiering`: ends a pause (DESIGN 5)."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, Mutation, PauseResult, Pool


@dataclass(frozen=True)
class ResumeTieringResult(PauseResult):
    """The pause of the table."""

    status: str = column("State of its tiering. A table whose freshness has elapsed is tiered next.")


@dataclass(frozen=True)
class ResumeTiering(Mutation[ResumeTieringResult]):
    """The table to resume."""

    procedure = "resume_tiering"
    comment = "Ends a pause, so that the table is tiered again."
    requirement = OPERATE_TABLE
    pool = Pool.STORE
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    reason: str | None = parameter("The reason, for the events.", default=None, is_free_text=True)
