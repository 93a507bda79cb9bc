"""Files of single splits, written and committed by hand into a `LakeKit`'s lake."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from tiering.lake.base import Committable, WriterInitContext
from tiering.lake.iceberg.writing.data_files import decode_files
from tiering.lake.marker import TieredRange
from tiering.model.tables import BucketKey, TableInfo

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)


def context(table: TableInfo, view: Any, key: BucketKey = B0, partition: str | None = None, nonce: str = "n") -> WriterInitContext:
    """Returns the context of the round `round`."""
    return WriterInitContext(table, view.table_uuid, key, partition, "round", nonce)


def write(kit: Any, table: TableInfo, *batches: pa.RecordBatch, key: BucketKey = B0, start: int = 0, stop: int | None = None) -> Any:
    """One split's write result, up to `stop` or the end of the batches."""
    view = kit.lake.ensure_table(table)
    writer = kit.lake.tiering_factory(table).create_writer(context(table, view, key))
    for batch in batches:
        writer.write(batch)
    return writer.complete(start, start + sum(batch.num_rows for batch in batches) if stop is None else stop)


def commit(kit: Any, table: TableInfo, result: Any) -> Any:
    """Commits one result, as `commit_all` does."""
    return commit_all(kit, table, [result])


def commit_all(kit: Any, table: TableInfo, results: list[Any]) -> Any:
    """The table as pyiceberg loads it, after one round with these results."""
    prepared = kit.prepare(table, "round", {})
    marker = replace(prepared.marker, buckets={result.bucket: TieredRange(0, result.reached_offset) for result in results})
    committer = prepared.committer()
    committer.commit(Committable("round", tuple(results)), prepared.base, marker)
    return kit.catalog().load_table(str(table.path))


def write_values(kit: Any, table: TableInfo, values: list[Any]) -> Any:
    """Writes one column of a log table; the lake table afterwards, and its new files."""
    prepared = kit.prepare(table, "round", {})
    writer = prepared.factory.create_writer(WriterInitContext(table, prepared.base.table_uuid, B0, None, "round", "n"))
    system = kit.rows(kit.table(), B0, 0, len(values)).select(["__bucket", "__offset", "__timestamp"])
    column = pa.array(values, table.schema.field(0).type)
    writer.write(pa.RecordBatch.from_arrays([column, *system.columns], schema=table.lake_schema()))
    result = writer.complete(0, len(values))
    committer = prepared.committer()
    marker = replace(prepared.marker, buckets={B0: TieredRange(0, len(values))})
    committer.commit(Committable("round", (result,)), prepared.base, marker)
    return kit.catalog().load_table(str(table.path)), decode_files(result.payload).files
