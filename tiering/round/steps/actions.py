"""The actions of a round's machine, the events that answer them, and the outcome of a round. Plain values.

Each action is answered by the event named behind it, or by `ActionFailed`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tiering.errors import LakewardError
from tiering.lake.base import Committable, FileRewrite, LakeView
from tiering.lake.maintenance import RewriteTask, UpkeepPlan
from tiering.lake.marker import Marker
from tiering.model.leases import KvSnapshot
from tiering.model.rounds import Phase, RecordedLakeSnapshot, RoundState, RoundStats
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, SkippedRecords, TableBucket, TableInfo
from tiering.model.upkeep import UpkeepOrder
from tiering.planning.check_log import Traces
from tiering.planning.plan_splits import Plan
from tiering.round.ports import ProposedCommit, WorkDone


@dataclass(frozen=True)
class ReadTable:
    """The source table at the assignment's path -> TableRead."""


@dataclass(frozen=True)
class ReadLake:
    """A fresh look at the lake, and at what the cluster remembers of it -> LakeRead."""

    table: TableInfo


@dataclass(frozen=True)
class Ack:
    """Tells the coordinator what the lake holds -> Acked."""

    marker: Marker
    lake_snapshot_id: int


@dataclass(frozen=True)
class ReadLog:
    """Log ends, partitions, KV snapshots and traces of records, now -> LogRead.

    `tiered`: where the lake's buckets go on. `settle`: another look, for the one before cannot be believed yet.
    """

    table: TableInfo
    tiered: Offsets = field(default_factory=dict)
    settle: bool = False


@dataclass(frozen=True)
class ReadTraces:
    """What the records of buckets that stopped early are known by -> TracesRead.

    `reached`: where they stopped. `witnesses`: a later offset of each whose trace was taken before its records were read. It is looked at
    behind the others: if it is the same still, so were they while they were read.
    """

    table: TableInfo
    reached: Offsets
    witnesses: Offsets


@dataclass(frozen=True)
class LeaseSnapshots:
    """Keeps KV snapshots (bucket -> snapshot id) alive until the round is over -> SnapshotsLeased."""

    snapshots: Mapping[TableBucket, int]


@dataclass(frozen=True)
class EnsureLakeTable:
    """Creates the lake table if need be, and adds columns to it -> LakeEnsured. Where the base had one, none is created."""

    table: TableInfo
    may_create: bool


@dataclass(frozen=True)
class RecordPlan:
    """Leaves plan and lake table uuid with the coordinator -> PlanRecorded."""

    plan: Plan
    lake_table_uuid: str
    passed_head: int | None


@dataclass(frozen=True)
class RunSplits:
    """Reads and writes, upon what stands in the lake at `base` -> SplitsRun.

    `to_the_end`: no early stop, for the commit was granted and the offsets are fixed. `replays`: it may be cancelled, but takes as long as
    it takes: a replay that stopped early would leave keys ahead of the marker.
    """

    table: TableInfo
    plan: Plan
    lake_table_uuid: str
    base: LakeView
    to_the_end: bool = False
    replays: bool = False


@dataclass(frozen=True)
class MergeFiles:
    """Merges small files of `buckets` that stand in the lake at `base` -> FilesMerged. A failure costs the round nothing but time."""

    table: TableInfo
    base: LakeView
    buckets: Mapping[BucketKey, str | None]


@dataclass(frozen=True)
class PlanUpkeep:
    """Asks the lake what is to be rewritten of the table that stands at `base` -> UpkeepPlanned."""

    table: TableInfo
    base: LakeView
    order: UpkeepOrder


@dataclass(frozen=True)
class RewriteFiles:
    """Writes the files that take the place of those that `tasks` name -> FilesRewritten."""

    table: TableInfo
    tasks: tuple[RewriteTask, ...]


@dataclass(frozen=True)
class BeginCommit:
    """Asks the coordinator to grant the commit -> CommitGranted; ActionFailed with Fenced if it is not granted."""

    proposed: ProposedCommit


@dataclass(frozen=True)
class CommitLake:
    """Sends one compare-and-set -> CommitSent; ActionFailed with CommitOutcomeUnknown after any error of the request.

    ActionFailed with BaseMoved, and nothing sent, if rows it deletes are elsewhere by now.
    """

    table: TableInfo
    committable: Committable
    base: LakeView
    marker: Marker
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AbortFiles:
    """Deletes files of this round, for which no commit request was ever sent -> FilesAborted."""

    table: TableInfo
    committable: Committable


@dataclass(frozen=True)
class End:
    """The round is over."""

    outcome: RoundOutcome


Action = (
    ReadTable
    | ReadLake
    | Ack
    | ReadLog
    | ReadTraces
    | LeaseSnapshots
    | EnsureLakeTable
    | RecordPlan
    | RunSplits
    | MergeFiles
    | PlanUpkeep
    | RewriteFiles
    | BeginCommit
    | CommitLake
    | AbortFiles
    | End
)


@dataclass(frozen=True)
class TableRead:
    table: TableInfo


@dataclass(frozen=True)
class LakeRead:
    """The answer to ReadLake. `living` has the source's partitions if the base check needs them (`KnownLake`)."""

    view: LakeView | None
    recorded_by_cluster: RecordedLakeSnapshot | None
    living: frozenset[int] | None = None


@dataclass(frozen=True)
class Acked: ...


@dataclass(frozen=True)
class LogRead:
    ends: Mapping[BucketKey, BucketOffsets]
    partitions: Sequence[Partition]
    snapshots: Mapping[BucketKey, KvSnapshot] = field(default_factory=dict)
    traces: Traces = field(default_factory=dict)
    skipped: SkippedRecords = field(default_factory=dict)
    """Records of the assignment that the log still has."""


@dataclass(frozen=True)
class TracesRead:
    traces: Traces


@dataclass(frozen=True)
class SnapshotsLeased:
    """The answer to LeaseSnapshots. `unavailable` has the buckets whose snapshot was gone already."""

    unavailable: Collection[TableBucket] = ()


@dataclass(frozen=True)
class LakeEnsured:
    view: LakeView


@dataclass(frozen=True)
class PlanRecorded: ...


@dataclass(frozen=True)
class SplitsRun:
    work: WorkDone


@dataclass(frozen=True)
class FilesMerged:
    rewrites: tuple[FileRewrite, ...] = ()


@dataclass(frozen=True)
class UpkeepPlanned:
    plan: UpkeepPlan


@dataclass(frozen=True)
class FilesRewritten:
    """The answer to RewriteFiles. `error` = the first failure; the files of `rewrites` are there nevertheless."""

    rewrites: tuple[FileRewrite, ...] = ()
    bytes_left: int = 0
    """Bytes of the tasks that were not begun, because the round's time was over."""
    error: LakewardError | None = None


@dataclass(frozen=True)
class CommitGranted:
    """`properties`: what the lake snapshot has to carry for the cluster."""

    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CommitSent: ...


@dataclass(frozen=True)
class FilesAborted: ...


@dataclass(frozen=True)
class ActionFailed:
    """The answer to an action that raised. `error` is of our tree."""

    action: Action
    error: LakewardError


Event = (
    TableRead
    | LakeRead
    | Acked
    | LogRead
    | TracesRead
    | SnapshotsLeased
    | LakeEnsured
    | PlanRecorded
    | SplitsRun
    | FilesMerged
    | UpkeepPlanned
    | FilesRewritten
    | CommitGranted
    | CommitSent
    | FilesAborted
    | ActionFailed
)


@dataclass(frozen=True)
class RoundOutcome:
    """How a round ended. `passed_head` is the head that its base check accepted.

    `error` and `phase` are set unless it succeeded. Beside a success they tell of a bucket that stops at a record (BucketStopped).
    """

    state: RoundState
    stats: RoundStats = field(default_factory=RoundStats)
    lake_snapshot_id: int | None = None
    passed_head: int | None = None
    error: LakewardError | None = None
    phase: Phase = Phase.PLAN
