"""One attempt at a rewrite of an upkeep round: its files are its own, and an error of it is data."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tiering.errors import DataCorrupt
from tiering.lake.base import FileRewrite
from tiering.lake.maintenance import RewriteTask
from tiering.model.tables import BucketKey
from tiering.round.ports import RewriteOutcome, RewriteWork
from tiering.round.tasks.rewrite_work import run_rewrite
from tiering.round.tasks.task_reports import TaskReports

TASK = RewriteTask(BucketKey(None, 0), None, b"", 2, 100)


@dataclass(frozen=True)
class NamedByNonce:
    """A lake whose rewrite names the nonce of the attempt."""

    def rewrite(self, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
        return FileRewrite(task.bucket, f"{round_id}-{nonce}".encode(), 2, 1, task.size_bytes, task.size_bytes)


@dataclass(frozen=True)
class Broken:
    """Cannot read its files."""

    def rewrite(self, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
        raise DataCorrupt("the file is torn")


def attempt(work: RewriteWork) -> RewriteOutcome:
    return run_rewrite(pickle.loads(pickle.dumps(work)), 0, TaskReports(lambda _: None, 0, "driver", lambda: 0), lambda: False)


def test_two_attempts_at_a_task_never_write_the_same_file() -> None:
    work = RewriteWork(TASK, NamedByNonce(), "r1")
    rewrites = [attempt(work).rewrite for _ in range(2)]
    names = {rewrite.payload for rewrite in rewrites if rewrite is not None}
    assert len(names) == 2, "an attempt that Spark gave up would delete or overwrite the files of the next one"


@pytest.mark.parametrize("is_stopped", [False, True])
def test_an_error_reaches_the_driver_as_data(is_stopped: bool) -> None:
    reports = TaskReports(lambda _: None, 0, "driver", lambda: 0)
    outcome = run_rewrite(RewriteWork(TASK, Broken(), "r1"), 0, reports, lambda: is_stopped)
    assert outcome.rewrite is None
    assert isinstance(outcome.error, DataCorrupt)
    assert outcome.size_bytes == TASK.size_bytes
