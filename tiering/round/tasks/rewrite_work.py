"""One rewrite of an upkeep round, on an executor or inline."""

from __future__ import annotations

from collections.abc import Callable

from tiering import crash_points
from tiering.clock import RandomIds
from tiering.model.splits import SplitState
from tiering.round.ports import RewriteOutcome, RewriteWork
from tiering.round.tasks.split_work import as_lakeward_error
from tiering.round.tasks.task_reports import TaskReports


def run_rewrite(work: RewriteWork, place: int, reports: TaskReports, is_cancelled: Callable[[], bool]) -> RewriteOutcome:
    """Rewrites the files of the task at `place` of the round. Never raises: on failure the error is in the outcome, and the written files
    are deleted.
    """

    def is_stopped(rows: int) -> bool:
        reports.advance(rows, None)
        crash_points.reach(crash_points.IN_REWRITE)
        return is_cancelled()

    reports.begin(place)
    try:
        rewrite = work.rewriter.rewrite(work.task, work.round_id, RandomIds().new_id(), is_stopped)
        reports.end(SplitState.DONE, None)
        return RewriteOutcome(rewrite, size_bytes=work.task.size_bytes)
    except BaseException as error:  # an executor's failure, even a library's panic, has to reach the driver as data
        reports.end(SplitState.FAILED, None)
        return RewriteOutcome(error=as_lakeward_error(error), size_bytes=work.task.size_bytes)
    finally:
        reports.close()
