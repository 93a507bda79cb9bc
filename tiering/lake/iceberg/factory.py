"""The `LakeTieringFactory` for Iceberg. It makes writers in any process, and committers only in the process that made the factory.

It carries what a writer needs of the table (schema, partition spec, location, properties) and the settings of the storage, so executors
never open the catalog. The catalog and its settings, including passwords, stay on the driver.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IcebergType

from tiering.clock import Clock, SystemClock
from tiering.errors import InvalidArgument, LakeTableReplaced
from tiering.lake.base import FileRewrite, LakeWriter, WriterInitContext
from tiering.lake.iceberg.catalogs.file_io import LakeFileIO
from tiering.lake.iceberg.commit.committer import IcebergCommitter
from tiering.lake.iceberg.commit.upkeep import UpkeepPauses
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.writer import PrimaryKeyWriter
from tiering.lake.iceberg.schema.layout import bucket_keys, target_file_bytes
from tiering.lake.iceberg.schema.partition_values import PartitionItem, PartitionValue, file_place
from tiering.lake.iceberg.schema.types import arrow_type
from tiering.lake.iceberg.upkeep.file_rewriter import JOBS, rewrite_files
from tiering.lake.iceberg.writing.partitioned_files import PartitionedFiles
from tiering.lake.iceberg.writing.writer import RowFiles, TableState, log_writer
from tiering.lake.maintenance import RewriteTask
from tiering.lake.rules.hints import replaced_hint
from tiering.lake.writing.parquet_stream import LogFiles
from tiering.lake.writing.row_guard import ChangeGuard, RowGuard, RowPlaces
from tiering.lake.writing.sent_rounds import SentRounds
from tiering.library_guards.bucket_hash import bucket_ids_of, combined_bucket_ids
from tiering.model.tables import TableInfo, TableType
from tiering.redaction.redact import remember_secrets

NO_LIMIT = 1 << 62
"""Size limit in bytes of a file that ends only with its rows."""


@dataclass(frozen=True)
class IcebergTieringFactory:
    """A `LakeTieringFactory`. A pickled factory is without `catalog` and `clock`. Implements `FileRewriter`."""

    state: TableState
    table: TableInfo = field(compare=False, repr=False)
    catalog: Catalog | None = field(compare=False, repr=False)
    sent: SentRounds = field(compare=False, repr=False)
    clock: Clock = field(default_factory=SystemClock, compare=False, repr=False)
    pauses: UpkeepPauses = field(default_factory=UpkeepPauses, compare=False, repr=False)

    def __reduce__(self) -> tuple[object, tuple[TableState, TableInfo]]:
        return _unpickled, (self.state, self.table)

    def create_writer(self, context: WriterInitContext) -> LakeWriter:
        """Returns a writer of one split. Raises LakeTableReplaced, InvalidData (a partition's name) or LakeUnavailable."""
        state = self.state
        if context.lake_table_uuid != state.table_uuid:
            raise LakeTableReplaced(
                f"the lake table {context.table.path} is {state.table_uuid}; this round was planned for {context.lake_table_uuid}",
                hint=replaced_hint(context.table.path),
                table_path=context.table.path,
            )
        place = file_place(context.table, context.bucket, context.partition_name, state.schema)
        if context.table.table_type is TableType.LOG:
            guard = RowGuard(context, row_places(state.schema, state.spec, place.partition))
            return log_writer(context, self._log_files(context, place.partition), state, guard)
        files = self.row_files(context, place.partition)
        combined = () if place.bucket is None else bucket_keys(context.table)
        places = row_places(state.schema, state.spec, place.partition, context.table.bucket_count, combined)
        return PrimaryKeyWriter(context, place, files, ChangeGuard(context, places))

    def rewrite(self, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
        state, table, job = self.state, self.table, JOBS.decode(task.payload)
        context = WriterInitContext(table, state.table_uuid, task.bucket, task.partition_name, round_id, nonce)
        files = self.row_files(context, job.partition, size_bytes=NO_LIMIT)
        try:
            with lake_errors(f"rewrite files of {table.path}", table_path=table.path):
                return rewrite_files(job, files, is_stopped)
        except BaseException:
            files.abort()
            raise

    def _log_files(self, context: WriterInitContext, own: PartitionValue) -> LogFiles[DataFile]:
        """Returns new data files of a split of a log table, whose first partition values are `own`."""
        state, numbers = self.state, itertools.count()
        fields = state.spec.fields[len(own) :]
        if not fields:
            return self.row_files(context, own)
        with lake_errors(f"open the storage of {context.table.path}", table_path=context.table.path):
            io = self._open_io()

        def new_files(values: PartitionValue) -> RowFiles:
            return RowFiles(context, state, (*own, *values), io, self.target_bytes, numbers)

        return PartitionedFiles(context, state, fields, new_files)

    def row_files(self, context: WriterInitContext, values: PartitionValue, size_bytes: int | None = None) -> RowFiles:
        """Returns new data files of one bucket in the partition `values`. They end at `size_bytes`, or else at the target size.

        Raises LakeUnavailable.
        """
        with lake_errors(f"open the storage of {context.table.path}", table_path=context.table.path):
            return RowFiles(context, self.state, values, self._open_io(), size_bytes or self.target_bytes)

    @property
    def target_bytes(self) -> int:
        """The size in bytes at which a data file ends."""
        return target_file_bytes(self.table, self.state.properties)

    def create_committer(self) -> IcebergCommitter:
        """Returns a committer. Raises InvalidArgument in any process but the one that made the factory."""
        if self.catalog is None:
            raise InvalidArgument("a committer needs the lake's catalog: create it on the driver, not on an executor")
        return IcebergCommitter(self.catalog, self._open_io(), self.sent, self.clock, self.table, self.pauses)

    def _open_io(self) -> FileIO:
        remember_secrets(self.state.storage)
        return LakeFileIO(dict(self.state.storage), self.state.places)


def _unpickled(state: TableState, table: TableInfo) -> IcebergTieringFactory:
    """Returns the factory in another process: it writes files, and cannot commit."""
    return IcebergTieringFactory(state, table, None, SentRounds())


def row_places(
    schema: Schema, spec: PartitionSpec, values: PartitionValue, bucket_count: int = 1, combined: Sequence[str] = ()
) -> RowPlaces:
    """Returns the places. `values`: Lakeward's own partition values of the files, in the order of `spec`. `combined`: the bucket keys, if
    the formula `combined-v1` over them determines the bucket and no partition field does."""
    fields = [(schema.find_field(field.source_id), field.transform, value) for field, value in zip(spec.fields, values, strict=False)]
    hashes: list[tuple[Sequence[str], Callable[[Sequence[pa.Array[Any]]], npt.NDArray[np.int32]]]] = [
        ((field.name,), partial(_bucket_ids, transform.num_buckets))
        for field, transform, _ in fields
        if isinstance(transform, BucketTransform)
    ]
    if combined:
        hashes.append((combined, partial(combined_bucket_ids, bucket_count=bucket_count)))
    return RowPlaces(
        [(field.name, _scalar(field.field_type, value)) for field, transform, value in fields if isinstance(transform, IdentityTransform)],
        hashes,
    )


def _bucket_ids(bucket_count: int, columns: Sequence[pa.Array[Any]]) -> npt.NDArray[np.int32]:
    return bucket_ids_of(columns[0], bucket_count)


def _scalar(kind: IcebergType, value: PartitionItem) -> pa.Scalar[pa.DataType]:
    """Returns a partition value in the type of the rows. Iceberg stores a date as a number of days."""
    scalar: pa.Scalar[pa.DataType] = pa.scalar(cast(Any, value), arrow_type(kind))
    return scalar
