"""Names of partitions from the values of their columns, and back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tiering.cluster.partition_names import partition_values
from tiering.errors import InvalidArgument, InvalidData
from tiering.model.sql_types import Day
from tiering.model.tables import PARTITION_SEPARATOR, Partition, TableInfo
from tiering.rpc.v1 import definitions_pb2 as pb
from tiering.wire.procedure_calls import literal_from_pb

_PIECE_BYTES = 1 << 20


def partition_names(table: TableInfo, partitions: Sequence[pb.PartitionValues]) -> list[str]:
    """Returns the names of the partitions with these values, each once. Raises InvalidArgument, InvalidData naming the column."""
    return list(dict.fromkeys(_name(table, partition) for partition in partitions))


def _name(table: TableInfo, partition: pb.PartitionValues) -> str:
    if not table.partition_keys or len(partition.values) != len(table.partition_keys):
        keys = ", ".join(table.partition_keys)
        raise InvalidArgument(
            f"a partition of {table.path} has {len(table.partition_keys)} values, not {len(partition.values)}",
            hint=f"Name a value of each partition column: {keys}." if keys else "The table is not partitioned.",
        )
    texts = [_text(table, column, literal) for column, literal in zip(table.partition_keys, partition.values, strict=True)]
    return PARTITION_SEPARATOR.join(texts)


def _text(table: TableInfo, column: str, literal: Any) -> str:
    value = literal_from_pb(literal)
    if value is None:
        raise InvalidData(f"partition column {column!r}: a partition has no NULL", column=column)
    kind = table.schema.field(column).type
    values = pa.array([value.days], pa.int32()).cast(pa.date32()) if isinstance(value, Day) else pa.array([value], kind)
    return partition_values(column, values.cast(kind))[0]


def partition_rows(table: TableInfo, partitions: Sequence[Partition]) -> Iterator[bytes]:
    """Yields pieces of an Arrow IPC stream with the partition columns and a row for each partition, sorted by name."""
    names = sorted(partition.partition_name for partition in partitions)
    values = [name.split(PARTITION_SEPARATOR) for name in names]
    schema = pa.schema([pa.field(key, table.schema.field(key).type) for key in table.partition_keys])
    columns = [pa.array([row[place] for row in values], pa.string()).cast(field.type) for place, field in enumerate(schema)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        if columns:
            stream.write_batch(pa.record_batch(columns, schema=schema))
    buffer = sink.getvalue()
    for start in range(0, buffer.size, _PIECE_BYTES):
        yield buffer.slice(start, min(_PIECE_BYTES, buffer.size - start)).to_pybytes()
