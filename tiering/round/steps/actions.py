"""The actions of a round's machine, the events that answer them, and the outcome of a round. Plain values.

The docstring of each action names the event that answers it, behind an arrow. `ActionFailed` can answer every action.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tiering.errors import LakewardError
from tiering.lake.base import Committable, FileRewrite, LakeView
from tiering.lake.dead_letters.letter import DeadLetter
from tiering.lake.maintenance import RewriteTask, UpkeepPlan
from tiering.lake.marker import Marker
from tiering.model.leases import KvSnapshot
from tiering.model.rounds import Phase, RecordedLakeSnapshot, RoundState, RoundStats
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, SkippedRecords, TableBucket, TableInfo
from tiering.model.upkeep import UpkeepOrder
from tiering.planning.check_log import Traces
from tiering.planning.plan_splits import Plan
from tiering.round.ports import CombinedOutcome, ProposedCommit


@dataclass(frozen=True)
class ReadTable:
    """Reads the source table at the assignment's path -> TableRead."""


@dataclass(frozen=True)
class ReadLake:
    """Reads the lake, and the cluster's record of it -> LakeRead."""

    table: TableInfo


@dataclass(frozen=True)
class Ack:
    """Reports the lake's newest tiering commit to the coordinator -> Acked."""

    marker: Marker
    lake_snapshot_id: int


@dataclass(frozen=True)
class ReadLog:
    """Reads log ends, partitions, KV snapshots and traces of records -> LogRead.

    `tiered`: offsets at which the lake's buckets continue. `settle`: the log is read again because the previous answer is not reliable
    yet.
    """

    table: TableInfo
    tiered: Offsets = field(default_factory=dict)
    settle: bool = False


@dataclass(frozen=True)
class ReadTraces:
    """Reads the traces of the records at which buckets stopped early -> TracesRead.

    `reached`: the offsets at which the buckets stopped. `witnesses`: for each bucket a later offset whose trace was taken before the
    bucket's records were read. Its trace is read after the others: if it is unchanged, the records before it were unchanged while they were
    read.
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
    """Creates the lake table if needed, and adds columns to it -> LakeEnsured. Does not create it if the base check saw a lake table."""

    table: TableInfo
    may_create: bool


@dataclass(frozen=True)
class RecordPlan:
    """Records the plan and the lake table's uuid with the coordinator -> PlanRecorded."""

    plan: Plan
    lake_table_uuid: str
    passed_head: int | None


@dataclass(frozen=True)
class RunSplits:
    """Reads and writes the splits, on the state of the lake at `base` -> SplitsRun.

    `to_the_end`: no early stop, because the commit was granted and its offsets are fixed. `replays`: the work may be cancelled but has no
    time limit, because a replay that stopped early would leave keys ahead of the marker.
    """

    table: TableInfo
    plan: Plan
    lake_table_uuid: str
    base: LakeView
    to_the_end: bool = False
    replays: bool = False


@dataclass(frozen=True)
class MergeFiles:
    """Merges small files of `buckets` in the lake at `base` -> FilesMerged. A failure costs the round only time."""

    table: TableInfo
    base: LakeView
    buckets: Mapping[BucketKey, str | None]


@dataclass(frozen=True)
class PlanUpkeep:
    """Asks the lake which files of the table at `base` to rewrite -> UpkeepPlanned."""

    table: TableInfo
    base: LakeView
    order: UpkeepOrder


@dataclass(frozen=True)
class RewriteFiles:
    """Writes the files that replace the files named in `tasks` -> FilesRewritten."""

    table: TableInfo
    tasks: tuple[RewriteTask, ...]


@dataclass(frozen=True)
class BeginCommit:
    """Asks the coordinator to grant the commit -> CommitGranted; ActionFailed with Fenced if it is not granted."""

    proposed: ProposedCommit


@dataclass(frozen=True)
class PutRecordsAside:
    """Appends the dead letters of the granted commit to the dead-letter table -> RecordsPutAside. A repeat appends nothing."""

    table: TableInfo
    letters: tuple[DeadLetter, ...]


@dataclass(frozen=True)
class CommitLake:
    """Sends one compare-and-set -> CommitSent; ActionFailed with CommitOutcomeUnknown after any error of the request.

    ActionFailed with BaseMoved, without a request, if rows to delete have moved to other files.
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
    | PutRecordsAside
    | CommitLake
    | AbortFiles
    | End
)


@dataclass(frozen=True)
class TableRead:
    table: TableInfo


@dataclass(frozen=True)
class LakeRead:
    """Answers ReadLake. `living` has the ids of the source's partitions if the base check needs them (`ExpectedLake`)."""

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
    """Records to skip, from the assignment, that the log still has."""


@dataclass(frozen=True)
class TracesRead:
    traces: Traces


@dataclass(frozen=True)
class SnapshotsLeased:
    """Answers LeaseSnapshots. `unavailable` has the buckets whose snapshot did not exist any more."""

    unavailable: Collection[TableBucket] = ()


@dataclass(frozen=True)
class LakeEnsured:
    view: LakeView


@dataclass(frozen=True)
class PlanRecorded: ...


@dataclass(frozen=True)
class SplitsRun:
    work: CombinedOutcome


@dataclass(frozen=True)
class FilesMerged:
    rewrites: tuple[FileRewrite, ...] = ()


@dataclass(frozen=True)
class UpkeepPlanned:
    plan: UpkeepPlan


@dataclass(frozen=True)
class FilesRewritten:
    """Answers RewriteFiles. `error` is the first failure; the files of `rewrites` exist nevertheless."""

    rewrites: tuple[FileRewrite, ...] = ()
    bytes_left: int = 0
    """Bytes of the tasks that were not begun because the round's time was over."""
    error: LakewardError | None = None


@dataclass(frozen=True)
class CommitGranted:
    """Answers BeginCommit. `properties` are those that the lake snapshot has to carry for the cluster."""

    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordsPutAside: ...


@dataclass(frozen=True)
class CommitSent: ...


@dataclass(frozen=True)
class FilesAborted: ...


@dataclass(frozen=True)
class ActionFailed:
    """Answers an action that raised `error`."""

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
    | RecordsPutAside
    | CommitSent
    | FilesAborted
    | ActionFailed
)


@dataclass(frozen=True)
class RoundOutcome:
    """The outcome of a round. `passed_head` is the head that its base check accepted.

    `error` and `phase` are set unless the round succeeded. After a success they report a bucket that stops at a record (BucketStopped).
    """

    state: RoundState
    stats: RoundStats = field(default_factory=RoundStats)
    lake_snapshot_id: int | None = None
    passed_head: int | None = None
    error: LakewardError | None = None
    phase: Phase = Phase.PLAN
