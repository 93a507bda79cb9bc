"""Errors of libraries, as they are told to users."""

from __future__ import annotations

import pyarrow as pa

from tiering.errors import DataCorrupt
from tiering.redaction.redact import outside_text

DAMAGED_HINT = "The file was changed after it was committed. Restore it from a backup of the warehouse."


def describe(error: BaseException) -> str:
    """Class and text of an outside error, without secrets, on one line."""
    return " ".join(outside_text(f"{type(error).__name__}: {error}", 1_000).split())


def is_damage(error: BaseException | None) -> bool:
    """Whether Arrow says it of the bytes of a file: what it says of the storage has a number."""
    if isinstance(error, pa.ArrowMemoryError) or getattr(error, "errno", None):
        return False
    return isinstance(error, pa.ArrowException | OSError)


def damaged_file(location: str, error: BaseException) -> DataCorrupt:
    """The error for a data file that no reader takes."""
    return DataCorrupt(f"{location} is damaged: {describe(error)}", hint=DAMAGED_HINT, lake_file=location)
