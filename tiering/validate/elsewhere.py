"""Reports rows in places that the marker does not name."""

from __future__ import annotations

from collections.abc import Mapping

from tiering.validate.report import Report


def report_elsewhere(report: Report, counted: Mapping[tuple[str, int | None], int], buckets: int) -> None:
    """Reports one row per place: of partitions that were dropped, or of another writer. `counted`: number of rows by partition and
    bucket."""
    for (partition, bucket), rows in sorted(counted.items(), key=lambda entry: (entry[0][0], -1 if entry[0][1] is None else entry[0][1])):
        number = "NULL" if bucket is None else str(bucket)
        name = f"{partition}/{number}" if partition else number
        if partition and bucket is not None and 0 <= bucket < buckets:
            text = "the marker names no such bucket: rows of a dropped partition, or of another writer"
            report.add("rows", name, None, None, rows, text)
        else:
            report.add("rows", name, False, 0, rows, "the marker names no such bucket: another program wrote these rows")
