"""`CALL sys.reconcile_lake` (DESIGN 6 step 2): repairs a lake table that failed the base check, so that rounds can build on it again."""

from __future__ import annotations

from dataclasses import replace

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.lake_repair.reconciler import Reconciler, action_of
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult


def reconcile_lake(parts: CallParts, request: ReconcileLake) -> ReconcileLakeResult:
    """Reconciles the lake table.

    Raises CannotReconcile, SchemaDrift, UnknownTable, LakeUnavailable, ClusterUnavailable, CommitOutcomeUnknown, InvalidArgument.
    """
    return Reconciler(parts).reconcile(replace(request, action=action_of(request.action).value))
