"""Files of one round of Fluss's own tiering in a real Paimon table: rows of a log table, or changes of a primary-key table.

As its writers of 0.9.1 and 1.0 do by Paimon's (`AppendOnlyWriter`, `MergeTreeWriter`): a primary-key table gets sorted runs with the last
change of each key, a delete too, and files of all changes beside them. Each time that its memory is full it writes such a run. Sequence
numbers go on behind those that stood in the bucket when it began to write.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tiering.lake.base import FLUSS_COMMIT_USER, LakeView
from tiering.lake.paimon.commit.committer import publish
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.schema.partitions import bucket_folder
from tiering.lake.paimon.writing.parquet_files import FilePlace
from tiering.lake.paimon.writing.payload import FilesPayload, WrittenFile
from tiering.lake.paimon.writing.sorted_files import ROW_KINDS, SortedFiles
from tiering.model.tables import PARTITION_SEPARATOR, BucketKey, ChangeType, TableInfo, TableType

RUNS = 2
"""How many times the memory of a writer fills up."""


class FlinkPaimonFiles:
    """A writer that begins at the head that `view` shows."""

    def __init__(self, table: TableInfo, view: LakeView) -> None:
        self._table = table
        loaded = _loaded(view)
        self._columns = loaded.schema.columns
        self._is_unaware = loaded.schema.options["bucket"] == "-1"
        self.follows = loaded.schema.options.get("changelog-producer") == "input"
        standing = [] if loaded.head is None else Manifests(loaded).live_entries(loaded.head)
        self._sequences = {
            bucket: max((entry.file.max_sequence_number for entry in standing if entry.bucket == bucket), default=-1) + 1
            for bucket in range(table.bucket_count)
        }
        """By bucket, behind all that stands in the buckets of that number, whichever their partition."""
        self._names: Mapping[int, str] = {}

    def commit(
        self, view: LakeView, changes: Mapping[BucketKey, pa.Table], properties: dict[str, str], names: Mapping[int, str] | None = None
    ) -> int:
        """Changes as a split reader gives them, by bucket, on the head that `view` shows; the id of the new snapshot."""
        loaded, self._names = _loaded(view), names or {}
        payloads = [self._payload(loaded, bucket, rows) for bucket, rows in changes.items()]
        lists = Manifests(loaded).write(f"flink-{uuid.uuid4()}", payloads)
        before = {} if loaded.head is None else loaded.head.document
        number = 1 if loaded.head is None else loaded.head.snapshot_id + 1
        followed = {"changelogManifestList": lists.changelog[0], "changelogRecordCount": lists.changelog_records} if lists.changelog else {}
        document = {
            "version": 3,
            "id": number,
            "schemaId": loaded.schema.schema_id,
            "baseManifestList": lists.base[0],
            "deltaManifestList": lists.delta[0],
            **followed,
            "commitUser": FLUSS_COMMIT_USER,
            "commitIdentifier": 2**63 - 1,
            "commitKind": "APPEND",
            "timeMillis": int(time.time() * 1_000),
            "totalRecordCount": int(before.get("totalRecordCount") or 0) + lists.added_records,
            "deltaRecordCount": lists.added_records,
            "properties": properties,
        }
        publish(loaded, number, json.dumps(document).encode())
        return number

    def _payload(self, loaded: LoadedTable, bucket: BucketKey, changes: pa.Table) -> FilesPayload:
        place = 0 if self._is_unaware else bucket.bucket_id
        write = self._rows if self._table.table_type is TableType.LOG else self._runs
        texts = tuple(self._names[bucket.partition_id].split(PARTITION_SEPARATOR)) if bucket.partition_id in self._names else ()
        folder = bucket_folder(self._table.partition_keys, texts, place)
        files = write(loaded, place, folder, changes) if changes.num_rows else ()
        total = -1 if self._is_unaware else self._table.bucket_count
        return FilesPayload(loaded.uuid, loaded.schema.schema_id, texts, place, total, files)

    def _rows(self, loaded: LoadedTable, place: int, folder: str, changes: pa.Table) -> tuple[WrittenFile, ...]:
        name = f"data-{uuid.uuid4()}-0.parquet"
        (loaded.root / folder).mkdir(parents=True, exist_ok=True)
        rows = changes.select(self._columns.names).cast(self._columns)
        pq.write_table(rows, loaded.root / folder / name)
        size = (loaded.root / folder / name).stat().st_size
        return (WrittenFile(folder, name, size, rows.num_rows, 0, rows.num_rows - 1),)

    def _runs(self, loaded: LoadedTable, place: int, folder: str, changes: pa.Table) -> tuple[WrittenFile, ...]:
        at = FilePlace(self._table.path, loaded.root, folder, f"data-{uuid.uuid4()}")
        files = SortedFiles(at, self._columns, self._table.primary_key)
        rows = changes.select(self._columns.names).cast(self._columns)
        kinds = np.array([ROW_KINDS[ChangeType(kind)] for kind in changes["__change_type"].to_pylist()], np.int8)
        keys = changes.select(list(self._table.primary_key)).to_pylist()
        sequences = np.arange(changes.num_rows) + self._sequences[place]
        for part in np.array_split(np.arange(changes.num_rows), RUNS):
            newest = {tuple(keys[index].values()): index for index in part}
            for places, is_changelog in ((sorted(newest.values()), False), (part, True)):
                if len(places) and (self.follows or not is_changelog):
                    files.add(rows.take(pa.array(places)), sequences[places], kinds[places], is_changelog=is_changelog)
        return files.close()


def _loaded(view: LakeView) -> LoadedTable:
    return cast(LoadedTable, view.handle)
