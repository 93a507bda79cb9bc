"""Merges small files in the rounds that add rows to their buckets (`FileMerging`).

In a primary-key table the files are sorted runs. A merge of the newest runs results in a run of level 0, in which delete rows stay. A merge
of all runs results in a run of the highest level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tiering.lake.base import FileRewrite, LakeView
from tiering.lake.maintenance import RewriteTask
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.log_files import LogFiles
from tiering.lake.paimon.upkeep.merged_log_files import DataFile
from tiering.lake.paimon.upkeep.merged_sorted_runs import rewrite_files
from tiering.lake.paimon.upkeep.sorted_runs import SortedRun, SortedRuns
from tiering.lake.paimon.writing.payload import decode_files
from tiering.lake.rules.upkeep.small_files import first_to_merge
from tiering.model.tables import BucketKey, TableInfo


def merge_small_files(
    state: TableState,
    table: TableInfo,
    view: LakeView,
    buckets: Mapping[BucketKey, str | None],
    round_id: str,
    new_nonce: Callable[[], str],
    budget_bytes: int,
    is_over: Callable[[], bool],
) -> list[FileRewrite]:
    """Merges small files. Implements `FileMerging.merge_small_files`. Deletes all new files if not all of them can be written."""
    rewrites: list[FileRewrite] = []
    try:
        tasks = _tasks(state, table, view, buckets, budget_bytes, is_over)
        rewrites.extend(rewrite_files(state, task, round_id, new_nonce(), lambda rows: False) for task in tasks)
    except BaseException:
        delete_rewritten(state, rewrites)
        raise
    return rewrites


def _tasks(
    state: TableState,
    table: TableInfo,
    view: LakeView,
    buckets: Mapping[BucketKey, str | None],
    budget_bytes: int,
    is_over: Callable[[], bool],
) -> Iterator[RewriteTask]:
    """Yields a task for the newest small files of each bucket that has too many. Reads the footers of a bucket's files only when it is the
    bucket's turn.
    """
    for candidates in _candidates(state, table, view, buckets):
        if is_over():
            return
        first = first_to_merge(candidates.sizes, state.target_bytes, budget_bytes)
        task = None if first is None else candidates.task(first)
        if task is not None:
            budget_bytes -= task.size_bytes
            yield task


@dataclass(frozen=True)
class _Candidates:
    """Files or runs of a bucket that may be merged, the oldest first. `task` creates the task that merges all from a position on."""

    sizes: Sequence[int]
    task: Callable[[int], RewriteTask | None]


def _candidates(state: TableState, table: TableInfo, view: LakeView, buckets: Mapping[BucketKey, str | None]) -> Iterator[_Candidates]:
    if state.primary_key:
        sorted_runs = SortedRuns(state, table, view)
        for key, runs in sorted_runs.by_bucket(buckets).items():
            yield _Candidates([run.size_bytes for run in runs], partial(_task_of_runs, sorted_runs, key, buckets[key], runs))
        return
    log_files = LogFiles(state, table, view)
    for key, separated in log_files.by_bucket(buckets).items():
        newest = separated[-1]
        yield _Candidates([file.size_bytes for file in newest], partial(_task_of_files, log_files, key, buckets[key], newest))


def _task_of_runs(
    sorted_runs: SortedRuns, key: BucketKey, partition_name: str | None, runs: Sequence[SortedRun], first: int
) -> RewriteTask | None:
    return sorted_runs.task(key, partition_name, runs[first:], is_all=first == 0)


def _task_of_files(
    log_files: LogFiles, key: BucketKey, partition_name: str | None, files: Sequence[DataFile], first: int
) -> RewriteTask | None:
    return log_files.task(key, partition_name, files[first:])


def delete_rewritten(state: TableState, rewrites: Sequence[FileRewrite]) -> None:
    """Deletes the new files of rewrites that were never sent. Files that cannot be deleted are left to the sweep."""
    for rewrite in rewrites:
        for file in decode_files(rewrite.payload).files:
            with suppress(Exception):
                state.storage.delete(state.root / file.path)
