"""`CALL sys.remove_orphan_files`: sweeps one lake table now, with an age that the user gives (DESIGN 6, 7i)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, SWEEP_SECONDS, Mutation, Pool


@dataclass(frozen=True)
class RemoveOrphanFilesResult:
    """The deleted files, or those that a dry run would delete.

    `removed` is their number; `locations` and `sizes` describe the first of them. `kept`: number of other files by reason.
    """

    path: TablePath
    removed: int
    removed_bytes: int
    locations: tuple[str, ...]
    sizes: tuple[int, ...]
    kept: Mapping[str, int]


@dataclass(frozen=True)
class RemoveOrphanFilesRow:
    """A row of SQL about all deleted files, about one of the first 1,000, or about the files that stay for one reason."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    outcome: str = column("Outcome for the files: removed; would_remove for a dry run; kept.")
    orphan_file_location: str | None = column("The file; NULL in a row about several files.")
    reason: str | None = column("Why files are kept, such as YOUNG, OPEN_ROUND, MAY_STILL_LAND; NULL for deleted ones.")
    files: int = column("Number of files.")
    bytes: int | None = column("Size of the files; NULL for kept files.")


@dataclass(frozen=True)
class RemoveOrphanFiles(Mutation[RemoveOrphanFilesResult]):
    """The table to sweep. `older_than` None: one day for files of dead rounds, one hour for expired files."""

    procedure = "remove_orphan_files"
    comment = "Deletes files of a lake table that no snapshot references any more."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = SWEEP_SECONDS
    row_class = RemoveOrphanFilesRow
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    older_than: datetime | None = parameter(
        "Only files that were written, or lost their last snapshot, before this time; at least 1 h ago. NULL = 1 day ago, and 1 h ago for "
        "files of expired snapshots.",
        default=None,
    )

    def rows(self, result: RemoveOrphanFilesResult) -> Iterable[RemoveOrphanFilesRow]:
        """Returns a row about all deleted files, then one per listed file, then one per reason why files stay."""
        path, outcome = result.path, "would_remove" if self.dry_run else "removed"
        return [
            RemoveOrphanFilesRow(path, outcome, None, None, result.removed, result.removed_bytes),
            *(
                RemoveOrphanFilesRow(path, outcome, place, None, 1, size)
                for place, size in zip(result.locations, result.sizes, strict=True)
            ),
            *(RemoveOrphanFilesRow(path, "kept", None, reason, number, None) for reason, number in result.kept.items()),
        ]
