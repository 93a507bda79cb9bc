"""`lakeward sweep`: deletes files of dead rounds, files that only expired snapshots named, and old metadata files. SQL cannot call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiering.access.privileges import Privilege
from tiering.access.requirements import PrivilegeTarget, Requirement
from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import SWEEP_SECONDS, CallRequest, Pool

DEFAULT_AGE_MS = 24 * 3_600_000
"""One day."""


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep of one lake table."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    files: int = column("Number of files of the table.")
    removed: int = column("Number of files that were deleted, or would be for a dry run.")
    removed_bytes: int = column("Bytes of the deleted files.")
    kept: Mapping[str, int] = column("Number of other files by reason.")
    error: str | None = column("Why the table could not be swept; NULL if it was.", default=None)


@dataclass(frozen=True)
class SweepLake(CallRequest[tuple[SweepResult, ...]]):
    """The lake tables to sweep."""

    procedure = "sweep_lake"
    comment = "Deletes files that dead rounds left in one lake table, or in all."
    requirement = Requirement(Privilege.OPERATE, PrivilegeTarget.TABLE_OR_SERVICE, audited=True)
    pool = Pool.REPAIR
    answer_seconds = SWEEP_SECONDS
    in_sql = False
    path: TablePath | None = parameter("The table: db.t or cat.db.t; NULL = all lake tables.", name="table", default=None)
    older_than_ms: int = parameter("The age below which files stay, in milliseconds.", default=DEFAULT_AGE_MS)
    dry_run: bool = parameter("Whether to say only what would be done.", default=False)
