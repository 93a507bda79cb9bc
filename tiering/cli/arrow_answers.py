"""Decodes rows of system tables from a service, within limits: the service may be broken, or may be another program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tiering.errors import InvalidAnswer, InvalidData, UnsupportedType

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BYTES = 256 << 20
"""Largest size of one system table in an answer: some hundred bytes per row."""

MAX_ROWS = 1_000_000
"""Most rows of one system table: about ten for each table of the largest supported service."""


def collected(pieces: Iterable[bytes]) -> bytes:
    """Returns the joined pieces of a stream. Raises InvalidAnswer for a stream that is too long."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_BYTES:
            raise InvalidAnswer(f"the service's answer has more than {MAX_BYTES} bytes", hint="Ask for fewer rows or columns.")
        parts.append(piece)
    return b"".join(parts)


def decoded(stream: bytes) -> pa.Table:
    """Returns the rows of an Arrow stream. Raises InvalidAnswer for another format, or for more rows than a system table can have."""
    from tiering.library_guards.arrow_ipc import ArrowLimits, read_rows  # imported late: the import takes longer than a call of describe()

    try:
        return read_rows(stream, ArrowLimits(MAX_ROWS, null_columns=True))
    except (InvalidData, UnsupportedType) as error:
        raise InvalidAnswer(f"the service's answer cannot be read: {error.message}") from error
