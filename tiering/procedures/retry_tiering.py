"""`CALL sys.retry_tiering`: retries a failed table at once and resets its back-off, even after a permanent failure (DESIGN 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import TIER_TABLE, Mutation, Pool


@dataclass(frozen=True)
class RetryTieringResult:
    """The state of the table after the call. `next_retry_time` None: the table is retried at once."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    status: str = column("The table's state afterwards: Pending if it had failed, otherwise unchanged.")
    next_retry_time: datetime | None = column("Time of the next attempt; NULL if the table only waits for a tierer.")


@dataclass(frozen=True)
class RetryTiering(Mutation[RetryTieringResult]):
    """The table to retry."""

    procedure = "retry_tiering"
    comment = "Tries a failed table again now and forgets its back-off."
    requirement = TIER_TABLE
    pool = Pool.STORE
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
