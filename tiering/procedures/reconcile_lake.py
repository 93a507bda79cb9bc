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

    path: TablePath = column("The table, as it is spelled.", name="table")
    action: str = column("What was asked for.")
    round_id: str | None = column("The round id in the marker that was committed; NULL if none was.")
    lake_snapshot_id: int | None = column("The lake snapshot that tiering goes on from.")
    outcome: str = column("reconciled; not_needed if nothing was wrong; would_reconcile for a dry run.")
    offsets: Mapping[str, int] = hidden()
    records_left_out: int | None = column(
        "How many records the lake lacks and will not be given, of the log or of dropped partitions: of a primary-key table, changes. "
        "NULL if it cannot be told.",
        default=None,
    )
    records_removed: int | None = column(
        "How many rows of the lake were removed: those there twice, or behind a gap. NULL if it was not counted.", default=None
    )


@dataclass(frozen=True)
class ReconcileLake(Mutation[ReconcileLakeResult]):
    """The table, and the action that repairs it: adopt, accept, retier or deduplicate."""

    procedure = "reconcile_lake"
    comment = "Makes a lake table that others changed one to go on with."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = LOOK_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    action: str = parameter(
        "accept: the lake is right as it is now, go on from the recorded offsets. retier: go on from what the lake holds now, and make it "
        "anew where it holds nothing. adopt: take over what another tiering service wrote. deduplicate: keep one of the rows of "
        "a log table that another tiering service committed twice."
    )

    def rows(self, result: ReconcileLakeResult) -> Iterable[ReconcileLakeResult | str]:
        """Returns a line with the offsets from which tiering continues, and the row."""
        goes_on = "".join(f"bucket {bucket} at {offset}, " for bucket, offset in list(result.offsets.items())[:20])
        others = "every other bucket" if goes_on else "every bucket"
        yield f"{result.outcome}: tiering of {result.path} goes on with {goes_on}{others} with its KV snapshot or at the start of its log"
        yield result
