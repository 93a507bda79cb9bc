"""`CALL sys.reconcile_lake` (DESIGN 6 step 2): repairs a lake table that failed the base check, so that rounds can build on it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tiering.model.declare import column, hidden, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import LOOK_SECONDS, OPERATE_TABLE, Mutation, Pool


@dataclass(frozen=True)
class ReconcileLakeResult:
    """The repair. `outcome`: reconciled, not_needed, or would_reconcile for a dry run.

    `offsets`: the offset per bucket from which tiering continues. A bucket that is not in it begins with its KV snapshot, or at the start
    of its log. `records_left_out` None = the number cannot be determined. `records_removed`: rows that were in the lake twice, or behind a
    gap; None = this call only repeats an earlier one, or the rows were not counted.
    """

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    action: str = column("The requested action.")
    round_id: str | None = column("The round id in the marker that was committed; NULL if none was.")
    lake_snapshot_id: int | None = column("The lake snapshot from which tiering continues.")
    outcome: str = column("reconciled; not_needed if nothing was wrong; would_reconcile for a dry run.")
    offsets: Mapping[str, int] = hidden()
    records_left_out: int | None = column(
        "Number of records of the log or of dropped partitions that the lake will never get. For a primary-key table these are changes. "
        "NULL = unknown.",
        default=None,
    )
    records_removed: int | None = column(
        "Number of rows that were removed from the lake: rows that it had twice, and rows behind a gap. NULL = not counted.", default=None
    )


@dataclass(frozen=True)
class ReconcileLake(Mutation[ReconcileLakeResult]):
    """The table, and the action that repairs it: adopt, accept, retier or deduplicate."""

    procedure = "reconcile_lake"
    comment = "Makes a lake table that other programs changed usable for tiering again."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = LOOK_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    action: str = parameter(
        "accept: the lake is right as it is now; tiering continues from the recorded offsets. retier: tiering continues from what the lake "
        "has now, and begins again where the lake has nothing. adopt: take over the commits of another tiering service. deduplicate: keep "
        "one of the rows of a log table that another tiering service committed twice."
    )

    def rows(self, result: ReconcileLakeResult) -> Iterable[ReconcileLakeResult | str]:
        """Returns a line with the offsets from which tiering continues, and the row."""
        goes_on = "".join(f"bucket {bucket} at {offset}, " for bucket, offset in list(result.offsets.items())[:20])
        others = "every other bucket" if goes_on else "every bucket"
        yield f"{result.outcome}: tiering of {result.path} continues with {goes_on}{others} with its KV snapshot or at the start of its log"
        yield result
