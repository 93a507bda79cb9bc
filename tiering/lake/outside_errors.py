"""Errors of libraries, as they are told to users."""

from __future__ import annotations

import pyarrow as pa

from tiering.errors import DataCorrupt, InvalidData
from tiering.model.refused_records import RECORD_ID
from tiering.redaction.redact import outside_text

DAMAGED_HINT = "The file was changed after it was committed. Restore it from a backup of the warehouse."


def describe(error: BaseException) -> str:
    """Class and text of an outside error, without secrets, on one line."""
    return " ".join(outside_text(f"{type(error).__name__}: {error}", 1_000).split())


def misfit(summary: str, error: BaseException, *, table_path: object = None, bucket: object = None, column: object = None) -> InvalidData:
    """The error for rows that a library does not take. The library may name a value, so its text is a field for callers with SELECT."""
    return InvalidData(
        f"{summary} ({type(error).__name__})", table_path=table_path, bucket=bucket, column=column, **{RECORD_ID: describe(error)}
    )


def is_damage(error: BaseException | None) -> bool:
    """Whether Arrow says it of the bytes of a file: what it says of the storage has a number."""
    if isinstance(error, pa.ArrowMemoryError) or getattr(error, "errno", None):
        return False
    return isinstance(error, pa.ArrowException | OSError)


def damaged_file(location: str, error: BaseException) -> DataCorrupt:
    """The error for a data file that no reader takes."""
    return DataCorrupt(f"{location} is damaged: {describe(error)}", hint=DAMAGED_HINT, lake_file=location)
