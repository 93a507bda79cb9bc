"""The effects of an upkeep round between base check and fence: it plans and runs the rewrites, and adds up their statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tiering.errors import InvalidArgument, LakewardError
from tiering.lake.base import FileRewrite, Lake, LakeCommitter, LakeView
from tiering.lake.maintenance import CommitUpkeep, FileRewriter, RewriteTask, TableUpkeep, UpkeepPlan
from tiering.model.rounds import Assignment, Phase, RoundPlace, RoundStats
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder, UpkeepStats
from tiering.round.ports import RewriteRunner, RewriteWork, WorkLimits
from tiering.round.progress import RoundMeter
from tiering.round.progress_reports import ProgressReports
from tiering.round.steps import actions as act

if TYPE_CHECKING:
    from tiering.round.runner import RoundEnvironment


class UpkeepWork:
    """The upkeep work of one round. `meter` and `place` are those of its rewrites, None before they run."""

    def __init__(self, world: RoundEnvironment, assignment: Assignment) -> None:
        self._world = world
        self._assignment = assignment
        self.meter: RoundMeter | None = None
        self.place: RoundPlace | None = None
        self._committed: UpkeepStats | None = None
        """The upkeep statistics of the newest commit request."""
        self._rewrites: tuple[FileRewrite, ...] = ()

    def planned(self, table: TableInfo, base: LakeView, order: UpkeepOrder) -> UpkeepPlan:
        """Asks the lake for the upkeep plan. Raises LakeUnavailable, and InvalidArgument for a format without upkeep."""
        partitions = {} if not table.partition_keys else self._partitions(table)
        return upkeep_of(self._world.lake(table.lake_format)).plan_upkeep(table, base, order, partitions)

    def _partitions(self, table: TableInfo) -> dict[str, int]:
        return {entry.partition_name: entry.partition_id for entry in self._world.cluster.partitions(table)}

    def rewritten(self, table: TableInfo, tasks: tuple[RewriteTask, ...], is_cancelled: Callable[[], LakewardError | None]) -> act.Event:
        """Runs the tasks: inline if their total size is small, otherwise on Spark."""
        world, assignment = self._world, self._assignment
        factory = world.lake(table.lake_format).tiering_factory(table)
        if not isinstance(factory, FileRewriter):
            raise InvalidArgument(f"the lake format {table.lake_format} cannot rewrite files", table_path=table.path)
        works = [RewriteWork(task, factory, assignment.round_id) for task in tasks]
        reports = ProgressReports(partial(world.transport.report_progress, assignment, Phase.MAINTENANCE), 1, ())
        meter = self.meter = RoundMeter([task.records for task in tasks], world.clock.monotonic_ms, reports.pass_on)
        runner = world.inline if sum(task.size_bytes for task in tasks) <= world.inline_round_bytes else world.spark
        assert isinstance(runner, RewriteRunner)
        limits = WorkLimits(assignment.max_duration_ms, lambda: is_cancelled() is not None)
        try:
            outcomes = runner.rewrite(assignment.round_id, works, limits, meter)
        finally:
            self.place = meter.place
        meter.report()
        rewrites = self._rewrites = tuple(outcome.rewrite for outcome in outcomes if outcome.rewrite is not None)
        error = is_cancelled() or next((outcome.error for outcome in outcomes if outcome.error is not None), None)
        started_bytes = sum(outcome.size_bytes for outcome in outcomes)
        return act.FilesRewritten(rewrites, sum(task.size_bytes for task in tasks) - started_bytes, error)

    def commit_sent(self, committer: LakeCommitter) -> None:
        """Records the upkeep statistics of a commit request, even if its outcome is unknown."""
        self._committed = committer.last_upkeep if isinstance(committer, CommitUpkeep) else total_of(self._rewrites)

    def with_upkeep(self, outcome: act.RoundOutcome) -> RoundStats:
        """Returns the statistics of a round, including the upkeep of its commit."""
        stats, done = outcome.stats, self._committed
        if outcome.lake_snapshot_id is None or done is None:
            return stats
        left = None if stats.upkeep is None else stats.upkeep.bytes_left
        return replace(stats, upkeep=replace(done, bytes_left=left))


def total_of(rewrites: Sequence[FileRewrite]) -> UpkeepStats | None:
    """Returns the statistics of a commit with all of `rewrites`; None without rewrites."""
    if not rewrites:
        return None
    return UpkeepStats(
        files_before=sum(rewrite.files_before for rewrite in rewrites),
        files_after=sum(rewrite.files_after for rewrite in rewrites),
        bytes_read=sum(rewrite.bytes_before for rewrite in rewrites),
        bytes_written=sum(rewrite.bytes_after for rewrite in rewrites),
        rows_dropped=sum(rewrite.rows_dropped for rewrite in rewrites),
    )


def upkeep_of(lake: Lake) -> TableUpkeep:
    """Returns the lake's upkeep interface. Raises InvalidArgument for a format without upkeep rounds."""
    if isinstance(lake, TableUpkeep):
        return lake
    raise InvalidArgument(f"the lake format {lake.format} has no upkeep rounds")
