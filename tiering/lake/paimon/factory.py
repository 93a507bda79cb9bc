"""The `LakeTieringFactory` for Paimon: it creates writers in any process that can access the warehouse, and committers in the process that
created the factory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath

import pyarrow as pa

from tiering.errors import InvalidArgument, LakeTableReplaced
from tiering.lake.base import FileRewrite, LakeCommitter, LakeWriter, WriterInitContext
from tiering.lake.maintenance import RewriteTask
from tiering.lake.paimon.schema.layout import UNAWARE
from tiering.lake.paimon.schema.partitions import partition_texts, partition_values
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.rewriting import rewrite_files
from tiering.lake.paimon.writing.parquet_files import ParquetFiles, log_writer
from tiering.lake.paimon.writing.payload import FilesPayload
from tiering.lake.paimon.writing.primary_key_writer import PaimonPrimaryKeyWriter
from tiering.lake.paimon.writing.sorted_files import SortedFiles
from tiering.lake.rules.hints import replaced_hint
from tiering.lake.writing.paimon_bucket_hash import bucket_ids_of
from tiering.lake.writing.row_guard import ChangeGuard, RowGuard, RowPlaces

CommitterMaker = Callable[[PurePath], LakeCommitter]


@dataclass(frozen=True)
class PaimonTieringFactory:
    """A `LakeTieringFactory`. `make_committer` is dropped when it is pickled. Implements `FileRewriter`."""

    state: TableState
    make_committer: CommitterMaker | None = field(compare=False, repr=False)

    def __reduce__(self) -> tuple[type[PaimonTieringFactory], tuple[TableState, None]]:
        return PaimonTieringFactory, (self.state, None)

    def create_writer(self, context: WriterInitContext) -> LakeWriter:
        """Creates the writer of one split. Raises LakeTableReplaced, InvalidData (a partition's name)."""
        state = self.state
        if context.lake_table_uuid != state.table_uuid:
            raise LakeTableReplaced(
                f"the lake table {context.table.path} is {state.table_uuid}; this round was planned for {context.lake_table_uuid}",
                hint=replaced_hint(context.table.path),
                table_path=context.table.path,
            )
        texts = partition_texts(context.table, context.partition_name)
        values = partition_values(state.partition_keys, state.columns, texts)
        bucket = 0 if state.total_buckets == UNAWARE else context.bucket.bucket_id
        target = FilesPayload(state.table_uuid, state.schema_id, texts, bucket, state.total_buckets)
        place, provenance = state.place(context, texts, bucket), state.provenance(context)
        scalars = [
            (name, pa.scalar(value, state.columns.field(name).type)) for name, value in zip(state.partition_keys, values, strict=True)
        ]
        hashes = [(state.bucket_keys, partial(bucket_ids_of, bucket_count=state.total_buckets))] if state.bucket_keys else []
        places = RowPlaces(scalars, hashes)
        prepare = state.prepare(context.table.schema)
        if not state.primary_key:
            rows = ParquetFiles(place, state.columns, provenance, state.target_bytes)
            return log_writer(context, target, rows, RowGuard(context, places), prepare)
        files = SortedFiles(place, state.columns, state.primary_key, provenance)
        return PaimonPrimaryKeyWriter(context, target, files, ChangeGuard(context, places), state.is_followed, prepare)

    def rewrite(self, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
        return rewrite_files(self.state, task, round_id, nonce, is_stopped)

    def create_committer(self) -> LakeCommitter:
        """Creates a committer. Raises InvalidArgument in a process other than the one that created the factory."""
        if self.make_committer is None:
            raise InvalidArgument("a committer can be created on the driver only, not on an executor")
        return self.make_committer(self.state.root)
