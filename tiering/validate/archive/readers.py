"""The numbers of rows that the installed readers of lake tables count, for a proof."""

from __future__ import annotations

from typing import Any

import duckdb

from tiering.lake.base import Lake
from tiering.lake.file_lists import CountingLake
from tiering.validate.subject import Subject

DUCKDB_NOTE = "reads the Parquet files of the snapshot, with the statements of this proof"

LIBRARY_NOTE = "reads the snapshot through the lake's catalog"


def reader_counts(lake: Lake, subject: Subject, stored_rows: int) -> list[dict[str, Any]]:
    """Returns a row per reader. `stored_rows`: what DuckDB counted."""
    rows = [_row("DuckDB", duckdb.__version__, stored_rows, DUCKDB_NOTE)]
    snapshot_id = subject.files.snapshot_id
    if isinstance(lake, CountingLake) and snapshot_id is not None:
        count = lake.count_rows(subject.view, snapshot_id)
        rows.append(_row(count.reader, count.version, count.rows, count.note or LIBRARY_NOTE))
    return rows


def _row(reader: str, version: str | None, rows: int | None, note: str) -> dict[str, Any]:
    return {"reader": reader, "version": version, "rows": rows, "note": note}
