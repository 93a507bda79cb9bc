"""Converts the embedded cluster's values to messages of embedded.proto, and back."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime

import pyarrow as pa

from tiering.cluster.embedded.kv.refused_records import RefusedRecord
from tiering.cluster.embedded.kv.snapshot_files import StoredSnapshot
from tiering.cluster.embedded.log.segments import Segment
from tiering.cluster.table_option_checks import described
from tiering.cluster.writable import AppendedRange, TableSpec
from tiering.lake.table_options import shown_options
from tiering.library_guards.arrow_ipc import read_schema
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, BucketOffsets, Partition, TableInfo
from tiering.rpc.v1 import embedded_pb2 as pb
from tiering.wire.codec import Codec, MappingCodec

_FROM_OPTIONS = tuple(field.name for field in fields(TableInfo) if field.name not in pb.PbTable.DESCRIPTOR.fields_by_name)
"""Fields of a table that follow from its properties, or that this cluster does not set."""


def schema_to_pb(schema: pa.Schema) -> bytes:
    """Returns the schema as an Arrow IPC message."""
    return schema.serialize().to_pybytes()


_TABLE = Codec(TableInfo, pb.PbTable, elsewhere=_FROM_OPTIONS, reading={pa.Schema: read_schema}, writing={pa.Schema: schema_to_pb})
SPEC = Codec(
    TableSpec,
    pb.CreateTableRequest,
    beside=("table_path", "ignore_if_exists"),
    reading={pa.Schema: read_schema},
    writing={pa.Schema: schema_to_pb},
)
"""Reading raises InvalidData for a schema that cannot be read."""
PARTITION = Codec(Partition, pb.PbPartition, elsewhere=("bucket_count",))
"""All partitions of a table of the embedded cluster have as many buckets as the table."""
LOG_OFFSETS = Codec(BucketOffsets, pb.PbLogOffsets)
BUCKET_OFFSETS = MappingCodec(BucketKey, BucketOffsets, pb.PbBucketOffsets)
TIMESTAMPS = MappingCodec(BucketKey, datetime, pb.ListOldestTimestampsResponse.PbTimestamp)
TRACES = MappingCodec(BucketKey, str, pb.ListRecordTracesResponse.PbTrace)
APPENDED_RANGE = Codec(AppendedRange, pb.PbAppendedRange)
BUCKET_SNAPSHOTS = MappingCodec(BucketKey, KvSnapshot, pb.PbBucketSnapshot)
STORED_SNAPSHOT = Codec(StoredSnapshot, pb.PbStoredSnapshot)
SEGMENT = Codec(Segment, pb.PbSegment)
REFUSED_RECORD = Codec(RefusedRecord, pb.PbRefusedRecord)


def table_to_pb(table: TableInfo) -> pb.PbTable:
    """Returns the message of a table. Every caller may request it, so values of options that may be secrets are hidden."""
    return _TABLE.to_pb(replace(table, properties=shown_options(table.properties)))


def table_from_pb(message: pb.PbTable) -> TableInfo:
    """Returns the table. Raises InvalidData for a schema that cannot be read, and InvalidArgument for an invalid option."""
    return described(_TABLE.from_pb(message), dict(message.properties))
