"""The formats that `lakeward ingest` reads."""

from __future__ import annotations

from enum import StrEnum


class FileFormat(StrEnum):
    """How a file is read."""

    PARQUET = "parquet"
    CSV = "csv"
    NDJSON = "ndjson"
