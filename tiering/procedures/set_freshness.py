"""`CALL sys.set_freshness`: changes the freshness of a table, with effect at once."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, Mutation, Pool


@dataclass(frozen=True)
class SetFreshnessResult:
    """The freshness before and after the call."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    previous_ms: int = column("The freshness before the call, in milliseconds.")
    freshness_ms: int = column("The freshness now, in milliseconds; for a dry run the freshness that the call would set.")
    warning: str | None = column("The cost of a freshness below 10 s; NULL for a longer freshness.", default=None)


@dataclass(frozen=True)
class SetFreshness(Mutation[SetFreshnessResult]):
    """The table and its new freshness."""

    procedure = "set_freshness"
    comment = "Changes the freshness of a table."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    freshness: str = parameter("How old the lake copy may be, such as 30 s, 5 min or PT1H.")
