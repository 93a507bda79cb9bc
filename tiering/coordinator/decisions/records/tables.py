"""Everything about the tiering of one lake table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from tiering.coordinator.decisions.records.assignments import AssignmentRecord, ElsewhereRecord
from tiering.coordinator.decisions.records.errors import ErrorInfo, ErrorRecord
from tiering.coordinator.decisions.records.history import LakeCommitRecord, RoundRecord, Trigger
from tiering.coordinator.decisions.records.operations import QueuedCall
from tiering.coordinator.decisions.records.text_offsets import TextOffsets, from_text
from tiering.coordinator.decisions.records.upkeep import UpkeepRecord
from tiering.model.assignments import AssignmentRef
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import BacklogStart
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, SkippedRecords, TablePath


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
    skipped: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By bucket, as in `TextOffsets`, the offsets of records that `sys.skip_record` left out for rounds, in order."""
    skipped_traces: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """By bucket and offset, what the cluster knows a record of `skipped` by; older versions recorded none."""
    starts: TextOffsets | None = None
    """Where the rows of buckets begin of which the lake lacks the first; None = an older version recorded the offsets."""
    backlog_start: BacklogStart | None = None
    """A start that waits for its plan."""
    backlog_starts: int = 0
    """How many starts were planned."""
    backlog_start_time: datetime | None = None
    """When the latest one was."""
    archived_records: int = 0
    """How many records of partitions that were dropped since were tiered to the present lake table: of a log table as many rows stay there,
    of a primary-key table at most as many, unless a user removes them."""
    reported_drops: tuple[int, ...] = ()
    """Partitions in `offsets` whose drop was reported (`observing.dropped_partitions`): a later coordinator does not report it again."""
    proofs: Mapping[str, str] = field(default_factory=dict)
    """By bucket of a clean log table, what the marker of `marker_round_id` proves of its rows (`BucketProof.text`)."""
    traces: Mapping[str, str] = field(default_factory=dict)
    """By bucket, what the cluster knows the last tiered record by (`Marker.traces`); older versions recorded none."""
    unresolved_epoch: int | None = None
    """Epoch of the newest round whose granted commit nobody has the outcome of: its request may still land."""

    @property
    def skipped_records(self) -> SkippedRecords:
        """`skipped` with the traces, as rounds and markers have it."""
        return {
            BucketKey.parse(bucket): {offset: self.skipped_traces.get(bucket, {}).get(offset) for offset in offsets}
            for bucket, offsets in self.skipped.items()
        }

    def has_skipped(self, bucket: str, offset: int, trace: str | None) -> bool:
        """Whether that very record was left out. `trace`: of the record; None = not known, as it may be of the one that was left out."""
        recorded = self.skipped_traces.get(bucket, {}).get(offset)
        return offset in self.skipped.get(bucket, ()) and (trace is None or recorded is None or trace == recorded)

    def with_skipped(self, bucket: str, offset: int, trace: str | None) -> LakeKnowledge:
        """The knowledge with that record left out, in the place of another one that stood at its offset."""
        traces = {**self.skipped_traces.get(bucket, {}), **({} if trace is None else {offset: trace})}
        return replace(
            self,
            skipped={**self.skipped, bucket: tuple(sorted({*self.skipped.get(bucket, ()), offset}))},
            skipped_traces={**self.skipped_traces, bucket: traces} if traces else self.skipped_traces,
        )

    @property
    def recorded(self) -> RecordedLakeSnapshot | None:
        """Snapshot and offsets, if a commit was recorded."""
        if self.snapshot_id is None or self.offsets is None:
            return None
        return RecordedLakeSnapshot(self.snapshot_id, from_text(self.offsets))


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
    consecutive_fences: int = 0
    """Rounds that were fenced since a round last went well. From the second on they are failures, too (`decisions.fences`)."""
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
    """How long its rounds have waited for a tierer since then, those that got one."""
    no_tierer_ms: int = 0
    """For how much of that no tierer was connected."""
    queued_late_ms: int = 0
    """How long nobody queued it since then although it was due."""
    due_time: datetime | None = None
    """When it became due; None = not yet."""
    assignment: AssignmentRecord | None = None
    elsewhere: ElsewhereRecord | None = None
    round_bytes: int | None = None
    """So much waiting makes the table due before its freshness is over; None = only its freshness does."""
    recent_rounds_ms: tuple[int, ...] = ()
    """How long its latest rounds took that committed, but for those of a backlog."""
    recent_waits_ms: tuple[int, ...] = ()
    """How long these waited for a slot."""
    named_epoch: int = 0
    """The highest tiering epoch above its own that a tierer named: rounds that are queued from then on are above it."""
    upkeep: UpkeepRecord = field(default_factory=UpkeepRecord)

    @property
    def path(self) -> TablePath:
        return TablePath(self.database_name, self.table_name)

    @property
    def highest_epoch(self) -> int:
        """No round of the table that anybody knows of has a higher one; the next one has."""
        return max(self.tiering_epoch, self.named_epoch)

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

    @property
    def upkeep_runs(self) -> bool:
        """Whether the running round is an upkeep round."""
        return self.running is not None and self.running.trigger is Trigger.UPKEEP
