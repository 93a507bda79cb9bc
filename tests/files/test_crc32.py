"""Files written with one implementation of the checksum are read with another."""

from __future__ import annotations

import zlib

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tiering.cluster.embedded.log.segments import crc32


@given(st.binary(max_size=5_000))
def test_the_checksum_is_that_of_zlib(content: bytes) -> None:
    assert crc32(content) == crc32(pa.py_buffer(content)) == zlib.crc32(content)


def test_large_files_have_that_of_zlib_too() -> None:
    content = bytes(range(256)) * 100_000
    assert crc32(content) == zlib.crc32(content)
