"""What the procedures answer, in the coordinator's process and outside of it (`tiering.client`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from tiering.model.rounds import RoundProgress
from tiering.model.tables import TablePath
from tiering.model.upkeep import UpkeepStats


@dataclass(frozen=True)
class TierTableResult:
    """What `CALL sys.tier_table` answers. `state` is the round's, or EMPTY; the table's state when the call did not wait for the end."""

    path: TablePath
    round_id: str | None
    state: str
    tiering_epoch: int
    lake_snapshot_id: int | None
    splits: int | None
    records: int | None
    files: int | None
    bytes: int | None
    lag_ms_before: int | None
    lag_ms_after: int | None
    duration_ms: int


@dataclass(frozen=True)
class TierDatabaseRow:
    """What became of one table of the database. `error`: why it could not be tiered; `tiered` then says how the table stands."""

    tiered: TierTableResult
    error: str | None = None


@dataclass(frozen=True)
class TierDatabaseResult:
    """What `CALL sys.tier_database` answers: a row a table, by path."""

    rows: tuple[TierDatabaseRow, ...]


@dataclass(frozen=True)
class SweepResult:
    """What a sweep did to one lake table. `removed`: files that were (or would be) deleted; `kept`: how many others stay, by reason."""

    path: TablePath
    files: int
    removed: int
    removed_bytes: int
    kept: Mapping[str, int]
    error: str | None = None


class UpkeepCallOutcome(StrEnum):
    """Where a call for upkeep stands when it is answered."""

    SUCCEEDED = "SUCCEEDED"
    EMPTY = "EMPTY"
    """There was nothing to do."""
    DROPPED = "DROPPED"
    """Other commits changed the files of all rewritten buckets, or came before each commit of an expiry, again and again."""
    WAITING = "WAITING"
    """Its round has not begun; it goes on without the call."""
    RUNNING = "RUNNING"
    """Its round runs, and goes on without the call."""
    PLANNED = "PLANNED"
    """A dry run: nothing was asked for."""
    UNKNOWN = "UNKNOWN"
    """It ended so long ago that only sys.lake_upkeep may tell how."""


@dataclass(frozen=True)
class UpkeepResult:
    """What a procedure answers that asks for upkeep rounds. `reason`: why it is not done.

    `round_id`: the last of its rounds, whose number is `rounds`. `stats` are the sums of those that ended; of a dry run, what would be
    done. `kept`: after an expiry, how many snapshots stay, by reason in words.
    """

    path: TablePath
    outcome: UpkeepCallOutcome
    reason: str | None = None
    round_id: str | None = None
    rounds: int = 0
    stats: UpkeepStats = field(default_factory=UpkeepStats)
    kept: Mapping[str, int] = field(default_factory=dict)


class UpkeepDecision(StrEnum):
    """What a line of `CALL sys.explain_upkeep` is about."""

    BEGIN = "begin"
    """The next upkeep round begins with the next free slot."""
    WAIT = "wait"
    """It does not begin before this is over."""
    RUNNING = "running"
    """An upkeep round runs."""
    NOTHING = "nothing"
    """There is nothing to do."""
    REWRITE = "rewrite"
    """The next round would rewrite these files."""
    LEFT = "left"
    """Bytes that it would leave to later rounds."""
    LAST = "last"
    """The latest upkeep."""
    OPTION = "option"
    """An option of the table that is in effect."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True)
class UpkeepLine:
    """One line of an explanation. Without a bucket it is about the table as a whole."""

    decision: UpkeepDecision
    reason: str
    partition_name: str | None = None
    bucket_id: int | None = None
    files: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class ExplainUpkeepResult:
    """First the lines about the table as a whole, then those about its buckets."""

    lines: tuple[UpkeepLine, ...]


@dataclass(frozen=True)
class OrphanFilesResult:
    """What `CALL sys.remove_orphan_files` answers. `removed`: files that were (or would be) deleted, `locations` and `sizes` of the first
    of them; `kept`: how many other files stay, by reason.
    """

    path: TablePath
    removed: int
    removed_bytes: int
    locations: tuple[str, ...]
    sizes: tuple[int, ...]
    kept: Mapping[str, int]


@dataclass(frozen=True)
class SetFreshnessResult:
    """What `CALL sys.set_freshness` answers: the promise before and after, in milliseconds."""

    path: TablePath
    previous_ms: int
    freshness_ms: int
    warning: str | None = None
    """What a short freshness costs."""


@dataclass(frozen=True)
class FenceTiererResult:
    """What `CALL sys.fence_tierer` answers. `tables_fenced`: tables that the tierer was moving."""

    tierer_id: str
    tables_fenced: int


@dataclass(frozen=True)
class WaitForTieringResult:
    """What `CALL sys.wait_for_tiering` answers. `lake_snapshot_id` is the newest one, whether or not it has the rows."""

    path: TablePath
    reached: bool
    lake_snapshot_id: int | None
    waited_ms: int


@dataclass(frozen=True)
class Progress:
    """Where a waiting call stands: a line for people and, once its round has begun to read, how far that is."""

    message: str
    round: RoundProgress | None = None


@dataclass(frozen=True)
class PauseResult:
    """Whether the table was paused before and is now, and its state. Of `CALL sys.resume_tiering` too."""

    path: TablePath
    previous_paused: bool
    paused: bool
    status: str


@dataclass(frozen=True)
class RetryResult:
    """The table's state afterwards, and when it is tried next if that is not at once."""

    path: TablePath
    status: str
    next_retry_time: datetime | None


@dataclass(frozen=True)
class ResetResult:
    """How many errors the table had counted."""

    path: TablePath
    cleared: int


@dataclass(frozen=True)
class SkipRecordResult:
    """The record, with its value as text, cut. `outcome`: a `SkipOutcome`."""

    path: TablePath
    partition_name: str | None
    bucket_id: int
    offset: int
    value: str
    outcome: str


@dataclass(frozen=True)
class SetOptionResult:
    """The option before and after; None = its default. `outcome`: set, unchanged, or would_set for a dry run."""

    path: TablePath
    name: str
    previous_value: str | None
    value: str | None
    outcome: str


@dataclass(frozen=True)
class LeaseResult:
    """A lease after the call. `buckets`: those the call was about; `unavailable`: those whose snapshot was not there."""

    lease_id: str
    state: str
    buckets: int
    unavailable: int
    expires_at: datetime | None


@dataclass(frozen=True)
class TakeSnapshotResult:
    """`taken`: buckets of which a snapshot was (or would be) taken; `buckets`: buckets that have one then."""

    path: TablePath
    taken: int
    buckets: int


class CancelOutcome(StrEnum):
    """What became of a cancellation (docs/reference.md)."""

    CANCELLED = "cancelled"
    TOO_LATE = "too_late"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CancelResult:
    """`state` of the round afterwards; None for an unknown one."""

    round_id: str
    state: str | None
    outcome: CancelOutcome


@dataclass(frozen=True)
class ReconcileResult:
    """`outcome`: reconciled, not_needed, or would_reconcile for a dry run; `offsets`: where tiering goes on.

    A bucket that is not in `offsets` begins with its KV snapshot, or at its log's start. `records_left_out` None = it cannot be told.
    `records_removed`: rows of the lake that were there twice, or behind a gap; None = of a repeat, or not counted.
    """

    path: TablePath
    action: str
    round_id: str | None
    lake_snapshot_id: int | None
    outcome: str
    offsets: Mapping[str, int]
    records_left_out: int | None = None
    records_removed: int | None = None


@dataclass(frozen=True)
class CheckResult:
    """One check of one table. `ok` None = it could not be told, and why is in `details`.

    `scope`: `table`, or a bucket as `3` or `partition/3`. A difference names the first bucket, offset and key in `details`.
    """

    validated_at: datetime
    database_name: str
    table_name: str
    lake_snapshot_id: int | None
    level: str
    check: str
    scope: str
    expected: str | None
    actual: str | None
    ok: bool | None
    details: str | None
    duration_ms: int
    engine: str = "duckdb"

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "validated_at": self.validated_at.isoformat()}

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> CheckResult:
        """The inverse."""
        return CheckResult(**{**values, "validated_at": datetime.fromisoformat(values["validated_at"])})


class Decision(StrEnum):
    """What one line of an explanation comes to."""

    BEGIN = "begin"
    """Nothing keeps a round from beginning."""
    WAIT = "wait"
    """No round begins before this is over, which it may be by itself."""
    REFUSE = "refuse"
    """No round gets past this before somebody mends it."""
    RUNNING = "running"
    """A round runs: what the lines behind it say is as if it did not."""
    READ = "read"
    """A round would read this split."""
    SKIP = "skip"
    """Nothing of this bucket is to be read."""
    NOTE = "note"
    """Worth knowing; keeps nothing from being tiered."""


@dataclass(frozen=True)
class Explanation:
    """One line. `split_type` LOG or SNAPSHOT for a split, else None; without a bucket it is about the table as a whole.

    `stopping_offset` of a snapshot is where the lake stands once it has it. `records` None = not known.
    """

    decision: Decision
    reason: str
    split_type: str | None = None
    partition_name: str | None = None
    bucket_id: int | None = None
    snapshot_id: int | None = None
    starting_offset: int | None = None
    stopping_offset: int | None = None
    records: int | None = None


@dataclass(frozen=True)
class ExplainTieringResult:
    """First the lines about the table as a whole, then those about its buckets."""

    lines: tuple[Explanation, ...]
