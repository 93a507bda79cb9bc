"""Finds rows in files of another partition or bucket than their own: readers that look for a key or a partition would miss them."""

from __future__ import annotations

from tiering.model.tables import BUCKET_COLUMN
from tiering.validate.engine import Engine
from tiering.validate.lake_view import FILE_COLUMN, PLACE_COLUMN, STORED_ROWS
from tiering.validate.report import Report
from tiering.validate.subject import Subject


def check_places(engine: Engine, subject: Subject, report: Report) -> None:
    """Reports one row for a lake whose files name the partition and bucket of their rows, and none for other lakes."""
    files = [file for file in subject.files.data if file.place is not None]
    if not files:
        return
    engine.rows(
        "CREATE TEMP TABLE file_places AS SELECT unnest($paths) AS path, unnest($places) AS place, unnest($buckets)::INTEGER AS bucket",
        {
            "paths": [file.path for file in files],
            "places": [file.place for file in files],
            "buckets": [file.bucket if engine.layout.has_row_offsets else None for file in files],
        },
    )
    elsewhere = f"l.{PLACE_COLUMN} <> p.place OR (p.bucket IS NOT NULL AND l.{BUCKET_COLUMN} IS DISTINCT FROM p.bucket)"
    wrong = engine.rows(
        f"SELECT l.{FILE_COLUMN}, count(*) FROM {STORED_ROWS} AS l JOIN file_places AS p ON p.path = l.{FILE_COLUMN} "
        f"WHERE {elsewhere} GROUP BY 1 ORDER BY 1"
    )
    details = None
    if wrong:
        path, rows = wrong[0]
        details = f"{rows} rows of the file {path} belong to another partition or bucket than the lake has the file in"
    report.add("places", "table", not wrong, 0, sum(rows for _, rows in wrong), details)
