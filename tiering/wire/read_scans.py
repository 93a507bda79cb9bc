"""The messages of a scan of a data table and their values (`ReadScan` of reads.proto)."""

from __future__ import annotations

from tiering.errors import InvalidArgument
from tiering.model.names import check_length
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.rpc.v1 import reads_pb2 as pb
from tiering.wire.conditions import ConditionReader, condition_to_pb

MAX_COLUMNS = 10_000
"""Columns of one scan at most."""


def scan_from_pb(message: pb.ReadScan) -> ReadScan:
    """Returns the scan. Raises InvalidArgument for an unknown part, too many columns or conditions, or a negative limit."""
    parts = pb.ReadScan.Part
    name = parts.Name(message.part) if message.part in parts.values() else str(message.part)
    if name not in ReadPart.__members__:
        raise InvalidArgument(f"a scan of a table has no part {name}", hint=f"The parts are {', '.join(ReadPart)}.")
    if len(message.columns) > MAX_COLUMNS:
        raise InvalidArgument(f"the scan names {len(message.columns)} columns: at most {MAX_COLUMNS} are possible")
    if message.HasField("limit") and message.limit < 0:
        raise InvalidArgument(f"the limit of a scan is {message.limit}: it must not be negative")
    reader = ConditionReader()
    return ReadScan(
        ReadPart[name],
        tuple(check_length(column, "column") for column in message.columns),
        tuple(reader.condition(condition) for condition in message.conditions),
        message.limit if message.HasField("limit") else None,
    )


def scan_to_pb(scan: ReadScan) -> pb.ReadScan:
    """Returns the message of a scan."""
    part = pb.ReadScan.Part.Value(scan.part.name)
    return pb.ReadScan(part=part, columns=scan.columns, conditions=map(condition_to_pb, scan.conditions), limit=scan.limit)
