"""Which data files of a log table may be rewritten: those of one bucket that rounds of Lakeward wrote, in the order of their offsets.

Their names tell the source's bucket, and their manifest entries the offsets of their rows.
"""

from __future__ import annotations

import pickle
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
from tiering.lake.paimon.upkeep.merged_log_files import LogFile, LogRewrite, footer_of
from tiering.model.tables import BucketKey, TableInfo


class LogFiles:
    """The data files of one log table that may be rewritten, at one view of it."""

    def __init__(self, state: TableState, table: TableInfo, view: LakeView) -> None:
        self._state = state
        self._table = table
        self._view = view
        self._loaded = cast(LoadedTable, view.handle)

    def by_bucket(self, buckets: Mapping[BucketKey, str | None]) -> dict[BucketKey, list[LogFile]]:
        """The files of `buckets`, whose partitions' names are given, in the order of their offsets; buckets with none are left out.

        A bucket with files whose offsets overlap is left out, too: somebody doubled rows, and nothing hides that.
        """
        if self._loaded.head is None or self._loaded.head.document.get("indexManifest") is not None:
            return {}  # index files may be deletion vectors, which name the files that they are for
        keys = self._state.partition_keys
        places: dict[Place, list[BucketKey]] = defaultdict(list)
        for key, name in buckets.items():
            values = partition_values(keys, self._state.columns, partition_texts(self._table, name))
            places[values, self._paimon_bucket(key)].append(key)
        manifests = Manifests(self._loaded)
        fitting = self._fitting_schemas()
        files: dict[BucketKey, list[LogFile]] = {}
        for place, state in manifests.buckets(places.keys()).items():
            entries = [entry for entry in state.entries if int(entry.file.schema_id) in fitting and not entry.file.external_path]
            for key in places[place]:
                mine = [_log_file(manifests, entry) for entry in entries if is_of_bucket(key, str(entry.file.file_name))]
                mine.sort(key=lambda file: (file.first, file.last))
                if mine and not any(before.last >= after.first for before, after in pairwise(mine)):
                    files[key] = mine
        return files

    def task(self, key: BucketKey, partition_name: str | None, files: Sequence[LogFile]) -> RewriteTask | None:
        """The task that rewrites `files`; None if one of them is not as a round of this table wrote it."""
        if not self._state.layout.has_row_offsets and not all(self._has_footer(key, file) for file in files):
            return None
        texts = partition_texts(self._table, partition_name)
        rewrite = LogRewrite(self._table, self._view.table_uuid, texts, self._paimon_bucket(key), tuple(files))
        size_bytes = sum(file.size_bytes for file in files)
        return RewriteTask(key, partition_name, pickle.dumps(rewrite), len(files), size_bytes)

    def _paimon_bucket(self, key: BucketKey) -> int:
        return 0 if self._state.total_buckets == UNAWARE else key.bucket_id

    def _has_footer(self, key: BucketKey, file: LogFile) -> bool:
        return footer_of(self._state, self._table, key, self._view.table_uuid, file) is not None

    def _fitting_schemas(self) -> set[int]:
        """Ids of the schemas whose columns are columns of now, with the same types."""
        now, fitting = self._loaded.schema, set[int]()
        with opened_table(self._loaded) as folder:
            for schema_id in range(now.schema_id + 1):
                schema = now if schema_id == now.schema_id else read_schema(folder, schema_id)
                if schema is not None and all(
                    now.field_ids.get(column.name) == schema.field_ids[column.name] and now.columns.field(column.name).type == column.type
                    for column in schema.columns
                ):
                    fitting.add(schema_id)
        return fitting


def is_of_bucket(key: BucketKey, name: str) -> bool:
    """Whether a round wrote the file for this bucket of the source, as its name says (`writing.naming.file_prefix`)."""
    prefix, _, number = name.removesuffix(".parquet").rpartition("-")
    partition = "" if key.partition_id is None else f"{key.partition_id}-"
    return (
        name.startswith("lakeward-") and name.endswith(".parquet") and number.isdigit() and prefix.endswith(f"-{partition}{key.bucket_id}")
    )


def _log_file(manifests: Manifests, entry: Any) -> LogFile:
    file = entry.file
    return LogFile(
        manifests.file_path(entry),
        int(file.file_size),
        int(file.row_count),
        int(file.min_sequence_number),
        int(file.max_sequence_number),
    )
