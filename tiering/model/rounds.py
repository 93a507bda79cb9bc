"""Tiering rounds: how a tierer gets one, its states, the phases of its errors, and its results."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum

from tiering.model.splits import AssignedBacklog
from tiering.model.tables import DEFAULT_FRESHNESS_MS, Offsets, SkippedRecords, TablePath
from tiering.model.upkeep import UpkeepOrder, UpkeepStats


@dataclass(frozen=True)
class RecordedLakeSnapshot:
    """A lake snapshot with its offsets, as a cluster or the coordinator recorded it. The lake may have a newer one."""

    lake_snapshot_id: int
    offsets: Offsets


@dataclass(frozen=True)
class Assignment:
    """A table that the coordinator assigns to a tierer, with the numbers that fence every other tierer (DESIGN 5-6).

    `lake_table_uuid` and `passed_head` are the lake table that the coordinator last saw and its head that the base check passed; None =
    nothing yet. `recorded` is the coordinator's copy of the tiered offsets.
    """

    table_id: int
    path: TablePath
    tiering_epoch: int
    coordinator_epoch: int
    round_id: str
    lake_table_uuid: str | None = None
    passed_head: int | None = None
    recorded: RecordedLakeSnapshot | None = None
    max_duration_ms: int = DEFAULT_FRESHNESS_MS
    recorded_round_id: str | None = None
    """The round of the marker that was in effect when `recorded` was recorded."""
    moved_back: Offsets = field(default_factory=dict)
    """Buckets whose end in `recorded` was moved back, each with that end. The round replays them (`tiering.lake.foreign`)."""
    skipped: SkippedRecords = field(default_factory=dict)
    """Records that `CALL sys.skip_record` left out. The round does not read them, unless the log now has another record at the offset."""
    dead_letters: int | None = None
    """How many records that the lake cannot hold the round may put aside; None = a bucket stops before such a record."""
    unresolved: bool = False
    """Whether a commit request of an earlier round may still take effect."""
    backlog: AssignedBacklog = field(default_factory=AssignedBacklog)
    upkeep: UpkeepOrder | None = None
    """The work of an upkeep round; None = the round tiers."""
    upkeep_paused: bool = False
    """Whether a user paused the upkeep of the table. The round then rewrites no file and removes no snapshot."""
    read_snapshots: frozenset[int] = frozenset()
    """Lake snapshots that open reads need. The round's commit does not remove them."""
    reads_unknown: bool = False
    """Whether a read of the table is being opened, so that it is unknown what it needs. The round then removes no snapshot."""


class RoundState(StrEnum):
    """States of a tiering round (docs/reference.md, `tiering_rounds`)."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    EMPTY = "EMPTY"
    FORCE_FINISHED = "FORCE_FINISHED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    FENCED = "FENCED"

    @property
    def is_final(self) -> bool:
        return self not in (RoundState.QUEUED, RoundState.RUNNING)

    @property
    def ended_well(self) -> bool:
        return self in (RoundState.SUCCEEDED, RoundState.EMPTY, RoundState.FORCE_FINISHED)


class Phase(StrEnum):
    """The part of a round in which an error happened (docs/reference.md, `tiering_errors.phase`)."""

    PLAN = "PLAN"
    LEASE = "LEASE"
    READ = "READ"
    WRITE = "WRITE"
    FENCE = "FENCE"
    LAKE_COMMIT = "LAKE_COMMIT"
    ACK = "ACK"
    MAINTENANCE = "MAINTENANCE"


@dataclass(frozen=True)
class RoundProgress:
    """How much a running round has read and written. A KV snapshot counts as many records as the log below its offset."""

    splits_done: int = 0
    splits_total: int = 0
    records_done: int = 0
    records_total: int = 0

    @property
    def fraction(self) -> float | None:
        """Returns the finished part by records, or by splits if no records are known; between 0 and 1, None while no total is known."""
        for done, total in ((self.records_done, self.records_total), (self.splits_done, self.splits_total)):
            if total:
                return min(1.0, done / total)
        return None


class RoundMode(StrEnum):
    """The purpose of a round (docs/reference.md, `tiering_rounds.mode`)."""

    BACKLOG = "BACKLOG"
    LIVE = "LIVE"
    UPKEEP = "UPKEEP"


class RanOn(StrEnum):
    """Where the splits of a round were read and written (docs/reference.md, `tiering_rounds.ran_on`)."""

    SPARK = "SPARK"
    INLINE = "INLINE"


@dataclass(frozen=True)
class RoundPlace:
    """Where the splits of a round ran. A round on Spark has the ids that Spark's UI shows; the job is that of its last run of splits."""

    ran_on: RanOn
    spark_application_id: str | None = None
    spark_job_id: int | None = None


IN_THE_TIERER = RoundPlace(RanOn.INLINE)
"""The splits ran in the tierer's own process."""


@dataclass(frozen=True)
class PhaseTimes:
    """The durations of a round's parts, in milliseconds by its tierer's clock. None = the round did not reach it, or the tierer sent none.

    Several tasks read and write splits at the same time. The duration of that work is divided between reading and writing in the proportion
    of the tasks' own times.
    """

    plan_ms: int | None = None
    lease_ms: int | None = None
    read_ms: int | None = None
    write_ms: int | None = None
    commit_ms: int | None = None
    ack_ms: int | None = None


PART_COLUMNS = tuple(part.name for part in fields(PhaseTimes))
"""The names of these durations in their order, as in `sys.tiering_rounds`."""


@dataclass(frozen=True)
class RoundStats:
    """The results of a round. Bytes are file sizes; `records_read` counts log records."""

    splits: int = 0
    records_read: int = 0
    bytes_read: int = 0
    records_written: int = 0
    bytes_written: int = 0
    files_written: int = 0
    deletes_written: int = 0
    times: PhaseTimes = field(default_factory=PhaseTimes)
    place: RoundPlace | None = None
    """Place where the splits ran; None = no split ran, or the tierer has an older version."""
    upkeep: UpkeepStats | None = None
    """The upkeep that the round did, also a round that tiered; None = none."""
