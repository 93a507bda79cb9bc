"""The rows that a table leaves behind: rounds, the ledger of grants, events."""

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
    """Why a round was made (docs/reference.md, `tiering_rounds.trigger`)."""

    SCHEDULE = "schedule"
    CALL = "call"
    RETRY = "retry"
    FORCE = "force"
    UPKEEP = "upkeep"


@dataclass(frozen=True)
class RoundRecord:
    """One tiering round: a row of `sys.tiering_rounds`, and what fences it."""

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
    """The process that runs it; shown to no one, so that no other can report for it. None = an older tierer's."""
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
    """When the promise of freshness was to be broken: as it stood when the round was queued, or later (`waits.promise`)."""
    missed_by_ms: int | None = None
    """How long after that the lake had caught up; None unless this round made it catch up."""
    completion_target: datetime | None = None
    """When the round stops early if it is not done."""
    mode: RoundMode | None = None
    """None before its plan."""
    queued_late_ms: int | None = None
    waited_for_slot_ms: int | None = None
    earlier_rounds_ms: int | None = None
    backoff_ms: int | None = None
    paused_ms: int | None = None
    no_tierer_ms: int | None = None
    """The part of the wait for a slot in which no tierer was connected."""
    unpromised_ms: int = 0
    """The part of all waits in which no row had to wait so long."""
    definition: str | None = None
    """Fingerprint of the source table when a tierer got the round."""
    outlived_coordinator: bool = False
    """A coordinator started while it was open: its store may be one that was set back, and lack the grant."""
    upkeep: UpkeepOrder | None = None
    """What an upkeep round does; None = the round tiers."""
    upkeep_reason: str | None = None
    """Why the upkeep round was made, in words."""
    upkeep_request: str | None = None
    """The caller's request that the upkeep round is for (`UpkeepRequest.request_id`); None = the coordinator began it by itself."""

    @property
    def fraction_completed(self) -> float | None:
        """The part of the round that is done, by records or else by splits; between 0 and 1."""
        return None if self.progress is None else self.progress.fraction

    @property
    def progress(self) -> RoundProgress | None:
        """How far the running round is; None before its plan."""
        if self.splits_done is None and self.records_done is None:
            return None
        return RoundProgress(self.splits_done or 0, self.splits_total or 0, self.records_done or 0, self.records_total or 0)


class CommitState(StrEnum):
    """How far a granted commit is (docs/reference.md, `lake_commits.state`)."""

    PREPARED = "PREPARED"
    LAKE_COMMITTED = "LAKE_COMMITTED"
    ACKED = "ACKED"
    ABORTED = "ABORTED"
    RECONCILED = "RECONCILED"
    UNKNOWN = "UNKNOWN"

    @property
    def is_resolved(self) -> bool:
        """Whether it is known if the commit is in the lake, and the cluster was told."""
        return self in (CommitState.ACKED, CommitState.ABORTED, CommitState.RECONCILED)


@dataclass(frozen=True)
class LakeCommitRecord:
    """A grant: a row of `sys.lake_commits`. `base_tag` was the newest tiering commit when it was granted (the sweep's condition).

    `lake_table_uuid` is the lake table that it was granted for; None in rows of older versions. The last two are those of a commit of
    `reconcile_lake`; `records_left_out` None = it could not be told.
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
    """How much an event matters."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


@dataclass(frozen=True)
class EventRecord:
    """A row of `sys.tiering_events`; the store numbers it."""

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
