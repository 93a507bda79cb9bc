"""Finds the data files that may be rewritten: sorted runs of one bucket that rounds of Lakeward wrote, the oldest first.

File names contain the source's bucket, and manifest entries the range of sequence numbers, which in a log table are the offsets of the
rows. Each file of a log table is a run. In a bucket of a primary-key table each file of level 0 is a run, and the files of another level
are one run.
"""

from __future__ import annotations

import pickle
from bisect import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from tiering.lake.base import LakeView
from tiering.lake.maintenance import RewriteTask
from tiering.lake.paimon.commit.manifests import Manifests, Place
from tiering.lake.paimon.reading.loading import LoadedTable, opened_table
from tiering.lake.paimon.schema.layout import UNAWARE
from tiering.lake.paimon.schema.partitions import partition_texts, partition_values
from tiering.lake.paimon.schema.stored_schema import read_schema
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.rewriting import DataFile, Rewrite, own_footer
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.tables import BucketKey, TableInfo

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
        manifests, fitting = Manifests(self._loaded), _fitting_schemas(self._loaded)
        runs: dict[BucketKey, list[list[SortedRun]]] = {}
        for place, state in manifests.buckets(places.keys()).items():
            for key in places[place]:
                own_entries = [entry for entry in state.entries if _may_be_merged(key, entry, fitting)]
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
        work = Rewrite(self._table, self._view.table_uuid, texts, self._paimon_bucket(key), files, level, drops_deletes)
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
                levels[int(entry.file.level)].append(_data_file(manifests, entry))
            else:
                runs.append(SortedRun(0, (_data_file(manifests, entry),)))
        for level, files in levels.items():
            if len({file.name.rpartition("-")[0] for file in files}) > 1:
                return []
            runs.append(SortedRun(level, tuple(sorted(files, key=lambda file: file.name))))  # a rewrite numbers its files by key
        runs.sort(key=lambda run: (run.first, run.last))
        return [] if any(before.last >= after.first for before, after in pairwise(runs)) else runs


def _may_be_merged(key: BucketKey, entry: Any, fitting: set[int]) -> bool:
    written_for = bucket_of_name(str(entry.file.file_name), is_partitioned=key.partition_id is not None)
    return written_for == key and int(entry.file.schema_id) in fitting and not entry.file.external_path


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


def _data_file(manifests: Manifests, entry: Any) -> DataFile:
    file, path = entry.file, manifests.file_path(entry)
    return DataFile(path, int(file.file_size), int(file.row_count), int(file.min_sequence_number), int(file.max_sequence_number))


def _fitting_schemas(loaded: LoadedTable) -> set[int]:
    """Returns the ids of the schemas whose columns all exist at present with the same types. Raises the errors of the storage."""
    now, fitting = loaded.schema, set[int]()
    with opened_table(loaded) as folder:
        for schema_id in range(now.schema_id + 1):
            schema = now if schema_id == now.schema_id else read_schema(folder, schema_id)
            if schema is not None and all(
                now.field_ids.get(column.name) == schema.field_ids[column.name] and now.columns.field(column.name).type == column.type
                for column in schema.columns
            ):
                fitting.add(schema_id)
    return fitting
