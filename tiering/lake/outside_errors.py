"""Errors of libraries, turned into text and errors for users."""

from __future__ import annotations

import pyarrow as pa

from tiering.errors import DataCorrupt, InvalidData
from tiering.model.refused_records import RECORD_ID
from tiering.redaction.redact import outside_text

DAMAGED_HINT = "The file was changed after it was committed. Restore it from a backup of the warehouse."


def describe(error: BaseException) -> str:
    """Returns class and text of an outside error on one line, without secrets."""
    return " ".join(outside_text(f"{type(error).__name__}: {error}", 1_000).split())


def misfit(summary: str, error: BaseException, *, table_path: object = None, bucket: object = None, column: object = None) -> InvalidData:
    """Returns the error for rows that a library refuses. The library's text may have a value, so only callers with SELECT may see it."""
    return InvalidData(
        f"{summary} ({type(error).__name__})", table_path=table_path, bucket=bucket, column=column, **{RECORD_ID: describe(error)}
    )


def is_damage(error: BaseException | None) -> bool:
    """Whether Arrow's error is about the bytes of a file. An error of the storage has an errno."""
    if isinstance(error, pa.ArrowMemoryError) or getattr(error, "errno", None):
        return False
    return isinstance(error, pa.ArrowException | OSError)


def damaged_file(location: str, error: BaseException) -> DataCorrupt:
    """Returns the error for a data file that no reader can read."""
    return DataCorrupt(f"{location} is damaged: {describe(error)}", hint=DAMAGED_HINT, lake_file=location)
