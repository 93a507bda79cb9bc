"""Plans what rounds rewrite in a Paimon table: upkeep rounds (`TableUpkeep`), and rounds that add rows, which merge small files
(`FileMerging`).

Small files are the newest ones of a bucket. In a primary-key table their merge is a run of level 0, in which delete rows stay, unless all
runs are merged.

Upkeep of log tables: `rules.upkeep.rewrite_runs` over the files of a bucket in offset order. Upkeep of primary-key tables: if the newer
runs of a bucket have at least NEWER_SHARE of its bytes, the bucket is compacted into one run of the highest level. Otherwise only the newer
runs are merged with each other, so that few runs remain and the large one is not rewritten for a few rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from tiering.lake.base import FileRewrite, LakeView
from tiering.lake.maintenance import RewriteTask, UpkeepPlan
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.storage.base import discard
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.mergeable_files import MergeableFiles, SortedRun
from tiering.lake.paimon.upkeep.rewriting import rewrite_files
from tiering.lake.paimon.writing.payload import decode_files
from tiering.lake.rules.upkeep.rewrite_runs import LiveDataFile, outputs_of, runs_to_rewrite
from tiering.lake.rules.upkeep.small_files import first_to_merge
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.tables import PARTITION_SEPARATOR, BucketKey, TableInfo
from tiering.model.upkeep import UpkeepOrder

NEWER_SHARE = 0.25
"""Share of a bucket's bytes in its newer runs from which on the whole bucket is compacted: at most four bytes are then written for each new
byte.
"""


@dataclass(frozen=True)
class _Work:
    """One piece of work. `gain`: how many fewer files or runs readers have to open. `files`: how many files it removes."""

    gain: int
    files: int
    size_bytes: int
    task: Callable[[], RewriteTask | None]


def plan_upkeep(state: TableState, table: TableInfo, view: LakeView, order: UpkeepOrder, living: Mapping[str, int]) -> UpkeepPlan:
    """Returns the plan. Implements `TableUpkeep.plan_upkeep`. Raises the errors of pypaimon and the storage."""
    loaded = cast(LoadedTable, view.handle)
    if not order.rewrite or loaded.head is None:
        return UpkeepPlan()
    buckets, files = _buckets(table, loaded, order, living)
    works, looked_at = _works(state, table, view, order, buckets)
    tasks: list[RewriteTask] = []
    budget, bytes_left, left_alone = order.budget_bytes, 0, files - looked_at
    for work in sorted(works, key=lambda work: -work.gain):
        if tasks and work.size_bytes > budget:
            bytes_left += work.size_bytes
            continue
        task = work.task()
        if task is None:
            left_alone += work.files
            continue
        budget -= work.size_bytes
        tasks.append(task)
    return UpkeepPlan(tuple(tasks), bytes_left, left_alone)


def _buckets(
    table: TableInfo, loaded: LoadedTable, order: UpkeepOrder, living: Mapping[str, int]
) -> tuple[dict[BucketKey, str | None], int]:
    """Returns the buckets of living partitions for which rounds wrote files, with their partitions' names, and the number of files in these
    partitions.
    """
    assert loaded.head is not None
    buckets: dict[BucketKey, str | None] = {}
    files: Counter[str | None] = Counter()
    for entry in Manifests(loaded).live_entries(loaded.head, drop_stats=True):
        name = PARTITION_SEPARATOR.join(str(value) for value in entry.partition.values) or None
        if table.partition_keys and (name not in living or (order.partitions is not None and name not in order.partitions)):
            continue
        files[name] += 1
        key = bucket_of_name(str(entry.file.file_name), is_partitioned=bool(table.partition_keys))
        if key is not None and (name is None or key.partition_id == living[name]):
            buckets[key] = name
    return buckets, files.total()


def _works(
    state: TableState, table: TableInfo, view: LakeView, order: UpkeepOrder, buckets: Mapping[BucketKey, str | None]
) -> tuple[list[_Work], int]:
    """Returns the pieces of work of all buckets, and the number of files that were considered for them."""
    works: list[_Work] = []
    looked_at = 0
    mergeable_files = MergeableFiles(state, table, view)
    for key, runs in ((key, runs) for key, separated in mergeable_files.by_bucket(buckets).items() for runs in separated):
        looked_at += sum(len(run.files) for run in runs)
        if state.primary_key:
            first = first_run_to_merge(runs, state.target_bytes, full=order.full)
            merged = [] if first is None else runs[first:]
            if merged:
                task = partial(mergeable_files.task, key, buckets[key], merged, is_all=first == 0)
                works.append(
                    _Work(max(1, len(merged) - 1), sum(len(run.files) for run in merged), sum(run.size_bytes for run in merged), task)
                )
            continue
        live_files = [LiveDataFile(run.size_bytes) for run in runs]
        for part in runs_to_rewrite(live_files, state.target_bytes, max(1, order.budget_bytes), full=order.full):
            task = partial(mergeable_files.task, key, buckets[key], runs[part.first : part.stop], is_all=False)
            works.append(_Work(part.files - part.outputs, part.files, part.size_bytes, task))
    return works, looked_at


def first_run_to_merge(runs: Sequence[SortedRun], target_bytes: int, *, full: bool) -> int | None:
    """Returns the position of the oldest run of a bucket that is merged with all newer ones; None = nothing is merged."""
    total = sum(run.size_bytes for run in runs)
    newer = total - runs[0].size_bytes
    if full:
        is_compact = len(runs) == 1 and runs[0].level > 0 and len(runs[0].files) <= outputs_of(total, target_bytes)
        return None if is_compact else 0
    if len(runs) < 2:
        return None
    if total < target_bytes or newer >= NEWER_SHARE * total:
        return 0
    return 1 if len(runs) > 2 else None


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
        for rewrite in rewrites:
            discard(state.storage, (state.root / file.path for file in decode_files(rewrite.payload).files))
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
    mergeable_files = MergeableFiles(state, table, view)
    for key, separated in mergeable_files.by_bucket(buckets).items():
        if is_over():
            return
        newest = separated[-1]
        first = first_to_merge([run.size_bytes for run in newest], state.target_bytes, budget_bytes)
        task = None if first is None else mergeable_files.task(key, buckets[key], newest[first:], is_all=first == 0)
        if task is not None:
            budget_bytes -= task.size_bytes
            yield task
