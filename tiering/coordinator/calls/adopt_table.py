"""`CALL sys.adopt_table`: takes over a lake table that an earlier pipeline wrote from the same records."""

from __future__ import annotations

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.lake_repair.adopter import Adopter
from tiering.procedures.adopt_table import AdoptTable, AdoptTableResult


def adopt_table(parts: CallParts, request: AdoptTable) -> AdoptTableResult:
    """Adopts the lake table.

    Raises CannotReconcile, InvalidArgument, UnknownTable, LakeUnavailable, ClusterUnavailable, CommitOutcomeUnknown.
    """
    return Adopter(parts).adopt(request)
