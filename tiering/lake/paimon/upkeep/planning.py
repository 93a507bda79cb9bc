"""Plans what rounds rewrite in a Paimon table: upkeep rounds (`TableUpkeep`), and rounds that add rows, which merge small files
(`FileMerging`).

Small files are the newest ones of a bucket. In a primary-key table their merge is a run of level 0, in which delete rows stay, unless all
runs are merged.

Upkeep of log tables: `rules.upkeep.rewrite_runs` over the files of a bucket in offset order. Upkeep of primary-key tables: if the newer
runs of a bucket have at least NEWER_SHARE of its bytes, the bucket is compacted into one run of the highest level. Otherwise only the newer
runs are merged with each other, so that few runs remain and the large one is not rewritten for a few rows.

File names contain the source's bucket, and manifest entries the range of sequence numbers, which in a log table are the offsets of the
rows. Each file of a log table is a run. In a bucket of a primary-key table each file of level 0 is a run, and the files of another level
are one run.
"""

from __future__ import annotations

import pickle
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, cast

import pyarrow as pa

from tiering.lake.base import FileRewrite, LakeView
from tiering.lake.maintenance import RewriteTask, UpkeepPlan
from tiering.lake.paimon.commit.manifests import Manifests, Place
from tiering.lake.paimon.reading.file_columns import FileColumns, can_convert
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.schema.layout import UNAWARE
from tiering.lake.paimon.schema.partitions import partition_texts, partition_values
from tiering.lake.paimon.storage.base import discard
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.rewriting import DataFile, Rewrite, own_footer, rewrite_files
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


NUM_LEVELS, COMPACTION_TRIGGER = "num-levels", "num-sorted-run.compaction-trigger"
DEFAULT_TRIGGER = 5
"""Paimon's default of COMPACTION_TRIGGER; the number of levels is one higher (`CoreOptions.numLevels`)."""


@dataclass(frozen=True)
class SortedRun:
    """The files of one run, in key order. In a log table a single file."""

    level: int
    files: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def first(self) -> int:
        """Returns the lowest sequence number."""
        return min(file.first for file in self.files)

    @property
    def last(self) -> int:
        return max(file.last for file in self.files)


class MergeableFiles:
    """The runs of one table that may be merged, in one view of it."""

    def __init__(self, state: TableState, table: TableInfo, view: LakeView) -> None:
        self._state = state
        self._table = table
        self._view = view
        self._loaded = cast(LoadedTable, view.handle)
        self._convertible = _convertible(self._loaded)

    def by_bucket(self, buckets: Mapping[BucketKey, str | None]) -> dict[BucketKey, list[list[SortedRun]]]:
        """Returns the runs of `buckets` (with their partitions' names), the oldest first; buckets without runs are left out.

        Each list holds runs that may be merged with each other. In a table with a bucket key, readers take the rows of a bucket by their
        sequence numbers, so a file that is not merged, such as that of another writer, separates the lists. A bucket with overlapping
        sequence numbers is left out too: another writer has doubled rows, and upkeep must not hide that. A bucket of a primary-key table is
        left out unless rounds wrote all its files.
        """
        if self._loaded.head is None or self._loaded.head.document.get("indexManifest") is not None:
            return {}  # index files may be deletion vectors, which refer to data files by name
        places: dict[Place, list[BucketKey]] = defaultdict(list)
        for key, name in buckets.items():
            values = partition_values(self._state.partition_keys, self._state.columns, partition_texts(self._table, name))
            places[values, self._paimon_bucket(key)].append(key)
        manifests = Manifests(self._loaded)
        runs: dict[BucketKey, list[list[SortedRun]]] = {}
        for place, state in manifests.buckets(places.keys()).items():
            for key in places[place]:
                own_entries = [entry for entry in state.entries if _may_be_merged(key, entry, self._convertible)]
                if self._state.primary_key and len(own_entries) < len(state.entries):
                    continue
                in_order = self._in_order(manifests, own_entries)
                if in_order:
                    runs[key] = [in_order] if self._state.total_buckets == UNAWARE else _separated(in_order, state.entries)
        return runs

    def task(self, key: BucketKey, partition_name: str | None, runs: Sequence[SortedRun], *, is_all: bool) -> RewriteTask | None:
        """Returns the task that merges the consecutive `runs`; None if a round of this table did not write one of their files.

        `is_all`: these are all runs of the bucket, so the new run of a primary-key table goes to the highest level.
        """
        texts = partition_texts(self._table, partition_name)
        drops_deletes = is_all and bool(self._state.primary_key)
        level = max([self._highest_level, *(run.level for run in runs)]) if drops_deletes else 0
        files = tuple(run.files for run in runs)
        schema_ids = {file.schema_id for run in files for file in run} - {self._loaded.schema.schema_id}
        stored = FileColumns({number: self._convertible[number] for number in schema_ids})
        work = Rewrite(self._table, self._view.table_uuid, texts, self._paimon_bucket(key), files, level, drops_deletes, stored)
        if not self._state.layout.has_row_offsets and any(own_footer(self._state, work, key, file) is None for file in work.files):
            return None
        size_bytes, records = sum(run.size_bytes for run in runs), sum(file.rows for file in work.files)
        return RewriteTask(key, partition_name, pickle.dumps(work), len(work.files), size_bytes, records)

    def _paimon_bucket(self, key: BucketKey) -> int:
        return 0 if self._state.total_buckets == UNAWARE else key.bucket_id

    @property
    def _highest_level(self) -> int:
        options = self._loaded.schema.options
        levels = options.get(NUM_LEVELS)
        return int(levels) - 1 if levels is not None else int(options.get(COMPACTION_TRIGGER, DEFAULT_TRIGGER))

    def _in_order(self, manifests: Manifests, entries: Sequence[Any]) -> list[SortedRun]:
        """Returns the runs, the oldest first; none if several rewrites wrote one of them, or if their sequence numbers overlap."""
        runs: list[SortedRun] = []
        levels: dict[int, list[DataFile]] = defaultdict(list)
        for entry in entries:
            if self._state.primary_key and entry.file.level > 0:
                levels[int(entry.file.level)].append(DataFile.of(entry, manifests.file_path(entry)))
            else:
                runs.append(SortedRun(0, (DataFile.of(entry, manifests.file_path(entry)),)))
        for level, files in levels.items():
            if len({file.name.rpartition("-")[0] for file in files}) > 1:
                return []
            runs.append(SortedRun(level, tuple(sorted(files, key=lambda file: file.name))))  # a rewrite numbers its files by key
        runs.sort(key=lambda run: (run.first, run.last))
        return [] if any(before.last >= after.first for before, after in pairwise(runs)) else runs


def _may_be_merged(key: BucketKey, entry: Any, convertible: Collection[int]) -> bool:
    written_for = bucket_of_name(str(entry.file.file_name), is_partitioned=key.partition_id is not None)
    return written_for == key and int(entry.file.schema_id) in convertible and not entry.file.external_path


def _separated(runs: Sequence[SortedRun], entries: Sequence[Any]) -> list[list[SortedRun]]:
    """Returns `runs` in their order, separated where the first row of another file of the bucket lies. `entries`: all its files."""
    names = {file.name for run in runs for file in run.files}
    others = sorted(int(entry.file.min_sequence_number) for entry in entries if entry.file.file_name not in names)
    separated = [[runs[0]]]
    for before, after in pairwise(runs):
        if bisect(others, before.first) != bisect(others, after.first):
            separated.append([])
        separated[-1].append(after)
    return separated


def _convertible(loaded: LoadedTable) -> Mapping[int, pa.Schema]:
    """Returns the columns of the schemas whose files can be rewritten with the present columns, by schema id."""
    versions = {number: loaded.schema.version(number) for number in loaded.schema.versions}
    columns = {number: schema.numbered_all for number, schema in versions.items() if schema is not None}
    return {number: former for number, former in columns.items() if can_convert(former, loaded.schema.numbered_all)}
