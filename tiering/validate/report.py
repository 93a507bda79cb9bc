"""Collects the rows of a validation, each with its duration."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tiering.clock import Clock
from tiering.procedures.validate_table import CheckResult
from tiering.validate.results import Level
from tiering.validate.subject import Subject


class Report:
    """One row per call of `add`. The duration of a check is the time since the previous row."""

    def __init__(self, subject: Subject, level: Level, clock: Clock) -> None:
        self._subject = subject
        self._level = level
        self._clock = clock
        self._moment: datetime = clock.now()
        self._since_ms = clock.monotonic_ms()
        self.results: list[CheckResult] = []

    def add(
        self, check: str, scope: str, ok: bool | None, expected: object = None, actual: object = None, details: str | None = None
    ) -> None:
        """Adds the result of one check. `ok` is None if the check could not decide, which `details` explains."""
        now_ms = self._clock.monotonic_ms()
        path = self._subject.table.path
        self.results.append(
            CheckResult(
                validated_at=self._moment,
                database_name=path.database_name,
                table_name=path.table_name,
                lake_snapshot_id=self._subject.files.snapshot_id,
                level=self._level.value,
                check=check,
                scope=scope,
                expected=None if expected is None else str(expected),
                actual=None if actual is None else str(actual),
                ok=ok,
                details=details,
                duration_ms=max(0, now_ms - self._since_ms),
            )
        )
        self._since_ms = now_ms


def report_elsewhere(report: Report, counted: Mapping[tuple[str, int | None], int], buckets: int) -> None:
    """Reports one row per place: of partitions that were dropped, or of another writer. `counted`: number of rows by partition and
    bucket. `buckets`: the largest number of buckets of a partition."""
    for (partition, bucket), rows in sorted(counted.items(), key=lambda entry: (entry[0][0], -1 if entry[0][1] is None else entry[0][1])):
        number = "NULL" if bucket is None else str(bucket)
        name = f"{partition}/{number}" if partition else number
        if partition and bucket is not None and 0 <= bucket < buckets:
            text = "the marker names no such bucket: rows of a dropped partition, or of another writer"
            report.add("rows", name, None, None, rows, text)
        else:
            report.add("rows", name, False, 0, rows, "the marker names no such bucket: another program wrote these rows")
