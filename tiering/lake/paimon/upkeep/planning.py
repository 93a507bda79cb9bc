"""Plans what an upkeep round rewrites in a Paimon table (`TableUpkeep.plan_upkeep`).

Log tables: `rules.upkeep.rewrite_runs` over the files of a bucket in offset order. Primary-key tables: if the newer runs of a bucket have
at least NEWER_SHARE of its bytes, the bucket is compacted into one run of the highest level. Otherwise only the newer runs are merged with
each other, so that few runs remain and the large one is not rewritten for a few rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from tiering.lake.base import LakeView
from tiering.lake.maintenance import RewriteTask, UpkeepPlan
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.schema.partitions import VALUE_SEPARATOR
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.log_files import LogFiles
from tiering.lake.paimon.upkeep.sorted_runs import SortedRun, SortedRuns
from tiering.lake.rules.upkeep.rewrite_runs import LiveDataFile, outputs_of, runs_to_rewrite
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.tables import BucketKey, TableInfo
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
        name = VALUE_SEPARATOR.join(str(value) for value in entry.partition.values) or None
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
    if state.primary_key:
        sorted_runs = SortedRuns(state, table, view)
        for key, runs in sorted_runs.by_bucket(buckets).items():
            looked_at += sum(len(run.files) for run in runs)
            works.extend(_keyed_works(sorted_runs, key, buckets[key], runs, state.target_bytes, full=order.full))
        return works, looked_at
    log_files = LogFiles(state, table, view)
    for key, files in ((key, files) for key, separated in log_files.by_bucket(buckets).items() for files in separated):
        looked_at += len(files)
        standing = [LiveDataFile(file.size_bytes) for file in files]
        for run in runs_to_rewrite(standing, state.target_bytes, max(1, order.budget_bytes), full=order.full):
            task = partial(log_files.task, key, buckets[key], files[run.first : run.stop])
            works.append(_Work(run.files - run.outputs, run.files, run.size_bytes, task))
    return works, looked_at


def _keyed_works(
    sorted_runs: SortedRuns, key: BucketKey, partition_name: str | None, runs: Sequence[SortedRun], target_bytes: int, *, full: bool
) -> Iterator[_Work]:
    first = first_run_to_merge(runs, target_bytes, full=full)
    if first is None:
        return
    merged = runs[first:]
    task = partial(sorted_runs.task, key, partition_name, merged, is_all=first == 0)
    files = sum(len(run.files) for run in merged)
    yield _Work(max(1, len(merged) - 1), files, sum(run.size_bytes for run in merged), task)


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
