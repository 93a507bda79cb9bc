"""Merges the newest small data files of a log table's buckets in a round that adds rows to them.

The files are selected by `rules.upkeep.small_files` and rewritten like those of an upkeep round (`file_rewriter`). Only files of Lakeward's
rounds are merged, and only in partitions without deleted rows, because a round has no time to read the deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from tiering.lake.base import Committable, FileRewrite, LakeView
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.factory import IcebergTieringFactory
from tiering.lake.iceberg.schema.partition_values import file_place
from tiering.lake.iceberg.upkeep.live_files import PartitionFiles, read_live_files
from tiering.lake.iceberg.upkeep.planning import in_offset_order, oldest_first, ordered_files, rewrite_task
from tiering.lake.rules.upkeep.small_files import first_to_merge
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.tables import BucketKey, TableInfo


class SmallLogFiles:
    """The small files of one log table at one view of it."""

    def __init__(self, factory: IcebergTieringFactory, table: TableInfo, view: LakeView, round_id: str) -> None:
        self._factory = factory
        self._table = table
        self._view = view
        self._loaded = cast(Table, view.handle)
        self._round_id = round_id

    def merged(
        self, buckets: Mapping[BucketKey, str | None], new_nonce: Callable[[], str], budget_bytes: int, is_over: Callable[[], bool]
    ) -> list[FileRewrite]:
        """Merges the files (`FileMerging.merge_small_files`). After an error, all files that were written are deleted."""
        rewrites: list[FileRewrite] = []
        try:
            with lake_errors(f"merge small files of {self._view.path}", table_path=self._view.path):
                for key, partition in self._partitions(buckets):
                    if is_over():
                        break
                    files = self._files_to_merge(key, partition, budget_bytes)
                    if files:
                        task = rewrite_task(self._table, self._view, key, partition, files)
                        budget_bytes -= task.size_bytes
                        rewrites.append(self._factory.rewrite(task, self._round_id, new_nonce(), lambda rows: False))
            return rewrites
        except BaseException:
            self._factory.create_committer().abort(Committable(self._round_id, (), tuple(rewrites)))
            raise

    def _partitions(self, buckets: Mapping[BucketKey, str | None]) -> list[tuple[BucketKey, PartitionFiles]]:
        """Returns the files of each bucket's partition. Partitions with deleted rows are left out."""
        schema = self._loaded.schema()
        places = {key: file_place(self._table, key, name, schema).partition for key, name in buckets.items()}
        files = read_live_files(self._table, self._loaded, self._view.head, {}, set(places.values()))
        if files.has_global_deletes:
            return []
        partitions = ((key, files.partitions.get(partition)) for key, partition in places.items())
        return [(key, files) for key, files in partitions if files is not None and not files.deletes and not files.equality_deletes]

    def _files_to_merge(self, key: BucketKey, partition: PartitionFiles, budget_bytes: int) -> Sequence[DataFile]:
        """Returns the newest small files of the bucket to merge, in the order of their offsets; none if their offsets overlap."""
        entries = sorted(partition.buckets.get(key, ()), key=oldest_first)
        files = [entry.file for entry in entries if self._is_ours(entry.file)]
        first = first_to_merge([file.file_size_in_bytes for file in files], self._factory.target_bytes, budget_bytes)
        if first is None:
            return ()
        ordered, overlapping = in_offset_order(ordered_files(self._table, self._view, key, files[first:]))
        return () if overlapping or len(ordered) < len(files) - first else ordered

    def _is_ours(self, file: DataFile) -> bool:
        return bucket_of_name(file.file_path.rpartition("/")[2], is_partitioned=bool(self._table.partition_keys)) is not None
