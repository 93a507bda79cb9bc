"""The state of a Paimon table that its writers need, in any process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import pyarrow as pa

from tiering.lake.base import WriterInitContext
from tiering.lake.layouts import Layout
from tiering.lake.paimon.schema.partitions import bucket_folder
from tiering.lake.paimon.storage.base import Storage
from tiering.lake.paimon.storage.local import LOCAL
from tiering.lake.paimon.writing.parquet_files import TARGET_FILE_BYTES, FilePlace, with_milliseconds
from tiering.lake.paimon.writing.sorted_files import KIND_FIELD
from tiering.lake.schema.column_ids import ColumnIds, proof_columns
from tiering.lake.writing.provenance import Provenance, file_prefix
from tiering.lake.writing.source_rows import Prepare, in_lake_columns


@dataclass(frozen=True)
class TableState:
    """The facts about a lake table that a writer needs, as plain values."""

    table_uuid: str
    root: PurePath
    schema_id: int
    columns: pa.Schema
    numbered: pa.Schema
    """`columns` with their field ids."""
    of_source: pa.Schema
    """The table's own columns with the field ids of the source (`column_ids.lake_columns_of_source`)."""
    recorded: ColumnIds | None
    partition_keys: tuple[str, ...]
    bucket_keys: tuple[str, ...]
    total_buckets: int
    primary_key: tuple[str, ...] = ()
    """The key by which Paimon sorts: without the partition columns."""
    layout: Layout = Layout.SYSTEM_COLUMNS
    is_followed: bool = False
    """Whether all changes are written in addition to the last change of each key."""
    storage: Storage = LOCAL
    target_bytes: int = TARGET_FILE_BYTES
    """Size at which a data file ends."""

    def place(self, context: WriterInitContext, partition: Sequence[str], bucket: int) -> FilePlace:
        """Returns the place of the files of one attempt, in the bucket with Paimon's number `bucket`."""
        folder = bucket_folder(self.partition_keys, partition, bucket)
        return FilePlace(context.table.path, self.root, folder, file_prefix(context), self.storage)

    def provenance(self, context: WriterInitContext) -> Provenance | None:
        """Returns the content of the footers of an attempt's files; None in a table with system columns, whose rows have offsets."""
        if self.layout.has_row_offsets:
            return None
        names = proof_columns(self.numbered, self.recorded)
        return Provenance(context, pa.schema([KIND_FIELD, *names]) if self.primary_key else names)

    def prepare(self, source: pa.Schema) -> Prepare:
        """Returns the function that gives batches of a split the columns of the lake table. A column that the source dropped is NULL."""
        in_columns = in_lake_columns(source, self.of_source)
        return lambda batch, columns: with_milliseconds(in_columns(batch, columns), columns)
