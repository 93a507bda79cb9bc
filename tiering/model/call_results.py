"""The answers of the procedures, in the coordinator's process and in its clients (`tiering.client`)."""

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
    """Answer of `CALL sys.tier_table`. `state` is the round's state, or EMPTY; if the call did not wait for the end, the table's state."""

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
    """The result for one table of the database. `error`: why it could not be tiered; `tiered` then has the table's state."""

    tiered: TierTableResult
    error: str | None = None


@dataclass(frozen=True)
class TierDatabaseResult:
    """Answer of `CALL sys.tier_database`: one row per table, ordered by path."""

    rows: tuple[TierDatabaseRow, ...]


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep of one lake table. `removed`: files that were (or would be) deleted; `kept`: other files by reason."""

    path: TablePath
    files: int
    removed: int
    removed_bytes: int
    kept: Mapping[str, int]
    error: str | None = None


class UpkeepCallOutcome(StrEnum):
    """The state of a call for upkeep at the time of its answer."""

    SUCCEEDED = "SUCCEEDED"
    EMPTY = "EMPTY"
    """There was nothing to do."""
    DROPPED = "DROPPED"
    """Other commits changed the files of all rewritten buckets, or preceded every attempt to commit an expiry."""
    WAITING = "WAITING"
    """Its round has not begun. The round will run although the call has ended."""
    RUNNING = "RUNNING"
    """Its round runs. It continues although the call has ended."""
    PLANNED = "PLANNED"
    """A dry run, which ordered no upkeep."""
    UNKNOWN = "UNKNOWN"
    """It ended so long ago that only sys.lake_upkeep may have the result."""


@dataclass(frozen=True)
class UpkeepResult:
    """Answer of a procedure that orders upkeep rounds. `reason`: why the upkeep is not done.

    `round_id` is the last of its rounds, and `rounds` is their number. `stats` are the sums of the rounds that ended, or for a dry run the
    numbers of the planned upkeep. `kept`: number of snapshots that stay after an expiry, by reason as text.
    """

    path: TablePath
    outcome: UpkeepCallOutcome
    reason: str | None = None
    round_id: str | None = None
    rounds: int = 0
    stats: UpkeepStats = field(default_factory=UpkeepStats)
    kept: Mapping[str, int] = field(default_factory=dict)


class UpkeepDecision(StrEnum):
    """The kind of a line of `CALL sys.explain_upkeep`."""

    BEGIN = "begin"
    """The next upkeep round begins as soon as a slot is free."""
    WAIT = "wait"
    """The next upkeep round waits for the end of this condition."""
    RUNNING = "running"
    """An upkeep round runs."""
    NOTHING = "nothing"
    """There is nothing to do."""
    REWRITE = "rewrite"
    """The next round would rewrite these files."""
    LEFT = "left"
    """Bytes that the next round would leave to later rounds."""
    LAST = "last"
    """The latest upkeep."""
    OPTION = "option"
    """An option of the table, with its value in effect."""
    NOTE = "note"
    """A fact that does not change what happens."""


@dataclass(frozen=True)
class UpkeepLine:
    """One line of an explanation. A line without a bucket is about the whole table."""

    decision: UpkeepDecision
    reason: str
    partition_name: str | None = None
    bucket_id: int | None = None
    files: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class ExplainUpkeepResult:
    """The lines of an explanation: first those about the whole table, then those about its buckets."""

    lines: tuple[UpkeepLine, ...]


@dataclass(frozen=True)
class OrphanFilesResult:
    """Answer of `CALL sys.remove_orphan_files`.

    `removed`: number of files that were (or would be) deleted; `locations` and `sizes` describe the first of these files. `kept`: number of
    other files by reason.
    """

    path: TablePath
    removed: int
    removed_bytes: int
    locations: tuple[str, ...]
    sizes: tuple[int, ...]
    kept: Mapping[str, int]


@dataclass(frozen=True)
class SetFreshnessResult:
    """Answer of `CALL sys.set_freshness`: the freshness before and after the call, in milliseconds."""

    path: TablePath
    previous_ms: int
    freshness_ms: int
    warning: str | None = None
    """The cost of a short freshness; None if the freshness is not short."""


@dataclass(frozen=True)
class FenceTiererResult:
    """Answer of `CALL sys.fence_tierer`. `tables_fenced`: number of tables that the tierer was tiering."""

    tierer_id: str
    tables_fenced: int


@dataclass(frozen=True)
class WaitForTieringResult:
    """Answer of `CALL sys.wait_for_tiering`. `lake_snapshot_id` is the newest snapshot, whether or not it has the rows."""

    path: TablePath
    reached: bool
    lake_snapshot_id: int | None
    waited_ms: int


@dataclass(frozen=True)
class Progress:
    """The progress of a waiting call: a line for people, and the progress of its round once the round reads."""

    message: str
    round: RoundProgress | None = None


@dataclass(frozen=True)
class PauseResult:
    """Answer of the procedures that pause or resume tiering or upkeep. `status` is the table's state."""

    path: TablePath
    previous_paused: bool
    paused: bool
    status: str


@dataclass(frozen=True)
class RetryResult:
    """Answer of `CALL sys.retry_tiering`. `status`: the table's state afterwards. `next_retry_time` None: the table is retried at once."""

    path: TablePath
    status: str
    next_retry_time: datetime | None


@dataclass(frozen=True)
class ResetResult:
    """Answer of `CALL sys.reset_errors`. `cleared`: number of errors that the table had counted."""

    path: TablePath
    cleared: int


@dataclass(frozen=True)
class SkipRecordResult:
    """Answer of `CALL sys.skip_record`. `value` is the record's value as text, shortened. `outcome` is a `SkipOutcome`."""

    path: TablePath
    partition_name: str | None
    bucket_id: int
    offset: int
    value: str
    outcome: str


@dataclass(frozen=True)
class SetOptionResult:
    """The option's value before and after a call; None = its default. `outcome`: set, unchanged, or would_set for a dry run."""

    path: TablePath
    name: str
    previous_value: str | None
    value: str | None
    outcome: str


@dataclass(frozen=True)
class LeaseResult:
    """A lease after the call. `buckets`: number of buckets of the call; `unavailable`: number of these without the snapshot."""

    lease_id: str
    state: str
    buckets: int
    unavailable: int
    expires_at: datetime | None


@dataclass(frozen=True)
class TakeSnapshotResult:
    """`taken`: buckets of which a snapshot was (or would be) taken. `buckets`: buckets that then have a snapshot."""

    path: TablePath
    taken: int
    buckets: int


class CancelOutcome(StrEnum):
    """The outcome of a cancellation (docs/reference.md)."""

    CANCELLED = "cancelled"
    TOO_LATE = "too_late"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CancelResult:
    """Answer to a cancellation. `state` is the round's state afterwards; None if the round is unknown."""

    round_id: str
    state: str | None
    outcome: CancelOutcome


@dataclass(frozen=True)
class ReconcileResult:
    """Answer of `CALL sys.reconcile_lake`. `outcome`: reconciled, not_needed, or would_reconcile for a dry run.

    `offsets`: the offset per bucket from which tiering continues. A bucket that is not in it begins with its KV snapshot, or at the start
    of its log. `records_left_out` None = the number cannot be determined. `records_removed`: rows that were in the lake twice, or behind a
    gap; None = this call only repeats an earlier one, or the rows were not counted.
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
    """One check of one table. `ok` None = the check could not be done, for the reason in `details`.

    `scope` is `table`, or a bucket such as `3` or `partition/3`. If there is a difference, `details` names its first bucket, offset and
    key.
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
        """Returns the result in the form that JSON has."""
        return {**asdict(self), "validated_at": self.validated_at.isoformat()}

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> CheckResult:
        """Returns the result from the form that `to_plain` returns."""
        return CheckResult(**{**values, "validated_at": datetime.fromisoformat(values["validated_at"])})


class Decision(StrEnum):
    """The meaning of one line of an explanation."""

    BEGIN = "begin"
    """Nothing prevents a round from beginning."""
    WAIT = "wait"
    """No round begins before this condition ends. It may end without a user's action."""
    REFUSE = "refuse"
    """No round succeeds before a user repairs this."""
    RUNNING = "running"
    """A round runs. The lines after this one ignore it."""
    READ = "read"
    """A round would read this split."""
    SKIP = "skip"
    """This bucket has nothing to read."""
    NOTE = "note"
    """A fact that does not prevent tiering."""


@dataclass(frozen=True)
class Explanation:
    """One line. `split_type` is LOG or SNAPSHOT for a split, else None. A line without a bucket is about the whole table.

    The `stopping_offset` of a snapshot is the bucket's offset in the lake after the snapshot was tiered. `records` None = not known.
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
    """The lines of an explanation: first those about the whole table, then those about its buckets."""

    lines: tuple[Explanation, ...]
