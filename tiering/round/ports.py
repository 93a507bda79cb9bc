"""The interfaces that a round needs beside cluster and lake: the coordinator, leases on KV snapshots, and runners of its tasks."""

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
    """The commit that a round is about to send, in the terms in which the fence has to allow it."""

    base_round_id: str | None
    base_tag: int | None
    offsets: Offsets
    records: int
    files: int


@dataclass(frozen=True)
class ProgressReport:
    """The content of one progress call. `splits` has the changed splits by their number within the run; `splits_told` is defined at
    `ReportProgressRequest`.
    """

    progress: RoundProgress
    run: int = 0
    splits: Sequence[tuple[int, SplitProgress]] = ()
    splits_told: int = 0


class ReportAnswer(Enum):
    """The coordinator's reaction to a report."""

    TAKEN = "taken"
    SEND_ALL = "taken, but splits of earlier reports are missing"
    LOST = "lost, or its outcome is unknown"
    REFUSED = "refused, as all later reports will be"


class HeartbeatCall(Protocol):
    """A heartbeat that was sent."""

    def wait(self, wake: threading.Event) -> bool:
        """Returns True when the answer has arrived, False when another thread set `wake` before."""

    def result(self) -> LakeTieringHeartbeatResponse:
        """Waits for the answer and returns it. Raises LakewardError."""


class Transport(Protocol):
    """The coordinator, as a tierer sees it. All calls may raise ServiceUnreachable, and all are idempotent."""

    def heartbeat(self, request: LakeTieringHeartbeatRequest, timeout_ms: int) -> HeartbeatCall:
        """Sends reports and optionally a request for a table; returns at once."""

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        """Records the plan with the coordinator before any file is written. Raises Fenced."""

    def begin_lake_commit(self, assignment: Assignment, proposed: ProposedCommit) -> Mapping[str, str]:
        """Requests the grant for the commit; returns the properties that the lake snapshot has to carry for the cluster. Raises Fenced if
        it is not granted.
        """

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        """Acknowledges a commit, with the marker read from the lake."""

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        """Leases KV snapshots and renews the lease; returns the buckets whose snapshot does not exist. Raises PeerTooOld, UnknownLease."""

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> None:
        """Releases the snapshots of single buckets. Raises PeerTooOld."""

    def drop_lease(self, lease_id: str) -> None:
        """Ends the lease. Raises PeerTooOld."""

    def report_progress(
        self, assignment: Assignment, phase: Phase, report: ProgressReport, answered: Callable[[ReportAnswer], None]
    ) -> None:
        """Sends a round's progress, best effort and without waiting. `answered` is called with the result, from any thread."""


class LeaseHolder(Protocol):
    """A reader of leased KV snapshots: a round."""

    def lose_snapshots(self, message: str) -> None:
        """Notifies the holder that the lease lapsed and one of its snapshots no longer exists. Called from another thread."""


class SnapshotLeases(Protocol):
    """Keeps KV snapshots alive while this tierer reads them. Never fails a round that could continue without leases."""

    def acquire(self, snapshots: Mapping[TableBucket, int], holder: LeaseHolder) -> Collection[TableBucket]:
        """Leases snapshots (bucket -> snapshot id) until their holder releases them; returns the buckets whose snapshot no longer exists.

        With a coordinator that has no leases, nothing is leased and nothing is unavailable. Raises ServiceUnreachable.
        """

    def release(self, holder: LeaseHolder) -> None:
        """Releases the snapshots of `holder`, in the background, best effort. Never raises."""

    def close(self) -> None:
        """Releases everything, in the background, best effort. Never raises."""


@dataclass(frozen=True)
class SplitTask:
    """The work of one log split, ready for an executor; it can be pickled. Each attempt has its own nonce.

    `rank` is the number of earlier splits of the same bucket: if one of those stops early, this task's work cannot be committed. `snapshot`
    reads the bucket's KV snapshot before the log and into the same writer, which folds both to the last change of each key. `is_first`:
    this task always reads its snapshot, however late it starts, so that every round makes some progress.
    """

    reader: SplitReader
    split: TieringLogSplit
    factory: LakeTieringFactory
    context: WriterInitContext
    rank: int = 0
    snapshot: SplitReader | None = None
    is_first: bool = False
    expected_records: int = 0
    """Expected records of log and snapshot, for the progress of the round. A snapshot counts as many records as the log up to it."""
    records_before: SplitReader | None = None
    """Reads the record of the log before the split, to compare it with a record that cannot be written. None = not needed, or not
    readable.
    """
    dead_letters: int | None = None
    """How many records that the lake cannot hold the task may put aside; None = its bucket stops before the first of them."""

    @property
    def records(self) -> int:
        """Returns the number of records to read, as far as it is known when the round is planned."""
        return max(self.expected_records, self.split.records)


@dataclass(frozen=True)
class TaskOutcome:
    """The outcome of one task: a write result, or an error and the phase in which it happened."""

    result: WriteResult | None
    """The result of the whole split, or of its part before an early stop or before the record of `stopped`."""
    error: LakewardError | None = None
    """The error that fails the whole round."""
    phase: Phase = Phase.WRITE
    read_ms: float = 0.0
    """Time that the task waited for batches."""
    work_ms: float = 0.0
    """Total duration of the task."""
    bytes_read: int = 0
    """Bytes read from log and snapshot files, where the cluster's readers count them."""
    stopped: BucketStopped | None = None
    """The record of the split that cannot be written. Only its bucket stops there."""
    suspected_error: LakewardError | None = None
    """The error at the record of `stopped`, if no other record of the bucket was written for comparison. The round decides which of both
    errors counts.
    """
    has_control: bool = False
    """Whether another row was written alone, for comparison with a record that failed."""


@dataclass(frozen=True)
class WorkLimits:
    """When work on splits has to end early: `budget_ms` after it began, or as soon as `cancelled` returns True (called in the driver)."""

    budget_ms: int
    cancelled: Callable[[], bool]


def working_order(tasks: Sequence[SplitTask]) -> list[int]:
    """Returns the indexes of tasks in the order in which to start them.

    The first split of each bucket comes before any second one, so that an early stop leaves long prefixes. KV snapshots come before logs: a
    log split that begins late still reads a batch, while a snapshot is read whole or not at all. Then the largest tasks come first, so that
    none of them begins last.
    """
    return sorted(range(len(tasks)), key=lambda index: (tasks[index].rank, tasks[index].snapshot is None, -tasks[index].split.records))


@dataclass(frozen=True)
class RewriteWork:
    """One task of an upkeep round, ready for an executor; it can be pickled. Each attempt writes its own files."""

    task: RewriteTask
    rewriter: FileRewriter
    round_id: str


@dataclass(frozen=True)
class RewriteOutcome:
    """The outcome of one `RewriteWork`: a rewrite or an error. Neither is set if the round's time was over before the task began."""

    rewrite: FileRewrite | None = None
    error: LakewardError | None = None
    size_bytes: int = 0
    """Bytes of the task's files."""


class TaskRunner(Protocol):
    """Runs the tasks of a round, on Spark or inline."""

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        """Returns an outcome for each task, in any order; fewer after a failure. `meter` receives their progress.

        Raises only errors that no single task caused.
        """


@runtime_checkable
class RewriteRunner(Protocol):
    """A `TaskRunner` that also runs the tasks of upkeep rounds."""

    def rewrite(self, round_id: str, tasks: Sequence[RewriteWork], limits: WorkLimits, meter: RoundMeter) -> Sequence[RewriteOutcome]:
        """Runs the tasks as `TaskRunner.run` does. A task that has begun runs to its end unless the round is cancelled. The first task
        always begins.
        """


@dataclass(frozen=True)
class CombinedOutcome:
    """The combined outcomes of a round's tasks. `error` is the first failure and `phase` its phase."""

    results: tuple[WriteResult, ...]
    stats: RoundStats
    error: LakewardError | None = None
    phase: Phase = Phase.WRITE
    read_share: float = 0.0
    """The share of the tasks' time that was spent on reading; the remainder was spent on writing."""
    stopped: tuple[BucketStopped, ...] = ()
    """Records at which buckets stop, in the order of their buckets. Without an `error`, `phase` is the phase of the first of them."""
    occupied: frozenset[BucketKey] = frozenset()
    """Buckets of a primary-key table that had files before the work."""
