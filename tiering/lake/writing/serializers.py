"""Write results as bytes, which executors send to the driver. Versioned, never pickled. For the factories of all formats.

Version 1: one byte 1; the header's length (4 bytes, big-endian); the header as JSON; the payload, which belongs to the lake format and has
its own version.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from tiering.lake.base import WriteResult
from tiering.model.tables import BucketKey

VERSION = 1
_LENGTH = struct.Struct(">I")


def serialize_write_result(result: WriteResult) -> bytes:
    """Returns `result` as bytes. Equal results give equal bytes."""
    header = {
        "bucket": str(result.bucket),
        "starting_offset": result.starting_offset,
        "reached_offset": result.reached_offset,
        "records": result.records,
        "files": result.files,
        "size_bytes": result.size_bytes,
        **({"deletes": result.deletes} if result.deletes else {}),
        **({} if result.checksum is None else {"checksum": result.checksum}),
        **({"empty": result.empty} if result.empty else {}),
    }
    return _frame(header, result.payload)


def deserialize_write_result(data: bytes) -> WriteResult:
    """Returns the write result of these bytes. Raises ValueError for an unknown version, which it names, and for cut bytes."""
    header, payload = _unframe(data, "write result")
    bucket = BucketKey.parse(header.pop("bucket"))
    empty = tuple((start, stop) for start, stop in header.pop("empty", ()))
    return WriteResult(bucket=bucket, payload=payload, empty=empty, **header)


def _frame(header: dict[str, Any], payload: bytes) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    return bytes((VERSION,)) + _LENGTH.pack(len(text)) + text + payload


def _unframe(data: bytes, kind: str) -> tuple[dict[str, Any], bytes]:
    if data[:1] != bytes((VERSION,)):
        raise ValueError(f"a {kind} has version {data[0] if data else 'none'}; this Lakeward reads version {VERSION}")
    text, payload = _take(data[1:], kind)
    header: dict[str, Any] = json.loads(text)
    return header, payload


def _take(data: bytes, kind: str) -> tuple[bytes, bytes]:
    """Returns a length-prefixed part, and the bytes that follow it."""
    if len(data) < _LENGTH.size:
        raise ValueError(f"a {kind} is cut off")
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    if len(data) < end:
        raise ValueError(f"a {kind} is cut off")
    return data[_LENGTH.size : end], data[end:]
