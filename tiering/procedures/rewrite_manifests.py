"""`CALL sys.rewrite_manifests`: merges the manifests of a lake table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, UpkeepCall, UpkeepCallOutcome, UpkeepResult


@dataclass(frozen=True)
class RewriteManifestsRow:
    """The result as a row of SQL."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    outcome: UpkeepCallOutcome = column(
        "SUCCEEDED, EMPTY (nothing to do); WAITING or RUNNING if the call did not wait for the end; PLANNED for a dry run."
    )
    reason: str | None = column("Why the upkeep is not done; NULL if it is done.")
    round_id: str | None = column("The upkeep round; NULL if none was needed.")
    manifests_before: int | None = column("Manifests of the newest snapshot before the upkeep; NULL if unknown.")
    manifests_after: int | None = column("Manifests of the newest snapshot after the upkeep; NULL if unknown.")


@dataclass(frozen=True)
class RewriteManifests(UpkeepCall):
    """The table whose manifests are merged."""

    procedure = "rewrite_manifests"
    comment = "Merges the manifests of a lake table, now."
    requirement = OPERATE_TABLE
    row_class = RewriteManifestsRow
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    wait: bool = parameter("Whether to wait until the manifests are merged.", default=True, identifies=False)
    timeout_ms: int = parameter("How long to wait, in milliseconds. The round continues afterwards.", default=300_000, identifies=False)

    def rows(self, result: UpkeepResult) -> Iterable[RewriteManifestsRow]:
        """Returns the row."""
        stats = result.stats
        yield RewriteManifestsRow(
            result.path, result.outcome, result.reason, result.round_id, stats.manifests_before, stats.manifests_after
        )
