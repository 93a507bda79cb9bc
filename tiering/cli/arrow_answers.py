"""Rows of system tables as a service sends them, decoded within bounds: what answers at a uri may be broken, or something else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tiering.errors import InvalidAnswer, InvalidData, UnsupportedType

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BYTES = 256 << 20
"""Of one system table as sent: some hundred bytes a row."""

MAX_ROWS = 1_000_000
"""Of one system table: some for each of the most tables that a service is made for."""


def collected(pieces: Iterable[bytes]) -> bytes:
    """The stream in one piece. Raises InvalidAnswer when it is too long."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_BYTES:
            raise InvalidAnswer(f"the service's answer has more than {MAX_BYTES} bytes", hint="Ask for fewer rows or columns.")
        parts.append(piece)
    return b"".join(parts)


def decoded(stream: bytes) -> pa.Table:
    """The rows. Raises InvalidAnswer for what is no Arrow stream, or more than a system table can be."""
    from tiering.library_guards.arrow_ipc import ArrowLimits, read_rows  # takes longer than the answer of a describe()

    try:
        return read_rows(stream, ArrowLimits(MAX_ROWS, null_columns=True))
    except (InvalidData, UnsupportedType) as error:
        raise InvalidAnswer(f"the service's answer cannot be taken: {error.message}") from error
