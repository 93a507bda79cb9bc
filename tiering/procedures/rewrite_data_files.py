"""`CALL sys.rewrite_data_files`: merges small data files and applies deletes, in all partitions or in some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tiering.model.declare import INT, column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, UpkeepCall, UpkeepCallOutcome, UpkeepResult


@dataclass(frozen=True)
class RewriteDataFilesRow:
    """The result as a row of SQL."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    outcome: UpkeepCallOutcome = column(
        "SUCCEEDED, EMPTY (nothing to do), DROPPED (other commits changed all of these files); WAITING or RUNNING if the call did not wait "
        "for the end; PLANNED for a dry run."
    )
    reason: str | None = column("Why the upkeep is not done; NULL if it is done.")
    round_id: str | None = column("The last upkeep round; sys.lake_upkeep has all of them. NULL if none was needed.")
    rounds: int = column("Upkeep rounds that ended.", arrow_type=INT)
    rewritten_files_count: int = column("Data and delete files that were replaced.")
    added_files_count: int = column("Data files that replaced them.")
    rewritten_bytes_count: int = column("Bytes of the replaced files.")
    written_bytes_count: int = column("Bytes of the new files.")
    dropped_buckets_count: int = column("Rewritten buckets that were left out, because another commit had changed their files.")
    bytes_left: int | None = column("Bytes of files that are still to be rewritten; NULL if unknown.")


@dataclass(frozen=True)
class RewriteDataFiles(UpkeepCall):
    """The files to rewrite. `where` is an SQL condition over partition columns; None for all partitions."""

    procedure = "rewrite_data_files"
    comment = "Merges small data files of a lake table and applies deletes, now."
    requirement = OPERATE_TABLE
    row_class = RewriteDataFilesRow
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    where: str | None = parameter(
        "Only partitions for which this condition in SQL is true. It compares partition columns with literals. NULL = all partitions.",
        default=None,
    )
    full: bool = parameter("Whether large files are rewritten, too, where a bucket has more than it needs.", default=False)
    wait: bool = parameter("Whether to wait until nothing is left to be rewritten.", default=True, identifies=False)
    timeout_ms: int = parameter("How long to wait, in milliseconds. The rounds continue afterwards.", default=300_000, identifies=False)

    def rows(self, result: UpkeepResult) -> Iterable[RewriteDataFilesRow]:
        """Returns the row."""
        stats = result.stats
        yield RewriteDataFilesRow(
            path=result.path,
            outcome=result.outcome,
            reason=result.reason,
            round_id=result.round_id,
            rounds=result.rounds,
            rewritten_files_count=stats.files_before,
            added_files_count=stats.files_after,
            rewritten_bytes_count=stats.bytes_read,
            written_bytes_count=stats.bytes_written,
            dropped_buckets_count=stats.dropped,
            bytes_left=stats.bytes_left,
        )
