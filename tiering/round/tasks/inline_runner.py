"""Runs a small round's tasks in the tierer's own process, one after the other: no Spark job, one batch in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tiering.round.ports import SplitTask, TaskOutcome, WorkLimits, working_order
from tiering.round.progress import RoundMeter
from tiering.round.tasks.split_work import deadline, run_split


class InlineTaskRunner:
    """A `TaskRunner` without Spark. Stops at the first failure: a failed round commits nothing."""

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        over = deadline(limits.budget_ms)
        outcomes: list[TaskOutcome] = []
        for index in working_order(tasks):
            if limits.cancelled():
                break
            outcomes.append(run_split(tasks[index], lambda: over() or limits.cancelled(), partial(meter.advance, index)))
            if outcomes[-1].error is not None:
                break
            meter.end(index)
        return outcomes
