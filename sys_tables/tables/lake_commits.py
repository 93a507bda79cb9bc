"""sys.lake_commits: every granted commit to the lake, with its outcome, the newest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import row_from
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from sys_tables.query.history_ranges import history_range
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import column


@dataclass(frozen=True)
class LakeCommitRow:
    """One granted commit."""

    round_id: str = column("The round of the commit.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    table_id: int = column("Id of the table, never reused.")
    tiering_epoch: int = column("Epoch of the round.")
    base_round_id: str | None = column("The round on whose commit it builds; NULL for a table's first commit.")
    state: str = column(
        "PREPARED, LAKE_COMMITTED, ACKED, ABORTED, RECONCILED, or UNKNOWN until a later read of the lake shows the outcome. "
        "A commit to a lake table that was renamed or dropped stays UNKNOWN: it may be in that table."
    )
    prepared_at: datetime = column("When the commit was granted: from then on the tierer may have sent it.")
    lake_snapshot_id: int | None = column("The lake snapshot of the commit; NULL unless it was found in the lake.")
    lake_committed_at: datetime | None = column("When the coordinator found it in the lake.")
    acked_at: datetime | None = column("When the cluster was notified of it.")
    offsets: Mapping[str, int] = column("Tiered offset of each bucket after it; the key is the bucket, or partition id/bucket.")
    files: int = column("Files that it adds.")
    records: int = column("Rows that it adds.")
    reconciled_by: str | None = column("The later round, or the reconcile_lake, that resolved it instead of its own ack; NULL if none did.")


@system_table(
    "lake_commits",
    LakeCommitRow,
    requires=DESCRIBE_EACH_TABLE,
    comment="Granted commits to the lake, the newest first: the ledger of all possible writes.",
    newest_first=("prepared_at", "round_id"),
    is_history=True,
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[LakeCommitRow]:
    for commit in view.history.read_commits(history_range(scan, "prepared_at", "state")):
        yield row_from(LakeCommitRow, commit, state=commit.state.value)
