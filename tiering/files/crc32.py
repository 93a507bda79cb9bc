"""The checksum of data files: CRC-32 as zlib has it, by ISA-L, which uses the processor's own instructions."""

from __future__ import annotations

import pyarrow as pa
from isal import isal_zlib


def crc32(content: pa.Buffer | bytes) -> int:
    """The CRC-32 of `content`; five times as fast as `zlib.crc32`, and the same number."""
    return isal_zlib.crc32(content)
