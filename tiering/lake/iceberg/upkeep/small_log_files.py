"""Merges small data files of log tables: the rows of several files of one bucket become one file, in the order of their offsets.

Only files that rounds of Lakeward wrote are merged, and only where no row of the table is deleted. In a clean table the footer of the new
file names the offsets of all of its rows, and their checksum has to be the sum of the checksums that the old footers name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent
from pyiceberg.table import Table
from pyiceberg.types import LongType

from tiering.errors import DataCorrupt
from tiering.lake.base import FileRewrite, LakeView, WriterInitContext
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.factory import IcebergTieringFactory
from tiering.lake.iceberg.primary_key.bucket_files import LiveFile, partition_of
from tiering.lake.iceberg.primary_key.file_check import is_live
from tiering.lake.iceberg.primary_key.parquet_files import open_parquet, whole_rows
from tiering.lake.iceberg.reading.file_footers import read_footer
from tiering.lake.iceberg.schema.layout import layout_of_schema
from tiering.lake.iceberg.schema.partition_values import FilePlace, PartitionValue, file_place
from tiering.lake.iceberg.writing.data_files import BucketChange, encode_files
from tiering.lake.iceberg.writing.writer import RowFiles
from tiering.lake.outside_errors import DAMAGED_HINT
from tiering.lake.proof.file_footer import Run, sum_of
from tiering.lake.rules.upkeep.small_files import first_to_merge
from tiering.lake.writing.fitting import fit
from tiering.model.tables import OFFSET_COLUMN, BucketKey, TableInfo


@dataclass(frozen=True)
class _Bucket:
    """One bucket whose files are merged in a round: its name in paths, and a nonce for the names of new files."""

    key: BucketKey
    partition_name: str | None
    place: FilePlace
    nonce: str


@dataclass(frozen=True)
class _OrderedFile:
    """A file and the offsets of its rows, in order. `checksum` None: the table has a column for the offsets, and no footers."""

    file: DataFile
    runs: tuple[Run, ...]
    checksum: int | None


class SmallLogFiles:
    """The small files of one log table at one view of it."""

    def __init__(self, factory: IcebergTieringFactory, table: TableInfo, view: LakeView, round_id: str) -> None:
        self._factory = factory
        self._table = table
        self._view = view
        self._loaded = cast(Table, view.handle)
        self._round_id = round_id
        self._has_footers = not layout_of_schema(self._loaded.schema()).has_row_offsets
        self._written: list[RowFiles] = []

    def merged(self, buckets: Mapping[BucketKey, str | None], new_nonce: Callable[[], str], budget_bytes: int) -> list[FileRewrite]:
        """See `FileMerging.merge_small_files`. What was written is deleted again if not all can be."""
        try:
            with lake_errors(f"merge small files of {self._view.path}", table_path=self._view.path):
                return self._rewrites(buckets, new_nonce, budget_bytes)
        except BaseException:
            for files in self._written:
                files.abort()
            raise

    def _rewrites(self, buckets: Mapping[BucketKey, str | None], new_nonce: Callable[[], str], budget_bytes: int) -> list[FileRewrite]:
        schema = self._loaded.schema()
        places = {key: file_place(self._table, key, name, schema) for key, name in buckets.items()}
        rewrites: list[FileRewrite] = []
        by_partition = self._files_of({place.partition for place in places.values()})
        for key, place in places.items():
            group = self._group(key, by_partition.get(place.partition, []), budget_bytes)
            if group:
                budget_bytes -= sum(entry.file.file_size_in_bytes for entry in group)
                rewrites.append(self._rewrite(_Bucket(key, buckets[key], place, new_nonce()), group))
        return rewrites

    def _files_of(self, partitions: set[PartitionValue]) -> dict[PartitionValue, list[DataFile]]:
        """The data files of these partition values, oldest first; none if rows of the table are deleted, or files are unusual."""
        snapshot = None if self._view.head is None else self._loaded.metadata.snapshot_by_id(self._view.head)
        files: dict[PartitionValue, list[tuple[int, DataFile]]] = defaultdict(list)
        for manifest in () if snapshot is None else snapshot.manifests(self._loaded.io):
            if not is_live(manifest):
                continue
            if manifest.content is ManifestContent.DELETES or manifest.partition_spec_id != self._loaded.metadata.default_spec_id:
                return {}
            for entry in manifest.fetch_manifest_entry(self._loaded.io):
                partition = partition_of(entry.data_file)
                if partition in partitions:
                    files[partition].append((entry.sequence_number or 0, entry.data_file))
        return {partition: [file for _, file in sorted(entries, key=_age)] for partition, entries in files.items()}

    def _group(self, key: BucketKey, candidates: Sequence[DataFile], budget_bytes: int) -> list[_OrderedFile]:
        """The newest small files of the bucket that are merged, in the order of their offsets; none where their offsets overlap."""
        mine = [file for file in candidates if _is_of_bucket(key, file.file_path) and file.file_format is FileFormat.PARQUET]
        first = first_to_merge([file.file_size_in_bytes for file in mine], self._factory.target_bytes, budget_bytes)
        if first is None:
            return []
        ordered = [entry for file in mine[first:] if (entry := self._ordered(key, file)) is not None]
        group = sorted(ordered, key=lambda entry: entry.runs)
        overlap = any(before.runs[-1][1] > after.runs[0][0] for before, after in pairwise(group))
        return [] if overlap or len(group) < len(mine) - first else group

    def _ordered(self, key: BucketKey, file: DataFile) -> _OrderedFile | None:
        """The file with its offsets; None for one that no round of this table wrote for this bucket, or without rows."""
        if not self._has_footers:
            offset_id = self._loaded.schema().find_field(OFFSET_COLUMN).field_id
            low, high = (file.lower_bounds or {}).get(offset_id), (file.upper_bounds or {}).get(offset_id)
            if low is None or high is None:
                return None
            return _OrderedFile(file, ((_offset(low), _offset(high) + 1),), None)
        footer = read_footer(self._loaded.io, file)
        if footer is None or not footer.runs or (footer.table_id, footer.bucket) != (self._table.table_id, key):
            return None
        return _OrderedFile(file, footer.runs, footer.checksum) if footer.lake_table_uuid == self._view.table_uuid else None

    def _rewrite(self, bucket: _Bucket, group: Sequence[_OrderedFile]) -> FileRewrite:
        context = WriterInitContext(self._table, self._view.table_uuid, bucket.key, bucket.partition_name, self._round_id, bucket.nonce)
        files = self._factory.row_files(context, bucket.place.partition)
        self._written.append(files)
        for entry in group:
            self._copy(entry, files)
        merged = files.close()
        self._check(group, files, merged)
        obsolete = tuple(entry.file.file_path for entry in group)
        change = BucketChange(bucket.place.partition, self._view.head, "", True, obsolete, bucket.place.bucket)
        return FileRewrite(
            bucket=bucket.key,
            payload=encode_files(replace(files.payload(merged), change=change)),
            files_before=len(group),
            files_after=len(merged),
            bytes_before=sum(entry.file.file_size_in_bytes for entry in group),
            bytes_after=sum(file.file_size_in_bytes for file in merged),
        )

    def _copy(self, entry: _OrderedFile, files: RowFiles) -> None:
        """Adds the rows of a file. Raises DataCorrupt, LakeUnavailable."""
        file = entry.file
        if files.provenance is not None:
            files.provenance.take_offsets(np.concatenate([np.arange(start, stop) for start, stop in entry.runs]))
        with open_parquet(self._loaded.io, LiveFile(file.file_path, file.record_count, file.file_size_in_bytes)) as parquet:
            for batch in whole_rows(parquet, self._loaded.schema()):
                files.add(fit(batch, files.schema))

    def _check(self, group: Sequence[_OrderedFile], files: RowFiles, merged: Sequence[DataFile]) -> None:
        """Raises DataCorrupt if the new files do not have the rows that the old ones are said to have."""
        rows, written = sum(entry.file.record_count for entry in group), sum(file.record_count for file in merged)
        expected = sum_of(entry.checksum or 0 for entry in group)
        if rows == written and (files.provenance is None or files.provenance.checksum == expected):
            return
        raise DataCorrupt(
            f"{len(group)} files of {self._view.path} were read to merge them, and their rows do not have the checksum of their footers; "
            f"the first file is {group[0].file.file_path}",
            hint=DAMAGED_HINT,
            table_path=self._view.path,
            lake_file=group[0].file.file_path,
        )


def _is_of_bucket(key: BucketKey, location: str) -> bool:
    """Whether a round wrote the file for this bucket, as its name says (`writing.naming.file_prefix`, `RowFiles.new_location`)."""
    name = location.rsplit("/", 1)[-1]
    prefix, _, number = name.removesuffix(".parquet").rpartition("-")
    partition = "" if key.partition_id is None else f"{key.partition_id}-"
    return name.startswith("lakeward-") and number.isdigit() and prefix.endswith(f"-{partition}{key.bucket_id}")


def _offset(bound: bytes) -> int:
    return cast(int, from_bytes(LongType(), bound))


def _age(entry: tuple[int, DataFile]) -> tuple[int, int]:
    """Oldest first. Of one commit the larger file comes first: the one that took the place of older files."""
    sequence_number, file = entry
    return sequence_number, -file.file_size_in_bytes
