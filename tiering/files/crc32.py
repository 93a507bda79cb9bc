"""Computes the checksum of data files: zlib's CRC-32, with ISA-L, which uses special instructions of the processor."""

from __future__ import annotations

import pyarrow as pa
from isal import isal_zlib


def crc32(content: pa.Buffer | bytes) -> int:
    """Returns the CRC-32 of `content`: the number that `zlib.crc32` returns, five times as fast."""
    return isal_zlib.crc32(content)
