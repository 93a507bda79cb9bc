"""The record of one lake table's tiering, the records of its assignment and of callers' requests, and the record of a tierer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from tiering.coordinator.decisions.records.errors import ErrorInfo, ErrorRecord
from tiering.coordinator.decisions.records.history import LakeCommitRecord, RoundRecord, Trigger
from tiering.coordinator.decisions.records.text_offsets import TextOffsets, from_text
from tiering.coordinator.decisions.records.upkeep import UpkeepRecord
from tiering.lake.marker import LaterChange
from tiering.model.assignments import AssignmentRef
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import BacklogStart
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, SkippedRecords, TablePath

EntryT = TypeVar("EntryT", tuple[int, ...], Mapping[int, str])


@dataclass(frozen=True)
class Pause:
    """A pause: the table is not assigned. `until_deadline` is None if the pause lasts until a user resumes the table.

    `until` is the wall time that the caller named. After a restart the pause still ends at that wall time.
    """

    by: str
    reason: str | None
    time: datetime
    until_deadline: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class LakeState:
    """The coordinator's copy of what the lake holds. It may be behind the lake, never ahead of it.

    `passed_head` is the newest head that a base check passed (DESIGN 6.2). `records`, `size_bytes` and `files` are totals of the whole
    lake table. `backlog` maps each bucket to the end of its backlog until the lake has passed it (`decisions.backlog`); None before the
    first plan. `marker_tells` is False once `reconcile_lake(accept)` left records out: the lake then holds less than its markers say.
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
    """Buckets whose end in `offsets` was moved back because of another tiering service's commit. The next round replays them."""
    skipped: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The sorted offsets of records that rounds leave out, per bucket: because of `sys.skip_record`, or because they were put aside."""
    skipped_traces: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """The cluster's trace of each record in `skipped`, per bucket and offset. Older versions recorded none."""
    dead_letters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The sorted offsets of those records in `skipped` that rounds put aside, per bucket (`lake.dead_letters`)."""
    superseded: Mapping[str, Mapping[int, LaterChange]] = field(default_factory=dict)
    """The later changes that won over former dead letters in `skipped`, per bucket and offset (`Marker.superseded`)."""
    dead_letters_since: datetime | None = None
    """Time at which the hour began in which the newest records were put aside."""
    dead_letters_in_hour: int = 0
    """Number of records that were put aside since then."""
    starts: TextOffsets | None = None
    """Where the lake's rows of a bucket begin, for buckets whose first rows the lake lacks. None if an older version recorded `offsets`."""
    backlog_start: BacklogStart | None = None
    """A start of a backlog that waits for the next plan."""
    backlog_starts: int = 0
    """Number of planned starts."""
    backlog_start_time: datetime | None = None
    """Time of the latest start."""
    archived_records: int = 0
    """Number of records in dropped partitions that were tiered to the present lake table.

    A log table keeps that many rows of them, a primary-key table at most that many, unless a user removes them.
    """
    reported_drops: tuple[int, ...] = ()
    """Partitions in `offsets` whose drop was reported (`observing.dropped_partitions`). No later coordinator reports them again."""
    proofs: Mapping[str, str] = field(default_factory=dict)
    """The proof of each bucket's rows in the marker of `marker_round_id`, for a clean log table (`BucketProof.text`)."""
    traces: Mapping[str, str] = field(default_factory=dict)
    """The cluster's trace of the last tiered record, per bucket (`Marker.traces`). Older versions recorded none."""
    unresolved_epoch: int | None = None
    """Epoch of the newest round whose granted commit has an unknown outcome: its request may still land."""

    @property
    def skipped_records(self) -> SkippedRecords:
        """`skipped` with the traces, in the form that rounds and markers use."""
        return {
            BucketKey.parse(bucket): {offset: self.skipped_traces.get(bucket, {}).get(offset) for offset in offsets}
            for bucket, offsets in self.skipped.items()
        }

    def has_skipped(self, bucket: str, offset: int, trace: str | None) -> bool:
        """Returns whether this record was left out. `trace` identifies it; None if unknown, and then the offset decides."""
        recorded = self.skipped_traces.get(bucket, {}).get(offset)
        return offset in self.skipped.get(bucket, ()) and (trace is None or recorded is None or trace == recorded)

    def with_skipped(self, bucket: str, offset: int, trace: str | None) -> LakeState:
        """Returns this state with the record left out. It replaces an earlier skipped record at the same offset."""
        return self.with_all_skipped(bucket, {offset: trace})

    def with_all_skipped(self, bucket: str, records: Mapping[int, str | None]) -> LakeState:
        """Returns this state with records of a bucket left out, which are given with their traces."""
        traces = {**self.skipped_traces.get(bucket, {}), **{offset: trace for offset, trace in records.items() if trace is not None}}
        return replace(
            self,
            skipped={**self.skipped, bucket: tuple(sorted({*self.skipped.get(bucket, ()), *records}))},
            skipped_traces={**self.skipped_traces, bucket: traces} if traces else self.skipped_traces,
        )

    def without_skipped(self, bucket: str, offsets: Collection[int]) -> LakeState:
        """Returns this state without the skipped records at these offsets: rounds read them again."""
        gone = frozenset(offsets)
        kept = tuple(offset for offset in self.skipped.get(bucket, ()) if offset not in gone)
        traces = {offset: trace for offset, trace in self.skipped_traces.get(bucket, {}).items() if offset not in gone}
        return replace(
            self,
            skipped=_with_entry(self.skipped, bucket, kept),
            skipped_traces=_with_entry(self.skipped_traces, bucket, traces),
        )

    @property
    def dead_letter_offsets(self) -> Mapping[BucketKey, Sequence[int]]:
        """`dead_letters` in the form of markers."""
        return {BucketKey.parse(bucket): offsets for bucket, offsets in self.dead_letters.items()}

    @property
    def put_aside_offsets(self) -> Mapping[BucketKey, Collection[int]]:
        """The records in `skipped` that rounds put aside, without those that a user discarded."""
        buckets = {*self.dead_letters, *self.superseded}
        return {BucketKey.parse(bucket): {*self.dead_letters.get(bucket, ()), *self.superseded.get(bucket, ())} for bucket in buckets}

    @property
    def recorded(self) -> RecordedLakeSnapshot | None:
        """The recorded snapshot and offsets; None before the first recorded commit."""
        if self.snapshot_id is None or self.offsets is None:
            return None
        return RecordedLakeSnapshot(self.snapshot_id, from_text(self.offsets))


def _with_entry(entries: Mapping[str, EntryT], bucket: str, entry: EntryT) -> dict[str, EntryT]:
    return {**entries, bucket: entry} if entry else {other: value for other, value in entries.items() if other != bucket}


@dataclass(frozen=True)
class TableRecord:
    """The record of one lake table's tiering. `state` is None for a removed table, of which only the epochs and the lake are kept.

    A removed table with a `forget_deadline` was dropped, and its record is deleted then. Without one, its lake was disabled.

    `definition` is a fingerprint of the source table; a change of it resumes a permanent failure. `round` is the latest round, and `commit`
    its ledger row once it was granted. `checked_since` is when the running round read the ends of the log.
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
    consecutive_fences: int = 0
    """Fenced rounds since the last successful round. From the second one on, each is also a failure (`decisions.fences`)."""
    retry_deadline: datetime | None = None
    pause: Pause | None = None
    call: QueuedCall | None = None
    lake: LakeState = field(default_factory=LakeState)
    forget_deadline: datetime | None = None
    errors: tuple[ErrorRecord, ...] = ()
    """The kinds of errors of its rounds, the most recent last; at most `MAX_ERRORS`."""
    backoff_ms: int = 0
    """How long the table has waited after failures since the last successful round."""
    paused_ms: int = 0
    """How long pauses that have ended delayed it since then."""
    waited_for_slot_ms: int = 0
    """How long its assigned rounds had waited for a tierer since then."""
    no_tierer_ms: int = 0
    """The part of that wait during which no tierer was connected."""
    queued_late_ms: int = 0
    """How long the table was due but not queued since then."""
    due_time: datetime | None = None
    """When the table became due; None if it is not due."""
    assignment: AssignmentRecord | None = None
    elsewhere: OtherServiceRecord | None = None
    round_bytes: int | None = None
    """The table is due before its freshness has elapsed once this many bytes wait; None if only the freshness counts."""
    dead_letters_per_hour: int | None = None
    """How many records may be put aside within an hour; None if a bucket stops before a record that the lake cannot hold."""
    recent_rounds_ms: tuple[int, ...] = ()
    """Durations of its latest rounds that committed, without rounds of a backlog."""
    recent_waits_ms: tuple[int, ...] = ()
    """How long these rounds waited for a slot."""
    named_epoch: int = 0
    """The highest tiering epoch above the table's own one that a tierer named. Rounds that are queued later get a higher epoch."""
    upkeep: UpkeepRecord = field(default_factory=UpkeepRecord)

    @property
    def path(self) -> TablePath:
        return TablePath(self.database_name, self.table_name)

    @property
    def highest_epoch(self) -> int:
        """The highest known epoch of any round of the table. The next round gets a higher one."""
        return max(self.tiering_epoch, self.named_epoch)

    @property
    def granted(self) -> bool:
        """Whether the latest round may have sent its commit."""
        return self.commit is not None and self.round is not None and self.commit.round_id == self.round.round_id

    @property
    def unresolved_commit(self) -> bool:
        """Whether one of our commit requests may still land. Until that is known, no other service may get the table."""
        granted = self.granted and self.round is not None and not self.round.acked
        return granted or self.lake.unresolved_epoch is not None

    @property
    def has_turn(self) -> bool:
        """Whether the cluster has assigned the table to this deployment and a round may begin.

        Always False if the cluster does not assign tables.
        """
        return self.assignment is not None and self.assignment.end is None and self.assignment.certain

    @property
    def assignment_ref(self) -> AssignmentRef | None:
        """The cluster's identification of the assignment."""
        assignment = self.assignment
        return None if assignment is None else AssignmentRef(self.table_id, assignment.coordinator_epoch, assignment.tiering_epoch)

    @property
    def shown_offsets(self) -> TextOffsets | None:
        """The displayed offsets of the lake. Rounds use only offsets that a base check passed."""
        return self.lake.offsets if self.elsewhere is None else self.elsewhere.offsets

    @property
    def shown_snapshot_id(self) -> int | None:
        """The newest known tiering snapshot, with the offsets `shown_offsets`."""
        return self.lake.snapshot_id if self.elsewhere is None else self.elsewhere.lake_snapshot_id

    @property
    def running(self) -> RoundRecord | None:
        """The round that a tierer runs now."""
        return self.round if self.state is TableState.TIERING else None

    @property
    def upkeep_runs(self) -> bool:
        """Whether an upkeep round is running."""
        return self.running is not None and self.running.trigger is Trigger.UPKEEP


class AssignmentEnd(StrEnum):
    """The end of an assignment that is reported to the cluster."""

    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True)
class AssignmentRecord:
    """An assignment of the table to this deployment by the cluster. Only clusters that assign tables have it (`cluster.assignments`).

    `end`: the assignment is over here, and the coordinator has to report that to the cluster; None while the table is still assigned.
    `certain` is False once the session of the assignment is over: another service may now have the same epochs. Such a record is kept only
    for a commit with an unknown outcome, and starts no round.
    """

    coordinator_epoch: int
    tiering_epoch: int
    session: str
    assigned_since: datetime
    end: AssignmentEnd | None = None
    certain: bool = True


@dataclass(frozen=True)
class OtherServiceRecord:
    """A snapshot of another service that is newer than what the coordinator has recorded. `source` is the value of `status_source`."""

    source: str
    lake_snapshot_id: int
    offsets: TextOffsets
    noticed_time: datetime


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


@dataclass(frozen=True)
class TiererRecord:
    """A tierer process, as its heartbeats describe it. It is not stored: heartbeats restore it after a restart.

    `superseded`: a newer process uses its id, and up to this many of its own late heartbeats are still expected. `took_over`: it has taken
    over the rounds of earlier processes with its id.
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
    """A user took it out of service: it gets no table."""
    rounds: int = 0
    """Rounds that ended since this coordinator first heard from it."""

    @property
    def key(self) -> tuple[str, str]:
        """Id and incarnation. Another process may have the same id."""
        return self.tierer_id, self.incarnation
