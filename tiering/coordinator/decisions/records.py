"""What the coordinator remembers: one frozen record a table, and the rows it leaves behind (rounds, ledger, events).

Records live here and not in `memory`, because decisions are functions from records to records: `memory` keeps them, and imports
this module.

Offsets are kept by the text of their bucket (`str(BucketKey)`), which is also how SQL shows them. Fields named
`*_time` are wall times, `*_deadline` and `*_since` steady ones (see `moment`); all aware, UTC. None = unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from tiering.model.assignments import AssignmentRef
from tiering.model.rounds import RecordedLakeSnapshot, RoundMode, RoundProgress, RoundState, RoundStats
from tiering.model.splits import BacklogStart
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, Offsets, TablePath

TextOffsets = Mapping[str, int]
"""Offsets by `str(BucketKey)`."""


def to_text(offsets: Offsets) -> dict[str, int]:
    """Offsets as records keep them, in bucket order."""
    return {str(bucket): offsets[bucket] for bucket in sorted(offsets, key=BucketKey.sort_key)}


def from_text(offsets: TextOffsets) -> dict[BucketKey, int]:
    """The inverse of `to_text`."""
    return {BucketKey.parse(text): offset for text, offset in offsets.items()}


class Trigger(StrEnum):
    """Why a round was made (SYS.md, `tiering_rounds.trigger`)."""

    SCHEDULE = "schedule"
    CALL = "call"
    RETRY = "retry"
    FORCE = "force"


class CommitState(StrEnum):
    """How far a granted commit is (SYS.md, `lake_commits.state`)."""

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


class Level(StrEnum):
    """How much an event matters."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


class Way(StrEnum):
    """What helps a table that failed for good, as lake and log were when the coordinator last looked (`WayOut`)."""

    NONE = "none"
    RETIER = "retier"
    ADOPT = "adopt"
    DEDUPLICATE = "deduplicate"
    RETRY = "retry"
    RENAME_TABLE = "rename_table"
    SET_SNAPSHOT = "set_snapshot"
    RENAME_COLUMN = "rename_column"
    DROP_COLUMN = "drop_column"
    DROP_NOT_NULL = "drop_not_null"
    CHANGE_TYPE = "change_type"


@dataclass(frozen=True)
class WayOut:
    """A way that leaves no acknowledged row out of the lake; NONE = there is none, and what is wrong is not mended yet.

    `column` is the lake's, `value` its new name or type, or a snapshot's id. `choices` tells of the ways that leave rows out, and how
    many, for the hint.
    """

    kind: Way
    column: str | None = None
    value: str | None = None
    choices: str = ""


@dataclass(frozen=True)
class ErrorInfo:
    """An error as it is shown: redacted and cut before it gets here. `way_out` None = nobody looked for one."""

    error_class: str
    message: str
    phase: str | None
    hint: str
    retryable: bool
    time: datetime
    ids: Mapping[str, str] = field(default_factory=dict)
    way_out: WayOut | None = None

    @property
    def full_hint(self) -> str:
        """The hint with the choices that leave rows out of the lake."""
        return self.hint if self.way_out is None else f"{self.hint} {self.way_out.choices}".strip()


@dataclass(frozen=True)
class Pause:
    """A paused table is not assigned. `until_deadline` None = until somebody resumes it.

    `until` is the wall time that was asked for: a wish, which a start of the coordinator takes as it stands.
    """

    by: str
    reason: str | None
    time: datetime
    until_deadline: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class QueuedCall:
    """A CALL that needs the round after the running one; `round_id` is that round's, given out beforehand."""

    round_id: str
    caller: str
    queued_time: datetime
    idempotency_key: str | None = None


@dataclass(frozen=True)
class LakeKnowledge:
    """The coordinator's copy of what the lake holds: it may be behind, never ahead.

    `passed_head` is the newest head that a base check passed (DESIGN 6.2). Totals are of the whole lake table. `backlog`: per bucket
    where its backlog ends, until the lake has passed that (`decisions.backlog`); None = no round has planned yet.
    `marker_tells`: the lake holds what its markers say; False once `reconcile_lake(accept)` left records out.
    """

    table_uuid: str | None = None
    passed_head: int | None = None
    snapshot_id: int | None = None
    offsets: TextOffsets | None = None
    marker_round_id: str | None = None
    records: int | None = None
    size_bytes: int | None = None
    files: int | None = None
    location: str | None = None
    backlog: TextOffsets | None = None
    marker_tells: bool = True
    moved_back: TextOffsets = field(default_factory=dict)
    """Buckets whose end in `offsets` was moved back by what another tiering service wrote: the next round replays them."""
    starts: TextOffsets | None = None
    """Where the rows of buckets begin of which the lake lacks the first; None = an older version recorded the offsets."""
    backlog_start: BacklogStart | None = None
    backlog_starts: int = 0
    backlog_start_time: datetime | None = None
    """A start that waits for its plan; how many were planned, and when the latest was."""
    unresolved_epoch: int | None = None
    """Epoch of the newest round whose granted commit nobody has the outcome of: its request may still land."""

    @property
    def recorded(self) -> RecordedLakeSnapshot | None:
        """Snapshot and offsets, if a commit was recorded."""
        if self.snapshot_id is None or self.offsets is None:
            return None
        return RecordedLakeSnapshot(self.snapshot_id, from_text(self.offsets))


class AssignmentEnd(StrEnum):
    """What the cluster is told of an assignment that is over here."""

    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True)
class AssignmentRecord:
    """The cluster's word that it is this deployment's turn with a table; only from clusters that assign (`tiering.cluster.assignments`).

    `end`: over here, and the cluster is to be told; None = still ours. `certain` False: its session is over, so that the same epochs may be
    another service's by now; it is kept for a commit with an unknown outcome alone, and begins no round.
    """

    coordinator_epoch: int
    tiering_epoch: int
    session: str
    assigned_since: datetime
    end: AssignmentEnd | None = None
    certain: bool = True


@dataclass(frozen=True)
class ElsewhereRecord:
    """What is known of a lake table that another service tiered further than we know. `source`: the value of `status_source`."""

    source: str
    lake_snapshot_id: int
    offsets: TextOffsets
    noticed_time: datetime


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
    unpromised_ms: int = 0
    """The part of the wait for a slot in which no tierer was connected; that of all waits in which no row had to wait so long."""

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


@dataclass(frozen=True)
class ErrorRecord:
    """How often rounds of a table failed in one phase with one class: a row of `sys.tiering_errors`. Texts are of the last time."""

    table_id: int
    database_name: str
    table_name: str
    phase: str | None
    error_class: str
    message: str
    hint: str
    retryable: bool
    count: int
    first_seen: datetime
    last_seen: datetime
    last_round_id: str
    resolved_at: datetime | None = None
    """When a later round went well, or somebody reconciled the table, or it was dropped or its lake disabled."""

    @property
    def key(self) -> str:
        """Names it in the store."""
        return f"{self.table_id}/{self.phase or ''}/{self.error_class}"


@dataclass(frozen=True)
class OperationRecord:
    """What an idempotency key names (DESIGN 5). `targets` and `log_starts` are the offsets captured at the first call.

    `outcome` and `error` are None while it goes on.
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


@dataclass(frozen=True)
class TiererRecord:
    """A process that tiers, as its heartbeats describe it. Not stored: heartbeats bring it back after a restart.

    `superseded`: another process was met under its id; of its own heartbeats so many may still be late ones. `took_over`: it has
    taken over what earlier processes of its id ran. `warned_of_age`: the log says already that it is of an older version.
    """

    tierer_id: str
    incarnation: str
    sequence: int
    started_at_ms: int
    host: str
    application_id: str
    version: str
    slots: int
    heartbeat_time: datetime
    lost_deadline: datetime
    stopped: bool = False
    superseded: int = 0
    took_over: bool = False
    fenced: bool = False
    """Somebody took it out of service: it gets no table."""
    warned_of_age: bool = False
    rounds: int = 0
    """Rounds that it ended since it was met."""

    @property
    def key(self) -> tuple[str, str]:
        """Id and incarnation: another process may have the same id."""
        return self.tierer_id, self.incarnation


@dataclass(frozen=True)
class TableRecord:
    """Everything about the tiering of one lake table. `state` None = removed: only its epoch and lake are kept.

    A removed table with a `forget_deadline` was dropped, and is forgotten then; without one its lake was disabled.

    `definition` is a fingerprint of the source table: a change resumes a permanent failure. `round` is the latest
    round, `commit` its ledger row once granted. `checked_since` is when the running round looked at the log.
    """

    table_id: int
    database_name: str
    table_name: str
    table_type: str
    lake_format: str
    freshness_ms: int
    definition: str
    state: TableState | None
    status_time: datetime
    tiering_epoch: int = 0
    due_deadline: datetime | None = None
    pending_since: datetime | None = None
    checked_since: datetime | None = None
    checked_wall: datetime | None = None
    heartbeat_time: datetime | None = None
    heartbeat_deadline: datetime | None = None
    last_tiered_time: datetime | None = None
    last_checked_time: datetime | None = None
    last_round_duration_ms: int | None = None
    round: RoundRecord | None = None
    commit: LakeCommitRecord | None = None
    error: ErrorInfo | None = None
    error_count: int = 0
    consecutive_failures: int = 0
    retry_deadline: datetime | None = None
    pause: Pause | None = None
    call: QueuedCall | None = None
    lake: LakeKnowledge = field(default_factory=LakeKnowledge)
    forget_deadline: datetime | None = None
    errors: tuple[ErrorRecord, ...] = ()
    """The kinds of errors of its rounds, the one seen last at the end; at most `MAX_ERRORS`."""
    backoff_ms: int = 0
    """How long the table has waited after failures since a round last went well."""
    paused_ms: int = 0
    """How long pauses have held it up since then; those that are over."""
    waited_for_slot_ms: int = 0
    no_tierer_ms: int = 0
    """How long its rounds have waited for a tierer since then, those that got one; and for how much of it none was connected."""
    queued_late_ms: int = 0
    due_time: datetime | None = None
    """How long nobody queued it since then although it was due; when it became due, None = not yet."""
    assignment: AssignmentRecord | None = None
    elsewhere: ElsewhereRecord | None = None
    round_bytes: int | None = None
    """So much waiting makes the table due before its freshness is over; None = only its freshness does."""
    recent_rounds_ms: tuple[int, ...] = ()
    recent_waits_ms: tuple[int, ...] = ()
    """How long its latest rounds took that committed, but for those of a backlog, and how long they waited for a slot."""

    @property
    def path(self) -> TablePath:
        return TablePath(self.database_name, self.table_name)

    @property
    def granted(self) -> bool:
        """Whether the latest round may have sent its commit."""
        return self.commit is not None and self.round is not None and self.commit.round_id == self.round.round_id

    @property
    def unresolved_commit(self) -> bool:
        """Whether a commit request of ours may still land: until that is known, no other service may have the table."""
        granted = self.granted and self.round is not None and not self.round.acked
        return granted or self.lake.unresolved_epoch is not None

    @property
    def has_turn(self) -> bool:
        """Whether the cluster, where it assigns tables, lets this deployment begin a round of it."""
        return self.assignment is not None and self.assignment.end is None and self.assignment.certain

    @property
    def assignment_ref(self) -> AssignmentRef | None:
        """The name under which the cluster knows the assignment."""
        held = self.assignment
        return None if held is None else AssignmentRef(self.table_id, held.coordinator_epoch, held.tiering_epoch)

    @property
    def shown_offsets(self) -> TextOffsets | None:
        """How far the lake is, as it is shown; only what a base check passed counts for rounds."""
        return self.lake.offsets if self.elsewhere is None else self.elsewhere.offsets

    @property
    def shown_snapshot_id(self) -> int | None:
        """The newest tiering snapshot that is known of, as `shown_offsets`."""
        return self.lake.snapshot_id if self.elsewhere is None else self.elsewhere.lake_snapshot_id

    @property
    def running(self) -> RoundRecord | None:
        """The round that a tierer has now."""
        return self.round if self.state is TableState.TIERING else None
