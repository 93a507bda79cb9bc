"""Carries out the actions of the round's machine and passes the results back to it. All effects of a round are in this module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import structlog
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from tiering import crash_points
from tiering.clock import Clock, Ids
from tiering.cluster.base import SplitReader, SplitSource
from tiering.cluster.capabilities import RewritableLogs, service_mode_of
from tiering.cluster.log_state import read_log_state, traces_at
from tiering.cluster.shared_lake import recorded_by_cluster, with_foreign_commits
from tiering.cluster.skipping import reader_without, still_skipped
from tiering.durations import short_duration
from tiering.errors import BucketStopped, Cancelled, KvSnapshotGone, LakeUnavailable, LakewardError, RoundStalled
from tiering.lake.base import Committable, FileRewrite, Lake, LakeCommitter, LakeView, WriterInitContext
from tiering.lake.dead_letters.table import PutAside, append
from tiering.lake.maintenance import FileMerging, OldMetadata
from tiering.lake.rules.base_check import needs_living
from tiering.lake.rules.upkeep.small_files import in_turn, merge_budget, merging_ms
from tiering.model.assignments import ServiceMode
from tiering.model.refused_records import offset_of
from tiering.model.rounds import Assignment, Phase, RecordedLakeSnapshot, RoundPlace, RoundState, RoundStats
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import UNKNOWN_SNAPSHOT, BucketKey, SkippedRecords, TableInfo, TableType
from tiering.planning.plan_splits import ReadableSplits, readable_splits, replaced_buckets
from tiering.round import dead_letters
from tiering.round.phase_times import PhaseTimer
from tiering.round.ports import CombinedOutcome, SnapshotLeases, SplitTask, TaskOutcome, TaskRunner, Transport, WorkLimits, working_order
from tiering.round.progress import RoundMeter
from tiering.round.progress_reports import ProgressReports
from tiering.round.steps import actions as act
from tiering.round.steps import machine, steps_to_write
from tiering.round.steps.round_state import outcome as outcome_of
from tiering.round.steps.round_state import table_of
from tiering.round.tasks.split_work import as_lakeward_error
from tiering.round.tasks.stopped_records import StoppedRecords, settled
from tiering.round.upkeep_work import UpkeepWork
from tiering.round.watch import TiererWatch

log = structlog.get_logger(__name__)

NO_LIMIT_MS = 10 * 365 * 86_400_000
"""Time limit of work that has to run to its end."""

REREAD_SECONDS = 60
"""Time for which the outcome of a commit is queried again from a lake that does not answer."""

LOG_REREADS = 3
"""Number of times that the log is read again, because its leader may just have moved."""

_CRASH_BEFORE = {act.BeginCommit: crash_points.BEFORE_FENCE, act.CommitLake: crash_points.AFTER_FENCE}
_CRASH_AFTER = {
    act.SplitsRun: crash_points.AFTER_FILES,
    act.FilesMerged: crash_points.MERGED,
    act.UpkeepPlanned: crash_points.UPKEEP_PLANNED,
    act.FilesRewritten: crash_points.AFTER_REWRITES,
    act.RecordsPutAside: crash_points.AFTER_DEAD_LETTERS,
    act.CommitSent: crash_points.AFTER_LAKE_COMMIT,
}
_WORK = act.RunSplits | act.MergeFiles | act.PlanUpkeep | act.RewriteFiles


@dataclass(frozen=True)
class RoundEnvironment:
    """Everything outside of a round that the round uses."""

    transport: Transport
    cluster: SplitSource
    lake: Callable[[str], Lake]
    """Opens the lake of a format."""
    inline: TaskRunner
    spark: TaskRunner
    clock: Clock
    ids: Ids
    inline_round_bytes: int
    leases: SnapshotLeases
    watch: TiererWatch = field(default_factory=TiererWatch)


class RoundRunner:
    """Runs one round to its end, on one thread; `cancel` and `lose_snapshots` may be called from any other."""

    def __init__(self, world: RoundEnvironment, assignment: Assignment) -> None:
        self._world = world
        self._assignment = assignment
        self._stopped_by: LakewardError | None = None
        self._granted = False
        self._snapshots_read = False
        self._runs = 0
        self._meter: RoundMeter | None = None
        self._upkeep = UpkeepWork(world, assignment)
        self._place: RoundPlace | None = None
        self._given_up = False
        self._timer = PhaseTimer()
        self._step_since_ms: int | None = None
        self._last_view: LakeView | None = None
        self._skipped: SkippedRecords = {}
        """Records to skip, from the assignment, that the log still had when it was last read."""
        rereads = LOG_REREADS if isinstance(world.cluster, RewritableLogs) else 0
        self._state, self._action = machine.start(assignment, world.cluster.cluster_id, service_mode_of(world.cluster), rereads)

    @property
    def next_action(self) -> act.Action:
        """Returns the action that `advance` carries out next."""
        return self._action

    def hangs(self, now_ms: int, after_ms: int) -> bool:
        """Returns whether the round has waited for a cluster, a lake or the coordinator for longer than `after_ms`. While it waits, it does
        no work.
        """
        since = self._step_since_ms
        return since is not None and now_ms - since > after_ms and not isinstance(self._action, _WORK)

    def give_up(self, after_ms: int) -> act.RoundOutcome | None:
        """Fails the round if its tasks have made no progress for `after_ms`. Returns None if they have, or if the commit was granted.

        With an outcome the round is over, even if its thread never ends: the thread cannot begin a commit any more, however late a split
        ends. That is safe because this method checks the round's step after it has set `_stopped_by`, and each step begins with a check of
        `_stopped_by`.
        """
        meter = self._upkeep.meter if self._assignment.upkeep else self._meter
        idle = None if meter is None or not self._is_working else meter.idle_time
        if self._granted or idle is None or not idle.executors or idle.ms < after_ms:
            return None
        where = ", ".join(idle.executors)
        tasks = "rewrites" if self._assignment.upkeep else "splits"
        error = RoundStalled(
            f"the {tasks} made no progress for {short_duration(idle.ms)}; last reported by {where}",
            round_id=self._assignment.round_id,
        )
        self._given_up, self._stopped_by = True, error
        if not self._is_working:
            return None  # the round progressed just now, and ends by itself
        self._world.leases.release(self)
        return replace(unexpected_end(self._state, error), phase=Phase.WRITE)

    @property
    def _is_working(self) -> bool:
        return isinstance(self._action, act.RunSplits | act.RewriteFiles)

    @property
    def granted(self) -> bool:
        """Returns whether the round has passed the fence: from then on a cancellation is too late."""
        return self._granted

    def cancel(self, reason: str) -> bool:
        """Ends the round at its next step; returns False if it is too late: the commit was granted, or the round is over."""
        if self._granted or isinstance(self._action, act.End):
            return False
        self._stopped_by = Cancelled(reason, round_id=self._assignment.round_id)
        return True

    def lose_snapshots(self, message: str) -> None:
        """Implements `LeaseHolder.lose_snapshots`: fails the round unless its snapshots have been read already."""
        if not self._snapshots_read:
            self._stopped_by = KvSnapshotGone(message, round_id=self._assignment.round_id)

    def run(self) -> act.RoundOutcome:
        """Runs the round to its end. Never raises: every error is in the outcome."""
        try:
            while (outcome := self.advance()) is None:
                pass
            return outcome
        except BaseException as error:
            log.exception("a round ended unexpectedly")
            return self._timed(unexpected_end(self._state, error))
        finally:
            self._release_leases()

    def _release_leases(self) -> None:
        try:
            self._world.leases.release(self)
        except BaseException:  # a lease that is not released expires; the outcome stays valid
            log.exception("the leases of a round could not be released")

    def advance(self) -> act.RoundOutcome | None:
        """Carries out one action; returns the outcome if the round is over. The simulator interleaves rounds at this method."""
        if isinstance(self._action, act.End):
            return self._timed(self._action.outcome)
        if (point := _CRASH_BEFORE.get(type(self._action))) is not None:
            crash_points.reach(point)
        started = self._step_since_ms = self._world.clock.monotonic_ms()
        event = self._carry_out(self._action)
        self._step_since_ms = None
        elapsed_ms = self._world.clock.monotonic_ms() - started
        for phase, spent_ms in self._timer.add(self._action, event, elapsed_ms, sent=self._state.sent > 0).items():
            self._world.watch.phase_done(self._assignment, phase, spent_ms, elapsed_ms)
        if (point := _CRASH_AFTER.get(type(event))) is not None:
            crash_points.reach(point)
        if isinstance(event, act.ActionFailed) and isinstance(event.action, act.MergeFiles):
            log.warning("small files were not merged; the round continues without them", error=event.error.message)
        log.debug("round step", action=type(self._action).__name__, led_to=type(event).__name__)
        self._state, self._action = machine.step(self._state, event)
        return self._timed(self._action.outcome) if isinstance(self._action, act.End) else None

    def _timed(self, outcome: act.RoundOutcome) -> act.RoundOutcome:
        stats, place = self._upkeep.with_upkeep(outcome), self._place or self._upkeep.place
        return replace(outcome, stats=replace(stats, times=self._timer.times(), place=place))

    def _carry_out(self, action: act.Action) -> act.Event:
        try:
            self._check_cancelled(action)
            return self._effect(action)
        except BaseException as error:  # a panic in a library is no Exception, and must not leave the table in Tiering for ever
            return act.ActionFailed(action, as_lakeward_error(error))

    def _check_cancelled(self, action: act.Action) -> None:
        if self._stopped_by is not None and not self._granted and not isinstance(action, act.AbortFiles):
            raise self._stopped_by

    def _effect(self, action: act.Action) -> act.Event:
        world, assignment = self._world, self._assignment
        match action:
            case act.ReadTable():
                return act.TableRead(self._read_table())
            case act.ReadLake(table):
                return self._read_lake(table)
            case act.Ack(marker, snapshot_id):
                world.transport.commit_lake_snapshot(assignment, marker, snapshot_id)
                crash_points.reach(crash_points.AFTER_ACK)
                self._delete_old_metadata()
                return act.Acked()
            case act.ReadLog():
                return self._read_log(action)
            case act.ReadTraces(table, reached, witnesses):
                return act.TracesRead(traces_at(world.cluster, table, reached, witnesses))
            case act.LeaseSnapshots(snapshots):
                return act.SnapshotsLeased(world.leases.acquire(snapshots, self))
            case act.EnsureLakeTable(table, may_create):
                return act.LakeEnsured(self._ensured(table, may_create=may_create))
            case act.RecordPlan(plan, uuid, passed_head):
                world.transport.record_plan(assignment, uuid, plan.stops, len(plan.splits) + len(plan.snapshots), passed_head)
                return act.PlanRecorded()
            case act.RunSplits():
                return act.SplitsRun(self._run_splits(action))
            case act.MergeFiles(table, base, buckets):
                return act.FilesMerged(tuple(self._merged(table, base, buckets)))
            case act.PlanUpkeep(table, base, order):
                return act.UpkeepPlanned(self._upkeep.planned(table, base, order))
            case act.RewriteFiles(table, tasks):
                return self._upkeep.rewritten(table, tasks, lambda: self._stopped_by)
            case act.BeginCommit() | act.PutRecordsAside() | act.CommitLake():
                return self._commit(action)
            case act.AbortFiles(table, committable):
                self._committer(table).abort(committable)
                return act.FilesAborted()
        raise AssertionError(f"no effect for {action}")

    def _read_table(self) -> TableInfo:
        """Returns the source table. Its options are those of a table without upkeep or expiry where the assignment says so."""
        table, assignment = self._world.cluster.table(self._assignment.path), self._assignment
        if assignment.upkeep_paused:
            table = replace(table, auto_compaction=False, snapshot_retention=None)
        if assignment.reads_unknown:
            table = replace(table, snapshot_retention=None)
        # A read that is opened after the assignment has the newest tiering commit of that time, or a later snapshot. Another tiering commit
        # may land before this round's: that of an earlier round whose request was late, or of another service.
        tiered = UNKNOWN_SNAPSHOT if assignment.recorded is None else assignment.recorded.lake_snapshot_id
        return replace(table, read_snapshots=assignment.read_snapshots, kept_since=tiered)

    def _commit(self, action: act.BeginCommit | act.PutRecordsAside | act.CommitLake) -> act.Event:
        world, assignment = self._world, self._assignment
        match action:
            case act.BeginCommit(proposed):
                properties = world.transport.begin_lake_commit(assignment, proposed)
                self._granted = True
                return act.CommitGranted(properties)
            case act.PutRecordsAside(table, letters):
                aside = PutAside(world.cluster.cluster_id, assignment.round_id, assignment.tiering_epoch, letters)
                append(world.lake(table.lake_format), table, aside, world.clock, world.ids)
                return act.RecordsPutAside()
            case act.CommitLake():
                return self._send_commit(action)

    def _send_commit(self, action: act.CommitLake) -> act.CommitSent:
        committer = self._committer(action.table)
        try:
            committer.commit(action.committable, action.base, action.marker, action.properties)
        finally:
            self._upkeep.commit_sent(committer)
        return act.CommitSent()

    def _delete_old_metadata(self) -> None:
        """Deletes metadata files that the round's commit made superfluous. Called after the ack, because only then is the commit known to
        be in the lake.
        """
        base, confirmed = self._state.base, self._last_view
        if not self._state.sent or base is None or base.view is None or confirmed is None:
            return
        lake = self._world.lake(table_of(self._state).lake_format)
        if isinstance(lake, OldMetadata):
            lake.delete_old_metadata(base.view, confirmed)

    def _read_log(self, action: act.ReadLog) -> act.LogRead:
        cluster, table = self._world.cluster, action.table
        log_state = read_log_state(cluster, table, action.tiered, settle=action.settle)
        # Called after the log was read: if the log is cut after this check, the next round finds other traces at the log's end offsets.
        self._skipped = still_skipped(cluster, table, self._assignment.skipped)
        return act.LogRead(log_state.ends, log_state.partitions, log_state.snapshots, log_state.traces, self._skipped)

    def _committer(self, table: TableInfo) -> LakeCommitter:
        factory = self._world.lake(table.lake_format).tiering_factory(table)
        return factory.create_committer()

    def _read_lake(self, table: TableInfo) -> act.LakeRead:
        """Reads the lake. After a commit was sent, the round's outcome depends on it, so a lake that does not answer is asked again for
        REREAD_SECONDS.
        """
        world = self._world
        recorded, is_readable = recorded_by_cluster(world.cluster, table)
        patience = REREAD_SECONDS if self._granted else 0
        retrying = Retrying(
            retry=retry_if_exception_type(LakeUnavailable),
            stop=stop_after_delay(patience),
            wait=wait_exponential_jitter(multiplier=0.1, max=5),
            reraise=True,
        )
        view = self._last_view = retrying(self._view, table, recorded, is_readable)
        copies = [copy for copy in (self._assignment.recorded, recorded) if copy is not None]
        if not needs_living(view, copies):
            return act.LakeRead(view, recorded)
        return act.LakeRead(view, recorded, frozenset(partition.partition_id for partition in world.cluster.partitions(table)))

    def _view(self, table: TableInfo, recorded: RecordedLakeSnapshot | None, is_readable: bool) -> LakeView | None:
        view = self._world.lake(table.lake_format).view(table.path)
        return None if view is None else self._walked(table, view, recorded, is_readable)

    def _ensured(self, table: TableInfo, *, may_create: bool) -> LakeView:
        lake = self._world.lake(table.lake_format)
        if service_mode_of(self._world.cluster) is ServiceMode.EXCLUSIVE:
            return lake.ensure_table(table, may_create=may_create)
        # Read before the lake; needed only for the walk of another service's commits.
        recorded = recorded_by_cluster(self._world.cluster, table)
        return self._walked(table, lake.ensure_table(table, may_create=may_create), *recorded)

    def _walked(self, table: TableInfo, view: LakeView, recorded: RecordedLakeSnapshot | None, is_readable: bool) -> LakeView:
        """Returns `view` extended by the commits of another tiering service since the last read."""
        world, assignment = self._world, self._assignment
        records = steps_to_write.shared_records(assignment, service_mode_of(world.cluster))
        if records is None:
            return view
        records = replace(records, cluster=recorded, is_readable=is_readable)
        lake = world.lake(table.lake_format)
        return with_foreign_commits(world.cluster, lake, table, view, records, assignment.passed_head, assignment.skipped)

    def _run_splits(self, action: act.RunSplits) -> CombinedOutcome:
        world, assignment, plan = self._world, self._assignment, action.plan
        self._meter = None
        tasks, stopped = self._tasks(action)
        inline = plan.estimated_bytes is not None and plan.estimated_bytes <= world.inline_round_bytes
        self._runs += 1
        reports = ProgressReports(partial(world.transport.report_progress, assignment, Phase.WRITE), self._runs, tasks)
        meter = self._meter = RoundMeter([task.expected_records for task in tasks], world.clock.monotonic_ms, reports.pass_on)
        meter.report()
        runner = world.inline if inline else world.spark
        stopped_records = StoppedRecords(world.cluster, action.table, self._skipped)
        try:
            outcomes = runner.run(assignment.round_id, tasks, self._limits(action), meter)
            if over := dead_letters.over_limit(tasks, outcomes, dead_letters.remaining(assignment, action.base)):
                outcomes = self._run_instead(action, runner, outcomes, over)
            again = self._run_again(action, runner, stopped_records.tasks_again(tasks, outcomes, plan.starts))
        except Cancelled:
            self._check_cancelled(action)  # raises the error with the reason of the cancellation
            raise
        finally:
            self._place = meter.place
        occupied = frozenset(task.context.bucket for task in tasks if task.context.base)
        done = replace(combined(settled(outcomes, again), stopped), occupied=occupied)
        done = stopped_records.with_traces(done, self._state.traces)
        done = dead_letters.with_traces(world.cluster, action.table, done, self._state.traces)
        if self._stopped_by is not None and not self._granted:
            return replace(done, error=self._stopped_by, phase=Phase.WRITE)
        self._snapshots_read = True
        meter.report()
        return done

    def _run_instead(
        self, action: act.RunSplits, runner: TaskRunner, outcomes: Sequence[TaskOutcome], tasks: Mapping[int, SplitTask]
    ) -> Sequence[TaskOutcome]:
        """Runs tasks again, by the indexes of their outcomes, and returns all outcomes. Deletes the files of the former outcomes."""
        results = tuple(result for index in tasks if (result := outcomes[index].result) is not None)
        self._committer(action.table).abort(Committable(self._assignment.round_id, results))
        within = [outcome for index, outcome in enumerate(outcomes) if index not in tasks]
        self._meter = RoundMeter([task.expected_records for task in tasks.values()], self._world.clock.monotonic_ms, lambda reading: None)
        return [*within, *runner.run(self._assignment.round_id, list(tasks.values()), self._limits(action), self._meter)]

    def _run_again(self, action: act.RunSplits, runner: TaskRunner, tasks: Sequence[SplitTask]) -> Sequence[TaskOutcome]:
        """Runs tasks with a doubtful record once more, after the other splits. The results of this run are never committed."""
        if not tasks:
            return ()
        self._meter = RoundMeter([task.expected_records for task in tasks], self._world.clock.monotonic_ms, lambda reading: None)
        again = runner.run(self._assignment.round_id, tasks, self._limits(action), self._meter)
        if results := tuple(outcome.result for outcome in again if outcome.result is not None):
            self._committer(action.table).abort(Committable(self._assignment.round_id, results))
        return again

    def _limits(self, action: act.RunSplits) -> WorkLimits:
        """Returns the round's limits for work, counted from now. Reading cluster and lake, and acquiring leases, may have used up the
        round's time, but each round has to make progress.
        """
        if action.to_the_end:
            return WorkLimits(NO_LIMIT_MS, lambda: self._given_up)
        limit_ms = NO_LIMIT_MS if action.replays else self._assignment.max_duration_ms
        return WorkLimits(limit_ms, lambda: self._stopped_by is not None)

    def _tasks(self, action: act.RunSplits) -> tuple[list[SplitTask], Collection[BucketStopped]]:
        """Returns the tasks, and the errors of buckets that the cluster does not allow to read to their end."""
        table, world, plan = action.table, self._world, action.plan
        lake = world.lake(table.lake_format)
        factory = lake.tiering_factory(table)
        names = {split.bucket: split.partition_name for split in plan.splits}
        bases = {} if table.table_type is TableType.LOG else lake.bucket_files(table, action.base, names)
        snapshots = {split.bucket: world.cluster.reader(table, split) for split in plan.snapshots}
        before_log = {split.bucket: split.log_offset_of_snapshot for split in plan.snapshots}
        replaced = replaced_buckets(plan, base_moved_back=() if action.base.foreign is None else action.base.foreign.moved_back)
        ranks: Counter[BucketKey] = Counter()
        letters = dead_letters.remaining(self._assignment, action.base)
        tasks = []
        readable = self._readable(table, plan.splits)
        for split, reader in readable.splits:
            bucket, nonce = split.bucket, world.ids.new_id()
            base = bases.get(bucket, b"")
            context = WriterInitContext(
                table, action.lake_table_uuid, bucket, split.partition_name, self._assignment.round_id, nonce, base, bucket in replaced
            )
            expected = split.records + before_log.get(bucket, 0)
            tasks.append(
                SplitTask(reader, split, factory, context, ranks[bucket], snapshots.get(bucket), False, expected, dead_letters=letters)
            )
            ranks[bucket] += 1
        first = next(iter(working_order(tasks)), None)
        return [replace(task, is_first=index == first) for index, task in enumerate(tasks)], readable.stopped.values()

    def _merged(self, table: TableInfo, base: LakeView, buckets: Mapping[BucketKey, str | None]) -> Sequence[FileRewrite]:
        lake = self._world.lake(table.lake_format)
        if not isinstance(lake, FileMerging):
            return ()
        budget_bytes = merge_budget(table.freshness_ms, self._world.inline_round_bytes)
        clock, round_id = self._world.clock, self._assignment.round_id
        end_ms = clock.monotonic_ms() + merging_ms(table.freshness_ms)

        def is_over() -> bool:
            return self._stopped_by is not None or clock.monotonic_ms() >= end_ms

        return lake.merge_small_files(table, base, in_turn(buckets, round_id), round_id, self._world.ids.new_id, budget_bytes, is_over)

    def _readable(self, table: TableInfo, splits: Sequence[TieringLogSplit]) -> ReadableSplits[SplitReader]:
        """Returns the splits with their readers. A bucket that stops at a refused record keeps only the part before that record, without
        later splits.

        Raises BucketStopped if nothing else is left to read.
        """
        skipped, reader = self._skipped, partial(self._world.cluster.reader, table)
        readable = readable_splits(splits, lambda split: reader_without(reader, split, skipped.get(split.bucket, ())))
        if readable.stopped and not readable.splits:
            raise next(iter(readable.stopped.values()))
        return readable


def unexpected_end(state: machine.Round, error: BaseException) -> act.RoundOutcome:
    """Returns the outcome of a round that ended with a defect of Lakeward, and not with a failed action. No further action is carried out;
    the next round reads the lake again.
    """
    return replace(outcome_of(state, RoundState.FAILED), error=as_lakeward_error(error), phase=state.phase)


def combined(outcomes: Sequence[TaskOutcome], stopped: Collection[BucketStopped] = ()) -> CombinedOutcome:
    """Returns the combined work of all tasks. `stopped` has errors of buckets that were not read to their end, in addition to those that
    tasks met.
    """
    results = tuple(outcome.result for outcome in outcomes if outcome.result is not None)
    stats = RoundStats(
        splits=len(outcomes),
        records_read=sum(result.reached_offset - result.starting_offset for result in results),
        bytes_read=sum(outcome.bytes_read for outcome in outcomes),
        records_written=sum(result.records for result in results),
        bytes_written=sum(result.size_bytes for result in results),
        files_written=sum(result.files for result in results),
        deletes_written=sum(result.deletes for result in results),
    )
    failed = next((outcome for outcome in outcomes if outcome.error is not None), None)
    met = [(outcome.stopped, outcome.phase) for outcome in outcomes if outcome.stopped is not None]
    stops = sorted((*met, *((error, Phase.WRITE) for error in stopped)), key=_bucket_and_offset)
    work_ms = sum(outcome.work_ms for outcome in outcomes)
    read_share = sum(outcome.read_ms for outcome in outcomes) / work_ms if work_ms else 0.0
    done = CombinedOutcome(results, stats, stopped=tuple(error for error, _ in stops), read_share=read_share)
    if failed is not None:
        return replace(done, error=failed.error, phase=failed.phase)
    return replace(done, phase=stops[0][1]) if stops else done


def _bucket_and_offset(stop: tuple[BucketStopped, Phase]) -> tuple[str, int]:
    return stop[0].ids.get("bucket", ""), offset_of(stop[0]) or 0
