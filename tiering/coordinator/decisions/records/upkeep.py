"""What is on record of the upkeep of a lake table (DESIGN 7, Upkeep)."""

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
    """A pause of a table's upkeep. Its tiering goes on."""

    by: str
    reason: str | None
    time: datetime


@dataclass(frozen=True)
class UpkeepRequest:
    """Upkeep that a caller wants. It may take several rounds; the first one has `request_id` as its round id.

    `rounds` and `stats` are those of the rounds that ended so far.
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
    """How a caller's request ended. `round_id`: its last round; None = no round began. `stats` are the sums of all its rounds."""

    request_id: str
    outcome: UpkeepOutcome
    time: datetime
    round_id: str | None = None
    rounds: int = 0
    stats: UpkeepStats = field(default_factory=UpkeepStats)
    error: ErrorInfo | None = None


@dataclass(frozen=True)
class BeforeUpkeep:
    """What a table's record had before its upkeep round began, and has again once the round has ended: its upkeep says nothing of its
    tiering."""

    round: RoundRecord | None
    commit: LakeCommitRecord | None
    checked_since: datetime | None
    checked_wall: datetime | None
    last_round_duration_ms: int | None


@dataclass(frozen=True)
class UpkeepRecord:
    """The upkeep of one table. The `last_*` fields are about the latest upkeep that ended, of an upkeep round or inside a tiering round.

    `next_deadline`: upkeep that the coordinator begins by itself begins no earlier (steady time). `rest_deadline`: no upkeep round begins
    before it, after a round that gave way to tiering.
    """

    last_time: datetime | None = None
    last_round_id: str | None = None
    last_outcome: UpkeepOutcome | None = None
    last_error: ErrorInfo | None = None
    commit_time: datetime | None = None
    """When the latest upkeep round ended that may have changed the lake table: what was observed of it before is outdated."""
    next_deadline: datetime | None = None
    rest_deadline: datetime | None = None
    failures: int = 0
    """Upkeep rounds in a row that failed, or whose work was dropped."""
    idle_rounds: int = 0
    """Upkeep rounds in a row that had nothing to do, although the table's health said so."""
    given_way: int = 0
    """Upkeep rounds in a row that gave way to tiering before their commit."""
    budget_bytes: int | None = None
    """Bytes that the next upkeep round rewrites at most, after rounds that were too large; None = as its order says."""
    bytes_left: int | None = None
    """Bytes that the latest upkeep round left to be rewritten; None = not known."""
    manifests_left: int | None = None
    """Manifests of the lake table after the latest upkeep round that merged all of them; None = not known."""
    is_needed: bool = False
    """Only where the cluster assigns tables: whether the table's health says that upkeep is to be done, as last observed."""
    turn_deadline: datetime | None = None
    """Only where the cluster assigns tables: until when the table's turn is kept after a tiering round, for upkeep (steady time)."""
    pause: UpkeepPause | None = None
    requests: tuple[UpkeepRequest, ...] = ()
    """What callers want, the first one next."""
    ended: tuple[EndedUpkeep, ...] = ()
    """The latest requests that ended, the newest last."""
    before: BeforeUpkeep | None = None
    """Only while an upkeep round runs."""

    def request(self, request_id: str | None) -> UpkeepRequest | None:
        """The request with this id that has not ended."""
        return next((request for request in self.requests if request.request_id == request_id), None)

    def with_request(self, request: UpkeepRequest) -> UpkeepRecord:
        """The record with this request in the place of the one with its id."""
        return replace(self, requests=tuple(request if waiting.request_id == request.request_id else waiting for waiting in self.requests))
