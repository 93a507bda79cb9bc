"""What a round needs beside cluster and lake: a way to the coordinator, leases on KV snapshots, and a place to run its tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from tiering.cluster.base import SplitReader
from tiering.errors import BucketStopped, LakewardError
from tiering.lake.base import FileRewrite, LakeTieringFactory, WriteResult, WriterInitContext
from tiering.lake.maintenance import FileRewriter, RewriteTask
from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, Phase, RoundProgress, RoundStats
from tiering.model.splits import SplitProgress, TieringLogSplit
from tiering.model.tables import BucketKey, Offsets, TableBucket
from tiering.round.progress import RoundMeter
from tiering.rpc.v1.coordinator_pb2 import LakeTieringHeartbeatRequest, LakeTieringHeartbeatResponse


@dataclass(frozen=True)
class ProposedCommit:
    """The commit that a round is about to send, as the fence has to allow it."""

    base_round_id: str | None
    base_tag: int | None
    offsets: Offsets
    records: int
    files: int


@dataclass(frozen=True)
class ProgressReport:
    """One call's content. `splits` has those that changed, by their number within the run; `splits_told`: as `ReportProgressRequest`."""

    progress: RoundProgress
    run: int = 0
    splits: Sequence[tuple[int, SplitProgress]] = ()
    splits_told: int = 0


class ReportAnswer(Enum):
    """What became of a report."""

    TAKEN = "taken"
    SEND_ALL = "taken, and splits of earlier reports are missing"
    NO_SPLITS = "taken, but for the splits: the coordinator is older"
    LOST = "lost, or nobody knows"
    REFUSED = "refused: so will be all others"


class HeartbeatCall(Protocol):
    """A heartbeat that was sent."""

    def wait(self, wake: threading.Event) -> bool:
        """True when the answer came; False when somebody else set `wake` before that."""
        ...

    def result(self) -> LakeTieringHeartbeatResponse:
        """The answer; waits for it. Raises an error of our tree."""
        ...


class Transport(Protocol):
    """The coordinator, as a tierer sees it. All calls may raise ServiceUnreachable; repeating any of them is harmless."""

    def heartbeat(self, request: LakeTieringHeartbeatRequest, timeout_ms: int) -> HeartbeatCall:
        """Sends reports and, perhaps, a request for a table; returns at once."""
        ...

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        """Leaves the plan with the coordinator before any file is written. Raises Fenced."""
        ...

    def begin_lake_commit(self, assignment: Assignment, proposed: ProposedCommit) -> Mapping[str, str]:
        """What the lake snapshot has to carry for the cluster, when the commit is granted; raises Fenced otherwise."""
        ...

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        """Acknowledges a commit, with the marker that the lake holds."""
        ...

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        """Leases KV snapshots and renews the lease; returns the buckets whose snapshot is not there. Raises PeerTooOld, UnknownLease."""
        ...

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> None:
        """Releases the snapshots of single buckets. Raises PeerTooOld."""
        ...

    def drop_lease(self, lease_id: str) -> None:
        """Ends the lease. Raises PeerTooOld."""
        ...

    def report_progress(
        self, assignment: Assignment, phase: Phase, report: ProgressReport, answered: Callable[[ReportAnswer], None]
    ) -> None:
        """Sends how far a round is, best effort: waits for nobody, and `answered` gets what became of it, from any thread."""
        ...


class LeaseHolder(Protocol):
    """A reader of leased KV snapshots: a round."""

    def lose_snapshots(self, message: str) -> None:
        """Says that the lease lapsed and a snapshot of this holder is gone. Called from another thread."""
        ...


class SnapshotLeases(Protocol):
    """Keeps KV snapshots alive while this tierer reads them. Never fails a round that could go on without."""

    def acquire(self, snapshots: Mapping[TableBucket, int], holder: LeaseHolder) -> Collection[TableBucket]:
        """Leases snapshots (bucket -> snapshot id) until their holder releases them; returns the buckets whose snapshot is gone.

        A coordinator without leases: nothing is leased, and nothing is unavailable. Raises ServiceUnreachable.
        """
        ...

    def release(self, holder: LeaseHolder) -> None:
        """Releases what `holder` has, in the background, best effort. Never raises."""
        ...

    def close(self) -> None:
        """Releases everything, in the background, best effort. Never raises."""
        ...


@dataclass(frozen=True)
class SplitTask:
    """One log split's work, ready for an executor; it can be pickled. Each attempt at it takes a nonce of its own.

    `rank` counts the splits of its bucket before it: when one of those stops early, this one's work cannot be committed. `snapshot`
    reads the bucket's KV snapshot before the log and into the same writer, which folds both to the last change of each key.
    `is_first`: this task always reads its snapshot, however late it is, so that every round makes some progress.
    """

    reader: SplitReader
    split: TieringLogSplit
    factory: LakeTieringFactory
    context: WriterInitContext
    rank: int = 0
    snapshot: SplitReader | None = None
    is_first: bool = False
    expected_records: int = 0
    """Of log and snapshot, for the progress of the round: a snapshot is counted as the log up to it."""
    records_before: SplitReader | None = None
    """Reads the record of the log before the split, to compare it with one that cannot be written. None = not needed, or not readable."""

    @property
    def records(self) -> int:
        """Records to be read, as far as they are known when the round is planned."""
        return max(self.expected_records, self.split.records)


@dataclass(frozen=True)
class TaskOutcome:
    """How one task ended: with a write result, or with an error and the phase it happened in."""

    result: WriteResult | None
    """Of the whole split, or of the part of it before an early stop or before the record of `stopped`."""
    error: LakewardError | None = None
    """Fails the whole round."""
    phase: Phase = Phase.WRITE
    read_ms: float = 0.0
    """How long it waited for batches."""
    work_ms: float = 0.0
    """How long it took in all."""
    bytes_read: int = 0
    """Of log and snapshot files, where the cluster's readers count them."""
    stopped: BucketStopped | None = None
    """A record of the split that cannot be written. Only its bucket stops there."""
    doubt: LakewardError | None = None
    """The error at the record of `stopped`, if no other record of the bucket was written to compare. The round decides which counts."""
    has_control: bool = False
    """Whether another row was written alone, to compare it with a record that failed."""


@dataclass(frozen=True)
class WorkLimits:
    """When work on splits has to end early: `budget_ms` after it began, or as soon as `cancelled` says so (driver side)."""

    budget_ms: int
    cancelled: Callable[[], bool]


def working_order(tasks: Sequence[SplitTask]) -> list[int]:
    """Returns the indexes of tasks in the order in which to start them.

    The first split of each bucket comes before any second one, so that an early stop leaves long prefixes. KV snapshots come before logs: a
    log split that begins late still reads a batch, while a snapshot is read whole or not at all. Then the largest come first, so that none
    of them begins last.
    """
    return sorted(range(len(tasks)), key=lambda index: (tasks[index].rank, tasks[index].snapshot is None, -tasks[index].split.records))


@dataclass(frozen=True)
class RewriteWork:
    """One task of an upkeep round, ready for an executor; it can be pickled. Each attempt at it writes files of its own."""

    task: RewriteTask
    rewriter: FileRewriter
    round_id: str


@dataclass(frozen=True)
class RewriteOutcome:
    """How one such task ended: with a rewrite, or with an error. Neither: the round's time was over before it began."""

    rewrite: FileRewrite | None = None
    error: LakewardError | None = None
    size_bytes: int = 0
    """Bytes of the task's files."""


class TaskRunner(Protocol):
    """Runs the tasks of a round, on Spark or inline."""

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        """An outcome for each task, in any order; fewer after a failure. `meter` hears of their progress.

        Raises only errors that no single task caused.
        """
        ...


@runtime_checkable
class RewriteRunner(Protocol):
    """A `TaskRunner` that runs the tasks of upkeep rounds, too."""

    def rewrite(self, round_id: str, tasks: Sequence[RewriteWork], limits: WorkLimits, meter: RoundMeter) -> Sequence[RewriteOutcome]:
        """As `TaskRunner.run`. A task that has begun is ended unless the round is cancelled; the first task is always begun."""
        ...


@dataclass(frozen=True)
class WorkDone:
    """All of a round's outcomes together. `error` = the first failure, with its phase."""

    results: tuple[WriteResult, ...]
    stats: RoundStats
    error: LakewardError | None = None
    phase: Phase = Phase.WRITE
    read_share: float = 0.0
    """The part of the tasks' time that went into reading; the rest is writing."""
    stopped: tuple[BucketStopped, ...] = ()
    """Records at which buckets stop, in the order of their buckets. `phase` is that of the first one if there is no `error`."""
    occupied: frozenset[BucketKey] = frozenset()
    """Buckets of a primary-key table in which files stood before the work."""
