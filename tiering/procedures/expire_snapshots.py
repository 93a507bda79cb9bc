"""`CALL sys.expire_snapshots`: removes old snapshots of a lake table now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tiering.model.declare import INT, column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, UpkeepCall, UpkeepCallOutcome, UpkeepResult


@dataclass(frozen=True)
class ExpireSnapshotsRow:
    """The result as a row of SQL."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    outcome: UpkeepCallOutcome = column(
        "SUCCEEDED, EMPTY (nothing to do), DROPPED (other commits came first, nothing was removed); WAITING or RUNNING if the call did not "
        "wait for the end; PLANNED for a dry run."
    )
    reason: str | None = column("Why the upkeep is not done, or not completely; NULL if it is done.")
    round_id: str | None = column("The last upkeep round; NULL if none was needed.")
    deleted_snapshots_count: int = column("Snapshots that were removed. Their files are deleted later, by the sweep.")
    kept_snapshots_count: int | None = column("Snapshots that stay; NULL if the call did not wait for the end.")
    kept_because: str | None = column("Number of snapshots that stay, by reason, such as the name of the tag or branch that needs them.")


@dataclass(frozen=True)
class ExpireSnapshots(UpkeepCall):
    """The snapshots to remove. For None, the table's option counts."""

    procedure = "expire_snapshots"
    comment = "Removes old snapshots of a lake table, now."
    requirement = OPERATE_TABLE
    row_class = ExpireSnapshotsRow
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    older_than: datetime | None = parameter(
        "Only snapshots that were committed before this time. NULL = as table.datalake.snapshot.max-age says.", default=None
    )
    retain_last: int | None = parameter(
        "How many of the newest snapshots stay, at least 1. NULL = as table.datalake.snapshot.min-count says.", default=None, arrow_type=INT
    )
    wait: bool = parameter("Whether to wait until the snapshots are removed.", default=True, identifies=False)
    timeout_ms: int = parameter("How long to wait, in milliseconds. The rounds continue afterwards.", default=300_000, identifies=False)

    def rows(self, result: UpkeepResult) -> Iterable[ExpireSnapshotsRow]:
        """Returns the row."""
        yield ExpireSnapshotsRow(
            path=result.path,
            outcome=result.outcome,
            reason=result.reason,
            round_id=result.round_id,
            deleted_snapshots_count=result.stats.snapshots_expired,
            kept_snapshots_count=sum(result.kept.values()) if result.kept else None,
            kept_because="; ".join(f"{number}: {reason}" for reason, number in result.kept.items()) or None,
        )
