"""Records of the upkeep of a lake table (DESIGN 7, Upkeep)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from tiering.coordinator.decisions.records.errors import ErrorInfo
from tiering.coordinator.decisions.records.history import LakeCommitRecord, RoundRecord
from tiering.model.upkeep import UpkeepOrder, UpkeepStats


class UpkeepOutcome(StrEnum):
    """How an upkeep round ended (docs/reference.md, `lake_upkeep.outcome`)."""

    SUCCEEDED = "SUCCEEDED"
    EMPTY = "EMPTY"
    DROPPED = "DROPPED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class UpkeepPause:
    """A pause of a table's upkeep. Tiering continues."""

    by: str
    reason: str | None
    time: datetime


@dataclass(frozen=True)
class UpkeepRequest:
    """A caller's request for upkeep. It may need several rounds; the first one has `request_id` as its round id.

    `rounds` and `stats` cover the rounds that have ended.
    """

    request_id: str
    order: UpkeepOrder
    procedure: str
    caller: str
    queued_time: datetime
    idempotency_key: str | None = None
    rounds: int = 0
    stats: UpkeepStats = field(default_factory=UpkeepStats)


@dataclass(frozen=True)
class EndedUpkeep:
    """How a caller's request ended. `round_id` is its last round; None if no round began. `stats` are the sums over all its rounds."""

    request_id: str
    outcome: UpkeepOutcome
    time: datetime
    round_id: str | None = None
    rounds: int = 0
    stats: UpkeepStats = field(default_factory=UpkeepStats)
    error: ErrorInfo | None = None


@dataclass(frozen=True)
class BeforeUpkeep:
    """The fields of a table's record that an upkeep round overwrites. They are restored when it ends, because upkeep is not tiering."""

    round: RoundRecord | None
    commit: LakeCommitRecord | None
    checked_since: datetime | None
    checked_wall: datetime | None
    last_round_duration_ms: int | None


@dataclass(frozen=True)
class UpkeepRecord:
    """The upkeep of one table. The `last_*` fields are about the latest upkeep that ended, in an upkeep round or in a tiering round.

    `next_deadline` is the earliest start of upkeep that the coordinator begins on its own (steady time). `rest_deadline` is the earliest
    start of any upkeep round, after a round that gave way to tiering.
    """

    last_time: datetime | None = None
    last_round_id: str | None = None
    last_outcome: UpkeepOutcome | None = None
    last_error: ErrorInfo | None = None
    commit_time: datetime | None = None
    """When the latest upkeep round ended that may have changed the lake table. Older observations of the table are outdated."""
    next_deadline: datetime | None = None
    rest_deadline: datetime | None = None
    failures: int = 0
    """Consecutive upkeep rounds that failed, or whose work was dropped."""
    idle_rounds: int = 0
    """Consecutive upkeep rounds that had nothing to do, although the table's health required work."""
    given_way: int = 0
    """Consecutive upkeep rounds that gave way to tiering before their commit."""
    budget_bytes: int | None = None
    """Upper bound of the bytes that the next upkeep round rewrites, after rounds that were too large; None = the order's own limit."""
    bytes_left: int | None = None
    """Bytes that the latest upkeep round left for the next one; None if unknown."""
    manifests_left: int | None = None
    """Manifests of the lake table after the latest upkeep round that merged all of them; None if unknown."""
    is_needed: bool = False
    """Whether the table needs upkeep by its last observed health. Used only where the cluster assigns tables."""
    turn_deadline: datetime | None = None
    """Until when the table's turn is kept for upkeep after a tiering round (steady time). Used only where the cluster assigns tables."""
    pause: UpkeepPause | None = None
    requests: tuple[UpkeepRequest, ...] = ()
    """Callers' requests in the order in which they are served."""
    ended: tuple[EndedUpkeep, ...] = ()
    """The latest requests that ended, the newest last."""
    before: BeforeUpkeep | None = None
    """Set only while an upkeep round runs."""

    def request(self, request_id: str | None) -> UpkeepRequest | None:
        """Returns the open request with this id; None if there is none."""
        return next((request for request in self.requests if request.request_id == request_id), None)

    def with_request(self, request: UpkeepRequest) -> UpkeepRecord:
        """Returns the record with this request instead of the one with the same id."""
        return replace(self, requests=tuple(request if waiting.request_id == request.request_id else waiting for waiting in self.requests))
