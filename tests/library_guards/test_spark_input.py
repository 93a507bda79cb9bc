"""Rows that end because Spark failed are told from rows that end because they are all there."""

from __future__ import annotations

import io
import struct

import pytest

from tiering.library_guards.spark_input import InputCutOff, whole_input


def main(infile: io.BufferedReader) -> tuple[list[int], bytes]:
    """Runs a task as `pyspark.worker.main` does; returns its rows, and what is left of the connection."""
    return list(whole_input([1, 2, 3])), infile.read()


def connection(content: bytes) -> io.BufferedReader:
    return io.BufferedReader(io.BytesIO(content))  # type: ignore[arg-type]  # typeshed wants a RawIOBase


def test_all_rows_are_there_if_the_end_mark_of_spark_follows() -> None:
    end = struct.pack("!i", -4)

    assert main(connection(end)) == ([1, 2, 3], end)


def test_rows_without_an_end_mark_are_cut_off() -> None:
    with pytest.raises(InputCutOff):
        main(connection(b""))


def test_nothing_is_claimed_outside_of_spark() -> None:
    with pytest.raises(RuntimeError, match="does not run in a Python process of Spark"):
        list(whole_input([1]))
