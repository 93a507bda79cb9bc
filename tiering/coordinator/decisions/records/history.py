"""Rows that a table adds to the store: rounds, the ledger of grants, events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from tiering.coordinator.decisions.records.errors import ErrorInfo
from tiering.coordinator.decisions.records.text_offsets import TextOffsets
from tiering.model.rounds import RoundMode, RoundProgress, RoundState, RoundStats
from tiering.model.upkeep import UpkeepOrder


class Trigger(StrEnum):
    """Why a round was created (docs/reference.md, `tiering_rounds.trigger`)."""

    SCHEDULE = "schedule"
    CALL = "call"
    RETRY = "retry"
    FORCE = "force"
    UPKEEP = "upkeep"


@dataclass(frozen=True)
class RoundRecord:
    """One tiering round: a row of `sys.tiering_rounds`, with the values that fence it."""

    round_id: str
    table_id: int
    database_name: str
    table_name: str
    tiering_epoch: int
    coordinator_epoch: int
    trigger: Trigger
    state: RoundState
    pending_time: datetime
    attempt: int = 1
    triggered_by: str | None = None
    idempotency_key: str | None = None
    tierer_id: str | None = None
    incarnation: str | None = None
    """The process that runs it. It is never displayed, so that no other process can report for it. None if unknown."""
    started_time: datetime | None = None
    finished_time: datetime | None = None
    planned_stops: TextOffsets | None = None
    splits_total: int | None = None
    splits_done: int | None = None
    records_done: int | None = None
    records_total: int | None = None
    stats: RoundStats | None = None
    acked: bool = False
    lake_snapshot_id: int | None = None
    cancelled_by: str | None = None
    cancel_message: str | None = None
    error: ErrorInfo | None = None
    deadline: datetime | None = None
    """When the promise of freshness would be broken: the value when the round was queued, or a later one (`waits.promise`)."""
    missed_by_ms: int | None = None
    """How long after the deadline the lake was up to date. None unless this round brought it up to date."""
    completion_target: datetime | None = None
    """When the round stops early if it is not finished."""
    mode: RoundMode | None = None
    """Mode of the round; None before it has a plan."""
    queued_late_ms: int | None = None
    waited_for_slot_ms: int | None = None
    earlier_rounds_ms: int | None = None
    backoff_ms: int | None = None
    paused_ms: int | None = None
    no_tierer_ms: int | None = None
    """The part of the wait for a slot during which no tierer was connected."""
    unpromised_ms: int = 0
    """The part of all waits that breaks no promise: the oldest waiting row is younger than the queued deadline assumed."""
    definition: str | None = None
    """Fingerprint of the source table when the round was assigned."""
    outlived_coordinator: bool = False
    """A coordinator started while the round was open. Its store may be a restored backup that lacks the grant."""
    upkeep: UpkeepOrder | None = None
    """The work of an upkeep round; None for a tiering round."""
    upkeep_reason: str | None = None
    """Why the upkeep round was created, in words."""
    upkeep_request: str | None = None
    """The caller's request that the upkeep round serves (`UpkeepRequest.request_id`); None if the coordinator started it."""

    @property
    def fraction_completed(self) -> float | None:
        """The completed part of the round, by records if they are counted, otherwise by splits; between 0 and 1."""
        return None if self.progress is None else self.progress.fraction

    @property
    def progress(self) -> RoundProgress | None:
        """The progress of the running round; None before it has a plan."""
        if self.splits_done is None and self.records_done is None:
            return None
        return RoundProgress(self.splits_done or 0, self.splits_total or 0, self.records_done or 0, self.records_total or 0)


class CommitState(StrEnum):
    """State of a granted commit (docs/reference.md, `lake_commits.state`)."""

    PREPARED = "PREPARED"
    LAKE_COMMITTED = "LAKE_COMMITTED"
    ACKED = "ACKED"
    ABORTED = "ABORTED"
    RECONCILED = "RECONCILED"
    UNKNOWN = "UNKNOWN"

    @property
    def is_resolved(self) -> bool:
        """Whether it is known if the commit is in the lake, and the cluster has been told."""
        return self in (CommitState.ACKED, CommitState.ABORTED, CommitState.RECONCILED)


@dataclass(frozen=True)
class LakeCommitRecord:
    """A grant: a row of `sys.lake_commits`.

    `base_tag` was the newest tiering commit when it was granted; the sweep needs it. `lake_table_uuid` is the lake table that it was
    granted for; None in rows of older versions. The last two fields belong to a commit of `reconcile_lake`; `records_left_out` is None if
    the number is unknown.
    """

    round_id: str
    table_id: int
    database_name: str
    table_name: str
    tiering_epoch: int
    state: CommitState
    prepared_at: datetime
    base_round_id: str | None = None
    base_tag: int | None = None
    offsets: TextOffsets = field(default_factory=dict)
    records: int = 0
    files: int = 0
    lake_snapshot_id: int | None = None
    lake_committed_at: datetime | None = None
    acked_at: datetime | None = None
    reconciled_by: str | None = None
    lake_table_uuid: str | None = None
    reconcile_action: str | None = None
    records_left_out: int | None = None


class Level(StrEnum):
    """Severity of an event."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


@dataclass(frozen=True)
class EventRecord:
    """A row of `sys.tiering_events`. The store sets `event_id`."""

    occurred_at: datetime
    level: Level
    event_type: str
    message: str
    principal: str | None = None
    database_name: str | None = None
    table_name: str | None = None
    round_id: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    event_id: int | None = None
