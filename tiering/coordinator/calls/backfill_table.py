"""`CALL sys.backfill_table`: copies older rows of another lake table into a table's lake table."""

from __future__ import annotations

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.lake_repair.backfiller import Backfiller
from tiering.procedures.backfill_table import BackfillTable, BackfillTableResult


def backfill_table(parts: CallParts, request: BackfillTable) -> BackfillTableResult:
    """Copies the rows.

    Raises InvalidArgument, CannotReconcile, AccessDenied, UnknownTable, InvalidData (a row that does not fit), SchemaDrift,
    LakeUnavailable, ClusterUnavailable, CommitOutcomeUnknown.
    """
    return Backfiller(parts).backfill(request)
