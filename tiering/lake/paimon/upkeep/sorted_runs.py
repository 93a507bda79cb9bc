"""Finds the sorted runs in the buckets of a primary-key table, and which of them may be merged.

In a bucket each file of level 0 is a separate sorted run, and the files of another level are one run. A bucket is used only if rounds of
Lakeward wrote all its files for this bucket, and its runs follow each other in sequence numbers.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from tiering.lake.base import LakeView
from tiering.lake.maintenance import RewriteTask
from tiering.lake.paimon.commit.manifests import Manifests, Place
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.schema.partitions import partition_texts, partition_values
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.log_files import data_file, fitting_schemas
from tiering.lake.paimon.upkeep.merged_log_files import DataFile
from tiering.lake.paimon.upkeep.merged_sorted_runs import RunRewrite, footer_of_run
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.tables import BucketKey, TableInfo

NUM_LEVELS, COMPACTION_TRIGGER = "num-levels", "num-sorted-run.compaction-trigger"
DEFAULT_TRIGGER = 5
"""Paimon's default of COMPACTION_TRIGGER; the number of levels is one higher (`CoreOptions.numLevels`)."""


@dataclass(frozen=True)
class SortedRun:
    """The files of one run, in key order."""

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


class SortedRuns:
    """The runs of one primary-key table that may be merged, in one view of it."""

    def __init__(self, state: TableState, table: TableInfo, view: LakeView) -> None:
        self._state = state
        self._table = table
        self._view = view
        self._loaded = cast(LoadedTable, view.handle)

    def by_bucket(self, buckets: Mapping[BucketKey, str | None]) -> dict[BucketKey, list[SortedRun]]:
        """Returns the runs of `buckets`, the oldest first; buckets that may not be changed are left out."""
        if self._loaded.head is None or self._loaded.head.document.get("indexManifest") is not None:
            return {}  # index files may be deletion vectors, which refer to data files by name
        keys = self._state.partition_keys
        places: dict[Place, BucketKey] = {}
        for key, name in buckets.items():
            values = partition_values(keys, self._state.columns, partition_texts(self._table, name))
            places[values, key.bucket_id] = key
        manifests, fitting = Manifests(self._loaded), fitting_schemas(self._loaded)
        runs: dict[BucketKey, list[SortedRun]] = {}
        for place, state in manifests.buckets(places.keys()).items():
            key = places[place]
            if all(_may_be_merged(key, entry, fitting) for entry in state.entries):
                in_order = _runs(manifests, state.entries)
                if in_order is not None:
                    runs[key] = in_order
        return runs

    def task(self, key: BucketKey, partition_name: str | None, runs: Sequence[SortedRun], *, is_all: bool) -> RewriteTask | None:
        """Returns the task that merges the consecutive `runs`; None if a round of this table did not write one of their files.

        `is_all`: these are all runs of the bucket, so the new run goes to the highest level.
        """
        texts = partition_texts(self._table, partition_name)
        level = max([self._highest_level, *(run.level for run in runs)]) if is_all else 0
        files = tuple(run.files for run in runs)
        work = RunRewrite(self._table, self._view.table_uuid, texts, key.bucket_id, files, level, drops_deletes=is_all)
        if not self._state.layout.has_row_offsets and any(footer_of_run(self._state, work, key, file) is None for file in work.files):
            return None
        size_bytes, records = sum(run.size_bytes for run in runs), sum(file.rows for file in work.files)
        return RewriteTask(key, partition_name, pickle.dumps(work), len(work.files), size_bytes, records)

    @property
    def _highest_level(self) -> int:
        options = self._loaded.schema.options
        levels = options.get(NUM_LEVELS)
        return int(levels) - 1 if levels is not None else int(options.get(COMPACTION_TRIGGER, DEFAULT_TRIGGER))


def _may_be_merged(key: BucketKey, entry: Any, fitting: set[int]) -> bool:
    written_for = bucket_of_name(str(entry.file.file_name), is_partitioned=key.partition_id is not None)
    return written_for == key and int(entry.file.schema_id) in fitting and not entry.file.external_path


def _runs(manifests: Manifests, entries: Sequence[Any]) -> list[SortedRun] | None:
    """Returns the runs, the oldest first; None if several rewrites wrote one of them, or if their sequence numbers overlap."""
    levels: dict[int, list[DataFile]] = defaultdict(list)
    for entry in entries:
        levels[int(entry.file.level)].append(data_file(manifests, entry))
    runs = [SortedRun(0, (file,)) for file in levels.pop(0, [])]
    for level, files in levels.items():
        if len({file.name.rpartition("-")[0] for file in files}) > 1:
            return None
        runs.append(SortedRun(level, tuple(sorted(files, key=lambda file: file.name))))  # a rewrite numbers its files by key
    runs.sort(key=lambda run: (run.first, run.last))
    return None if any(before.last >= after.first for before, after in pairwise(runs)) else runs
