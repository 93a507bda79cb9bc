"""Records of callers' requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiering.coordinator.decisions.records.errors import ErrorInfo
from tiering.coordinator.decisions.records.text_offsets import TextOffsets


@dataclass(frozen=True)
class QueuedCall:
    """A CALL that needs the round after the running one. `round_id` is the id of that next round, assigned in advance."""

    round_id: str
    caller: str
    queued_time: datetime
    idempotency_key: str | None = None


@dataclass(frozen=True)
class OperationRecord:
    """The operation that an idempotency key names (DESIGN 5). `targets` and `log_starts` are the offsets captured at the first call.

    `outcome` and `error` are None while the operation runs.
    """

    idempotency_key: str
    caller: str
    procedure: str
    arguments: Mapping[str, Any]
    table_id: int | None
    started_time: datetime
    targets: TextOffsets
    log_starts: TextOffsets
    round_id: str | None = None
    lag_ms_before: int | None = None
    outcome: Mapping[str, Any] | None = None
    error: ErrorInfo | None = None
