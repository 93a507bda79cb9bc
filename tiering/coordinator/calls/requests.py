"""What CALLs of tiering, reconciling and sweeping ask, and what a reconciliation answers. `mutations` has the smaller ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiering.coordinator.calls.mutations import Mutation
from tiering.model.call_results import TierTableResult
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class TierTable(Mutation[TierTableResult]):
    """Arguments of `CALL sys.tier_table` (SYS.md, DESIGN 5). A key is bound to what is asked, not to how long the caller waits."""

    procedure = "tier_table"
    result_class = TierTableResult
    unnamed = Mutation.unnamed | {"wait", "timeout_ms"}
    path: TablePath
    wait: bool = True
    timeout_ms: int = 300_000


@dataclass(frozen=True)
class ReconcileResult:
    """Its output. `outcome`: reconciled, not_needed, or would_reconcile for a dry run; `offsets`: where tiering goes on.

    A bucket that is not in `offsets` begins with its KV snapshot, or at its log's start. `records_left_out` None = it cannot be told.
    """

    path: TablePath
    action: str
    round_id: str | None
    lake_snapshot_id: int | None
    outcome: str
    offsets: Mapping[str, int]
    records_left_out: int | None = None


@dataclass(frozen=True)
class ReconcileLake(Mutation[ReconcileResult]):
    """Arguments of `CALL sys.reconcile_lake` (SYS.md, DESIGN 6). `action`: adopt, accept or retier."""

    procedure = "reconcile_lake"
    result_class = ReconcileResult
    path: TablePath
    action: str


@dataclass(frozen=True)
class SweepLake:
    """Arguments of `lakeward sweep`. `path` None = all lake tables."""

    path: TablePath | None
    caller: str
    older_than_ms: int
    dry_run: bool = False
