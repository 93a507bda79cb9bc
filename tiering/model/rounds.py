"""Tiering rounds: how one is handed out, the states it can be in, the phases of its errors, and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tiering.model.splits import AssignedBacklog
from tiering.model.tables import DEFAULT_FRESHNESS_MS, Offsets, SkippedRecords, TablePath
from tiering.model.upkeep import UpkeepOrder, UpkeepStats


@dataclass(frozen=True)
class RecordedLakeSnapshot:
    """What a cluster or the coordinator remembers of a lake table: a copy that may be behind the lake."""

    lake_snapshot_id: int
    offsets: Offsets


@dataclass(frozen=True)
class Assignment:
    """A table handed to a tierer, with the numbers that fence everyone else (DESIGN 5-6).

    `lake_table_uuid` and `passed_head` are what the coordinator remembers of the lake; None = nothing yet.
    `recorded` is the coordinator's copy of the tiered offsets.
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
    """The round whose marker counted when `recorded` was recorded."""
    moved_back: Offsets = field(default_factory=dict)
    """Buckets whose end in `recorded` was moved back, with it: they are replayed (`tiering.lake.foreign`)."""
    skipped: SkippedRecords = field(default_factory=dict)
    """Records that `CALL sys.skip_record` left out: the round does not read them, unless the log has another record there now."""
    unresolved: bool = False
    """A commit request of an earlier round may still land."""
    backlog: AssignedBacklog = field(default_factory=AssignedBacklog)
    upkeep: UpkeepOrder | None = None
    """What an upkeep round does; None = the round tiers."""
    upkeep_paused: bool = False
    """A user paused the upkeep of the table: the round rewrites no file and removes no snapshot."""


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
    """Where in a round an error happened (docs/reference.md, `tiering_errors.phase`)."""

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
    """How far a running round is with reading and writing. A KV snapshot is counted as the log that it stands for."""

    splits_done: int = 0
    splits_total: int = 0
    records_done: int = 0
    records_total: int = 0

    @property
    def fraction(self) -> float | None:
        """By records or else by splits, between 0 and 1; None while no total is known."""
        for done, total in ((self.records_done, self.records_total), (self.splits_done, self.splits_total)):
            if total:
                return min(1.0, done / total)
        return None


class RoundMode(StrEnum):
    """What a round is for (docs/reference.md, `tiering_rounds.mode`)."""

    BACKLOG = "BACKLOG"
    LIVE = "LIVE"
    UPKEEP = "UPKEEP"


class RanOn(StrEnum):
    """What read and wrote the splits of a round (docs/reference.md, `tiering_rounds.ran_on`)."""

    SPARK = "SPARK"
    INLINE = "INLINE"


@dataclass(frozen=True)
class RoundPlace:
    """Where the splits of a round ran. A round on Spark has the ids of Spark's own pages; the job is that of its last run of splits."""

    ran_on: RanOn
    spark_application_id: str | None = None
    spark_job_id: int | None = None


IN_THE_TIERER = RoundPlace(RanOn.INLINE)
"""The tierer's own process ran the splits."""


@dataclass(frozen=True)
class PhaseTimes:
    """How long the parts of a round took, in milliseconds by its tierer's clock. None = it did not get there, or its tierer did not say.

    Splits are read and written at the same time by several tasks: the time of that work is shared out as the tasks spent theirs.
    """

    plan_ms: int | None = None
    lease_ms: int | None = None
    read_ms: int | None = None
    write_ms: int | None = None
    commit_ms: int | None = None
    ack_ms: int | None = None


@dataclass(frozen=True)
class RoundStats:
    """What a round did. Bytes are those of files; `records_read` counts log records."""

    splits: int = 0
    records_read: int = 0
    bytes_read: int = 0
    records_written: int = 0
    bytes_written: int = 0
    files_written: int = 0
    deletes_written: int = 0
    times: PhaseTimes = field(default_factory=PhaseTimes)
    place: RoundPlace | None = None
    """None = the round ran no split, or its tierer is of an older version."""
    upkeep: UpkeepStats | None = None
    """What the round's upkeep did, also of a round that tiered; None = nothing."""
