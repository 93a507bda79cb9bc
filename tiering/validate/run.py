"""One validation from beginning to end, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from tiering.effects import Clock, SystemClock
from tiering.errors import DataCorrupt, LakewardError, LogTruncated
from tiering.lake.base import Lake
from tiering.model import TablePath, TableType
from tiering.redact import redact
from tiering.validate import keyed_checks, log_checks
from tiering.validate.engine import Engine, open_engine
from tiering.validate.report import Report
from tiering.validate.results import DEFAULT_MEMORY_LIMIT, CheckResult, Level
from tiering.validate.subject import LogSource, Subject, read_subject


def validate(
    source: LogSource,
    lake: Lake,
    path: TablePath,
    level: Level,
    snapshot_id: int | None = None,
    *,
    memory_limit: str = DEFAULT_MEMORY_LIMIT,
    clock: Clock | None = None,
) -> Sequence[CheckResult]:
    """A row a check; a difference is a row that is not ok, never an error.

    Raises UnknownTable, UnknownDatabase, InvalidArgument (never tiered, no such snapshot), LakeUnavailable.
    """
    subject = read_subject(source, lake, path, snapshot_id)
    report = Report(subject, level, clock or SystemClock())
    if _check_base(subject, report) and _check_files(subject, report):
        try:
            with open_engine(subject, memory_limit) as engine:
                _check_contents(engine, subject, report, level)
        except duckdb.Error as error:
            report.add("files", "table", False, details=_name_damage(subject, error))
        except (DataCorrupt, LogTruncated) as error:
            report.add("log", "table", False, details=error.message)
    return report.results


def _check_base(subject: Subject, report: Report) -> bool:
    """Whether lake and log belong together at all."""
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
        details = f"{len(subject.vanished)} buckets of partitions that were dropped since are in the marker; their rows cannot be compared"
    report.add("base", "table", True, details=details)
    return True


def _check_files(subject: Subject, report: Report) -> bool:
    files = [*subject.files.data, *subject.files.position_deletes, *subject.files.equality_deletes]
    missing = [one.path for one in files if not Path(one.path).is_file()]
    details = f"{len(missing)} files of the snapshot are not there; the first is {missing[0]}" if missing else None
    report.add("files", "table", not missing, len(files), len(files) - len(missing), details)
    return not missing


def _check_contents(engine: Engine, subject: Subject, report: Report, level: Level) -> None:
    checks = log_checks if subject.table.table_type is TableType.LOG else keyed_checks
    checks.check_counts(engine, report, subject.stretches)
    if level.depth >= Level.OFFSETS.depth:
        checks.check_offsets(engine, report, subject.stretches)
    if level.depth >= Level.ROWS.depth:
        checks.check_rows(engine, report, subject.stretches)


def _name_damage(subject: Subject, error: duckdb.Error) -> str:
    """Which file DuckDB cannot read: found by reading each alone."""
    for one in [*subject.files.data, *subject.files.position_deletes, *subject.files.equality_deletes]:
        with duckdb.connect() as connection:
            try:
                connection.execute("SELECT count(hash(COLUMNS(*))) FROM read_parquet($path)", {"path": one.path}).fetchall()
            except duckdb.Error as why:
                return redact(f"the lake file {one.path} cannot be read: {why}")
    return redact(f"DuckDB cannot read the two sides: {error}")
