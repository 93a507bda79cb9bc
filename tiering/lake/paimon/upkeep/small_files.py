"""Merges small files of log tables in the rounds that add rows to their buckets (`FileMerging`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from tiering.lake.base import FileRewrite, LakeView
from tiering.lake.maintenance import RewriteTask
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.log_files import LogFiles
from tiering.lake.paimon.upkeep.merged_log_files import rewrite_log_files
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
) -> list[FileRewrite]:
    """See `FileMerging.merge_small_files`. What was written is deleted again if not all can be."""
    rewrites: list[FileRewrite] = []
    try:
        tasks = _tasks(state, table, view, buckets, budget_bytes)
        rewrites.extend(rewrite_log_files(state, task, round_id, new_nonce(), lambda rows: False) for task in tasks)
    except BaseException:
        delete_rewritten(state, rewrites)
        raise
    return rewrites


def _tasks(
    state: TableState, table: TableInfo, view: LakeView, buckets: Mapping[BucketKey, str | None], budget_bytes: int
) -> list[RewriteTask]:
    """The newest small files of each bucket that has too many."""
    log_files = LogFiles(state, table, view)
    tasks: list[RewriteTask] = []
    for key, files in log_files.by_bucket(buckets).items():
        first = first_to_merge([file.size_bytes for file in files], state.target_bytes, budget_bytes)
        task = None if first is None else log_files.task(key, buckets[key], files[first:])
        if task is not None:
            budget_bytes -= task.size_bytes
            tasks.append(task)
    return tasks


def delete_rewritten(state: TableState, rewrites: Sequence[FileRewrite]) -> None:
    """Deletes the new files of rewrites that were never sent. What cannot be deleted is left to the sweep."""
    for rewrite in rewrites:
        for file in decode_files(rewrite.payload).files:
            with suppress(Exception):
                state.storage.delete(state.root / file.path)
