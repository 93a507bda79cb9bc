"""Runs one validation in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tiering.clock import Clock, SystemClock
from tiering.cluster.base import SplitSource
from tiering.counts import counted
from tiering.errors import DataCorrupt, InvalidArgument, LakewardError, LogTruncated, SourceChanged
from tiering.lake.base import Lake
from tiering.lake.file_lists import LakeFile, ReadableLake
from tiering.lake.schema.changed_columns import is_older_map, unreadable_text
from tiering.library_guards.duckdb_guard import duckdb_reason
from tiering.model.tables import BUCKET_COLUMN, TablePath, TableType
from tiering.procedures.validate_table import CheckResult
from tiering.redaction.redact import outside_text
from tiering.validate import clean_checks, log_checks, primary_key_checks
from tiering.validate.duckdb_rows import unreadable_file
from tiering.validate.engine import Engine, open_engine
from tiering.validate.former import set_former_apart
from tiering.validate.lake_view import FILE_COLUMN, PLACE_COLUMN, STORED_ROWS
from tiering.validate.report import Report
from tiering.validate.results import DEFAULT_MEMORY_LIMIT, Level
from tiering.validate.subject import Subject, read_subject


class Witness(Protocol):
    """Sees what a validation reads, for a proof that can be handed over (`tiering.validate.archive`)."""

    def begin(self, lake: Lake, subject: Subject) -> None:
        """Gets the subject, again if the validation begins again."""

    def read(self, engine: Engine) -> None:
        """Gets the engine after all checks, unless a check before them failed. Raises duckdb.Error, LakewardError."""


READS = 3
"""How often a validation reads everything, if the data that it reads is changed meanwhile."""


def validate(
    source: SplitSource,
    lake: Lake,
    path: TablePath,
    level: Level,
    snapshot_id: int | None = None,
    *,
    memory_limit: str = DEFAULT_MEMORY_LIMIT,
    clock: Clock | None = None,
    witness: Witness | None = None,
) -> Sequence[CheckResult]:
    """Returns a row per check. A difference is a row that is not ok, never an error.

    The table may be in use: if the log is cut, a partition is dropped, or the snapshot expires during the validation, it begins again with
    the new state. Raises UnknownTable, UnknownDatabase, InvalidArgument (never tiered, no such snapshot, files that cannot be read at all),
    MarkerCorrupt, LakeUnavailable; LogTruncated or SourceChanged if that happens again and again.
    """
    reads = 0
    while True:
        with tempfile.TemporaryDirectory(prefix="lakeward-validate-files-") as copies:
            subject = read_subject(source, lake, path, snapshot_id, Path(copies))
            reads += 1
            if witness is not None:
                witness.begin(lake, subject)
            try:
                return _validate_once(lake, subject, level, memory_limit, clock, witness)
            except (LogTruncated, SourceChanged, InvalidArgument):
                if reads == READS:
                    raise


def _validate_once(
    lake: Lake, subject: Subject, level: Level, memory_limit: str, clock: Clock | None, witness: Witness | None
) -> Sequence[CheckResult]:
    report = Report(subject, level, clock or SystemClock())
    if _check_base(subject, report) and _check_ends(subject, report) and _check_files(lake, subject, report, level):
        try:
            with open_engine(subject, memory_limit) as engine:
                check_places(engine, subject, report)
                _check_contents(lake, engine, subject, report, level)
                if witness is not None:
                    witness.read(engine)
        except duckdb.Error as error:
            details = _name_damage(subject, error)
            _raise_if_expired(lake, subject)
            report.add("files", "table", False, details=details)
        except DataCorrupt as error:
            if "lake_file" in error.ids:
                _raise_if_expired(lake, subject)
            report.add("files" if "lake_file" in error.ids else "log", "table", False, details=error.message)
    return report.results


def _check_base(subject: Subject, report: Report) -> bool:
    """Checks whether lake and log belong together at all."""
    if subject.problem is not None:
        problem: LakewardError = subject.problem
        report.add("base", "table", False, details=f"{problem.error_class}: {problem.message}")
        return False
    if subject.marker is None:
        report.add("base", "table", False, details="the snapshot carries no marker: no Lakeward round wrote it, nor one before it")
        return False
    if subject.unknown:
        names = ", ".join(map(str, subject.unknown))
        report.add("base", "table", False, details=f"the marker names buckets that the table does not have: {names}")
        return False
    details = None
    if subject.vanished:
        buckets = counted(len(subject.vanished), "bucket")
        details = f"the marker has {buckets} of partitions that were dropped since: their rows cannot be compared"
    report.add("base", "table", True, details=details)
    return True


def _check_ends(subject: Subject, report: Report) -> bool:
    """Checks whether the log can be the one that was tiered, and whether tiering can continue. It adds a row only for a bucket in which
    not."""
    right = True
    for bucket_range in subject.bucket_ranges:
        if bucket_range.left_out:
            records = sum(stop - start for start, stop in bucket_range.left_out)
            text = ", ".join(f"{start} to {stop - 1}" for start, stop in bucket_range.left_out)
            details = f"bucket {bucket_range.name}: reconcile_lake left out the records {text}, which neither log nor lake had any more"
            report.add("left_out", bucket_range.name, None, 0, records, details)
        if bucket_range.tiered > bucket_range.log_end:
            details = (
                f"bucket {bucket_range.name}: the lake is tiered up to offset {bucket_range.tiered}, "
                f"but the log ends at {bucket_range.log_end}"
            )
        elif bucket_range.tiered < bucket_range.log_start:
            details = (
                f"bucket {bucket_range.name}: the lake is tiered up to offset {bucket_range.tiered}, "
                f"but the log begins at {bucket_range.log_start}: "
                f"offsets {bucket_range.tiered} to {bucket_range.log_start - 1} are in neither"
            )
        else:
            continue
        report.add("log", bucket_range.name, False, bucket_range.tiered, None, details)
        right = False
    return right


def _check_files(lake: Lake, subject: Subject, report: Report, level: Level) -> bool:
    files = subject.files.all_files
    missing = [file.label for file in files if not Path(file.path).is_file()]
    damage = _damaged_footer(files) if level.depth >= Level.ROWS.depth and not missing else None
    if missing or damage:
        _raise_if_expired(lake, subject)
    details = f"{counted(len(missing), 'file')} of the snapshot not there; the first is {missing[0]}" if missing else damage
    report.add("files", "table", details is None, len(files), len(files) - (1 if damage else len(missing)), details)
    return details is None


def _damaged_footer(files: Sequence[LakeFile]) -> str | None:
    """Returns the first file that other readers than DuckDB refuse. DuckDB ignores the rest of a footer that ends too early."""
    for file in files:
        try:
            pq.read_metadata(file.path)
        except (pa.ArrowException, OSError, ValueError) as why:
            if is_older_map(why):
                continue
            return unreadable_text(file, why)
    return None


def _raise_if_expired(lake: Lake, subject: Subject) -> None:
    """Raises an error if the snapshot expired: its files are then missing without damage."""
    view = lake.view(subject.table.path)
    snapshot_id = subject.files.snapshot_id
    if view is None or snapshot_id not in view.snapshots:
        raise InvalidArgument(
            f"the snapshot {snapshot_id} of {subject.table.path} was expired while it was read", hint="Validate the newest snapshot."
        )


def _check_contents(lake: Lake, engine: Engine, subject: Subject, report: Report, level: Level) -> None:
    if not subject.layout.has_row_offsets and isinstance(lake, ReadableLake):
        clean_checks.check_contents(lake, engine, subject, report, level)
        return
    checks = log_checks if subject.table.table_type is TableType.LOG else primary_key_checks
    bucket_ranges = set_former_apart(engine, report, subject.bucket_ranges)
    gathered = checks.gather(engine, bucket_ranges, level)
    if checks is log_checks:
        bucket_ranges = log_checks.with_gaps(engine, bucket_ranges, gathered)
    checks.check_counts(engine, report, bucket_ranges, gathered)
    if level.depth >= Level.OFFSETS.depth:
        checks.check_offsets(engine, report, bucket_ranges, gathered)
    if level.depth >= Level.ROWS.depth:
        checks.check_rows(engine, report, bucket_ranges, gathered)


def _name_damage(subject: Subject, error: duckdb.Error) -> str:
    """Returns which file DuckDB cannot read. It reads each file alone."""
    return outside_text(unreadable_file(subject.files.all_files) or f"DuckDB cannot read the two sides: {duckdb_reason(error)}")


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
