"""Finds the data files of a log table that may be rewritten: files of one bucket that rounds of Lakeward wrote, in offset order.

Their names contain the source's bucket, and their manifest entries the offsets of their rows.
"""

from __future__ import annotations

import pickle
from bisect import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
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
from tiering.lake.paimon.upkeep.merged_log_files import DataFile, LogRewrite, footer_of
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.tables import BucketKey, TableInfo


class LogFiles:
    """The data files of one log table that may be rewritten, in one view of it."""

    def __init__(self, state: TableState, table: TableInfo, view: LakeView) -> None:
        self._state = state
        self._table = table
        self._view = view
        self._loaded = cast(LoadedTable, view.handle)

    def by_bucket(self, buckets: Mapping[BucketKey, str | None]) -> dict[BucketKey, list[list[DataFile]]]:
        """Returns the files of `buckets` (with their partitions' names) in offset order; buckets without files are left out.

        Each list holds files that may be merged with each other. In a table with a bucket key, readers take the files of a bucket by their
        sequence numbers, so a file that is not merged, such as that of another writer, separates the lists. A bucket with overlapping
        offsets is left out too: another writer has doubled rows, and upkeep must not hide that.
        """
        if self._loaded.head is None or self._loaded.head.document.get("indexManifest") is not None:
            return {}  # index files may be deletion vectors, which refer to data files by name
        keys = self._state.partition_keys
        places: dict[Place, list[BucketKey]] = defaultdict(list)
        for key, name in buckets.items():
            values = partition_values(keys, self._state.columns, partition_texts(self._table, name))
            places[values, self._paimon_bucket(key)].append(key)
        manifests = Manifests(self._loaded)
        fitting, is_partitioned = fitting_schemas(self._loaded), bool(keys)
        files: dict[BucketKey, list[list[DataFile]]] = {}
        for place, state in manifests.buckets(places.keys()).items():
            entries = [entry for entry in state.entries if int(entry.file.schema_id) in fitting and not entry.file.external_path]
            for key in places[place]:
                own_files = [
                    data_file(manifests, entry)
                    for entry in entries
                    if bucket_of_name(str(entry.file.file_name), is_partitioned=is_partitioned) == key
                ]
                own_files.sort(key=lambda file: (file.first, file.last))
                if own_files and not any(before.last >= after.first for before, after in pairwise(own_files)):
                    files[key] = [own_files] if self._state.total_buckets == UNAWARE else _separated(own_files, state.entries)
        return files

    def task(self, key: BucketKey, partition_name: str | None, files: Sequence[DataFile]) -> RewriteTask | None:
        """Returns the task that rewrites `files`; None if a round of this table did not write one of them."""
        if not self._state.layout.has_row_offsets and not all(self._has_footer(key, file) for file in files):
            return None
        texts = partition_texts(self._table, partition_name)
        rewrite = LogRewrite(self._table, self._view.table_uuid, texts, self._paimon_bucket(key), tuple(files))
        size_bytes = sum(file.size_bytes for file in files)
        return RewriteTask(key, partition_name, pickle.dumps(rewrite), len(files), size_bytes, sum(file.rows for file in files))

    def _paimon_bucket(self, key: BucketKey) -> int:
        return 0 if self._state.total_buckets == UNAWARE else key.bucket_id

    def _has_footer(self, key: BucketKey, file: DataFile) -> bool:
        return footer_of(self._state, self._table, key, self._view.table_uuid, file) is not None


def _separated(files: Sequence[DataFile], entries: Sequence[Any]) -> list[list[DataFile]]:
    """`files` in their order, separated where the first row of another file of the bucket lies. `entries`: those of all its files."""
    names = {file.name for file in files}
    others = sorted(int(entry.file.min_sequence_number) for entry in entries if entry.file.file_name not in names)
    separated = [[files[0]]]
    for before, after in pairwise(files):
        if bisect(others, before.first) != bisect(others, after.first):
            separated.append([])
        separated[-1].append(after)
    return separated


def data_file(manifests: Manifests, entry: Any) -> DataFile:
    file = entry.file
    return DataFile(
        manifests.file_path(entry),
        int(file.file_size),
        int(file.row_count),
        int(file.min_sequence_number),
        int(file.max_sequence_number),
    )


def fitting_schemas(loaded: LoadedTable) -> set[int]:
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
