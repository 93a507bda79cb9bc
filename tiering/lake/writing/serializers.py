"""Write results as bytes, which executors send to the driver. Versioned, never pickled. For the factories of all formats.

Version 1: one byte 1; the header's length (4 bytes, big-endian); the header as JSON; the payload, which belongs to the lake format and has
its own version.
"""

from __future__ import annotations

import json
from typing import Any

from tiering.lake.base import WriteResult
from tiering.lake.dead_letters.letter import DeadLetter
from tiering.model.tables import BucketKey

VERSION = 1
LENGTH_BYTES = 4


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
        **({"dead_letters": [letter.to_plain() for letter in result.dead_letters]} if result.dead_letters else {}),
    }
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    return bytes((VERSION,)) + len(text).to_bytes(LENGTH_BYTES, "big") + text + result.payload


def deserialize_write_result(data: bytes) -> WriteResult:
    """Returns the write result of these bytes. Raises ValueError for an unknown version, which it names, and for cut bytes."""
    if data[:1] != bytes((VERSION,)):
        raise ValueError(f"a write result has version {data[0] if data else 'none'}; this Lakeward reads version {VERSION}")
    begin = 1 + LENGTH_BYTES
    end = begin + int.from_bytes(data[1:begin], "big")
    if len(data) < max(begin, end):
        raise ValueError("a write result is cut off")
    header: dict[str, Any] = json.loads(data[begin:end])
    bucket = BucketKey.parse(header.pop("bucket"))
    empty = tuple((start, stop) for start, stop in header.pop("empty", ()))
    letters = tuple(DeadLetter.of_plain(bucket, plain) for plain in header.pop("dead_letters", ()))
    return WriteResult(bucket=bucket, payload=data[end:], empty=empty, dead_letters=letters, **header)
