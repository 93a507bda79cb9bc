"""Calls of operators to a coordinator, in the thread of the test."""

from __future__ import annotations

from datetime import datetime

from tiering.coordinator.calls.cancel_tiering import cancel_tiering
from tiering.coordinator.calls.fence_tierer import fence_tierer
from tiering.coordinator.calls.pause_tiering import pause_tiering
from tiering.coordinator.calls.resume_tiering import resume_tiering
from tiering.coordinator.server.coordinator import Coordinator
from tiering.model.tables import TablePath
from tiering.procedures.cancel_tiering import CancelOutcome, CancelTiering
from tiering.procedures.fence_tierer import FenceTierer
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.resume_tiering import ResumeTiering


def pause(coordinator: Coordinator, path: TablePath, caller: str, reason: str | None = None, until: datetime | None = None) -> None:
    """The table is not assigned any more."""
    pause_tiering(coordinator.call_parts, PauseTiering(path, reason, until, caller=caller))


def resume(coordinator: Coordinator, path: TablePath, caller: str) -> None:
    """Ends a pause."""
    resume_tiering(coordinator.call_parts, ResumeTiering(path, caller=caller))


def cancel(coordinator: Coordinator, round_id: str, caller: str) -> bool:
    """Whether the round will end without a commit."""
    return cancel_tiering(coordinator.call_parts, CancelTiering(round_id, caller=caller)).outcome is CancelOutcome.CANCELLED


def fence(coordinator: Coordinator, tierer_id: str, caller: str) -> int:
    """How many tables the tierer had; it gets none any more."""
    return fence_tierer(coordinator.call_parts, FenceTierer(tierer_id, caller=caller)).tables_fenced
