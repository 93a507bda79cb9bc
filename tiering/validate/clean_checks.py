"""The checks of a table with a clean layout.

If Lakeward wrote all files of a bucket, their footers have the offset of each row, and the same checks run as with system columns. If
another program rewrote files, totals are compared (`ledger`). Rows of a primary-key table are compared by key and values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pyarrow as pa

from tiering.cluster.shared_lake import log_rows
from tiering.counts import counted
from tiering.lake.file_lists import FileLists, ReadableLake
from tiering.lake.proof.backfilled_rows import backfilled_in
from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.proof.file_footer import FileFooter, Run, merged, runs_text, sum_of, without
from tiering.lake.proof.row_checksum import MODULUS, row_checksum
from tiering.lake.schema.changed_columns import file_columns
from tiering.lake.schema.column_ids import proof_columns
from tiering.lake.schema.sql_text import quoted, text_literal
from tiering.model.tables import BUCKET_COLUMN, TableType
from tiering.validate import log_checks, primary_key_checks
from tiering.validate.clean_footers import FileFacts
from tiering.validate.clean_ledger import (
    chain_problem,
    check_scope,
    may_have_former_rows,
    report_missing,
    rewritten_scopes,
    set_backfilled_apart,
)
from tiering.validate.engine import IS_FORMER, Engine, Scope
from tiering.validate.former import older_rows_text
from tiering.validate.lake_view import PLACE_COLUMN
from tiering.validate.report import Report
from tiering.validate.results import Level
from tiering.validate.subject import BucketRange, Subject


def check_contents(lake: ReadableLake, engine: Engine, subject: Subject, report: Report, level: Level) -> None:
    """Runs all checks of `level`."""
    problems = [facts.problem for facts in engine.footers if facts.problem is not None]
    total = len(engine.footers)
    report.add("footers", "table", not problems, total, total - len(problems), problems[0] if problems else None)
    _set_former_apart(engine, report)
    if level.depth >= Level.OFFSETS.depth:
        rounds, problem = chain_problem(lake, subject)
        report.add("chain", "table", problem is None, None, None, problem or counted(rounds, "round"))
    if subject.table.table_type is TableType.LOG:
        _check_log(lake, engine, subject, report, level)
    else:
        _check_primary_keys(engine, subject, report, level)
    if level.depth >= Level.ROWS.depth:
        _check_checksums(engine, subject, report)


def _set_former_apart(engine: Engine, report: Report) -> None:
    """Counts rows of partitions that were dropped and recreated under the same name, and removes them from the view `lake`."""
    place = f"r.{PLACE_COLUMN}, r.{BUCKET_COLUMN}"
    sql = f"SELECT {place}, count(*) FROM lake_rows AS r JOIN living AS a ON {IS_FORMER} GROUP BY ALL ORDER BY ALL"
    former = engine.rows(sql) if engine.table.partition_keys else []
    for place, bucket, rows in former:
        report.add("rows", f"{place}/{bucket}", None, None, rows, older_rows_text(rows))
    if former:
        engine.leave_former_out()


def _check_log(lake: ReadableLake, engine: Engine, subject: Subject, report: Report, level: Level) -> None:
    proofs = {} if subject.marker is None else subject.marker.proofs
    in_marker = () if subject.marker is None else subject.marker.backfills
    backfills = set_backfilled_apart(engine, in_marker, report, level, _checksum)
    scopes = rewritten_scopes(engine, subject.bucket_ranges)
    report_missing(backfills, scopes, report)
    whole = tuple(
        _with_gaps(engine, subject, report, bucket_range)
        for bucket_range in subject.bucket_ranges
        if not _in_any(scopes, *bucket_range.place)
    )
    blocks = {place: rows for place, rows in log_checks.gather(engine, whole, level).items() if not _in_any(scopes, *place)}
    log_checks.check_counts(engine, report, whole, blocks)
    if level.depth >= Level.OFFSETS.depth:
        _check_cover(engine, subject, report, whole)
        log_checks.check_offsets(engine, report, whole, blocks)
    if level.depth >= Level.ROWS.depth:
        log_checks.check_rows(engine, report, whole, blocks)
    has_former_rows = cache(lambda: may_have_former_rows(lake, subject))  # markers are read once, and only if a check needs them
    for scope in scopes:
        check_scope(engine, report, scope, proofs, level, has_former_rows, backfilled_in(backfills, scope.place, scope.bucket))


def _with_gaps(engine: Engine, subject: Subject, report: Report, bucket_range: BucketRange) -> BucketRange:
    """Returns `bucket_range` with the ranges without rows that the marker does not name. They are from before the bucket's proof began, for
    instance where another tiering service moved an offset. The log shows them as long as it has these records."""
    proof = None if subject.marker is None else subject.marker.proofs.get(bucket_range.bucket)
    since = bucket_range.tiered if proof is None else proof.since
    runs = [*_runs(engine, bucket_range), *bucket_range.empty]
    left_out = {} if subject.marker is None else subject.marker.skipped
    rows_in = log_rows(subject.source, subject.table, lambda: left_out)
    gaps = {run: rows_in(bucket_range.bucket, *run) for run in without(bucket_range.start, since, runs)}
    if uncovered := [run for run, has_rows in gaps.items() if has_rows is None]:
        text = f"no file has the offsets {runs_text(uncovered)}, and the log does not hold them any more: they may have been without rows"
        report.add("cover", bucket_range.name, None, None, None, text)
    return replace(bucket_range, empty=(*bucket_range.empty, *(run for run, has_rows in gaps.items() if not has_rows)))


def _runs(engine: Engine, bucket_range: BucketRange) -> list[Run]:
    footers = (facts.footer for facts in engine.footers)
    return [run for footer in footers if footer is not None and footer.bucket == bucket_range.bucket for run in footer.runs]


def _in_any(scopes: Sequence[Scope], place: str, bucket: int | None) -> bool:
    return any(scope.has(place, bucket) for scope in scopes)


def _check_cover(engine: Engine, subject: Subject, report: Report, whole: Sequence[BucketRange]) -> None:
    """Checks footers and marker alone. If offsets are there twice, only rows without a position delete count: a reconciliation continues
    behind the last row that is not deleted."""
    proofs = {} if subject.marker is None else subject.marker.proofs
    covered = {bucket_range.bucket: bucket_range for bucket_range in whole}
    for bucket_range in subject.bucket_ranges:
        facts = [facts for facts in engine.footers if facts.footer is not None and facts.footer.bucket == bucket_range.bucket]
        footers: Sequence[FileFooter] = [facts.footer for facts in facts if facts.footer is not None]
        if subject.files.position_deletes and has_overlap(footers):
            footers = living_footers(engine, subject.files, facts)
        if bucket_range.bucket in covered:
            bucket_range = covered[bucket_range.bucket]
            problem = cover_problem(bucket_range, footers, proofs.get(bucket_range.bucket))
            report.add(
                "cover", bucket_range.name, problem is None, f"[{bucket_range.start}, {bucket_range.tiered}) each once", None, problem
            )
        elif (problem := overlap_problem(bucket_range, footers)) is not None:
            report.add("cover", bucket_range.name, False, None, None, problem)


def _check_primary_keys(engine: Engine, subject: Subject, report: Report, level: Level) -> None:
    proof = primary_key_checks.gather(engine, subject.bucket_ranges, level)
    primary_key_checks.check_counts(engine, report, subject.bucket_ranges, proof)
    if level.depth >= Level.OFFSETS.depth:
        primary_key_checks.check_offsets(engine, report, subject.bucket_ranges, proof)
        if engine.merge is not None:
            _check_runs(engine, subject, report)
    if level.depth >= Level.ROWS.depth:
        primary_key_checks.check_rows(engine, report, subject.bucket_ranges, proof)


def _check_runs(engine: Engine, subject: Subject, report: Report) -> None:
    """Checks footers and marker alone: each file of a merge tree is from a round, or a merge whose footer names its inputs."""
    proofs = {} if subject.marker is None else subject.marker.proofs
    foreign = {(facts.file.place, facts.bucket) for facts in engine.footers if facts.footer is None}
    for bucket_range in subject.bucket_ranges:
        proof = proofs.get(bucket_range.bucket)
        if proof is None or proof.since != bucket_range.start or bucket_range.place in foreign:
            continue
        footers = [facts.footer for facts in engine.footers if facts.footer is not None and facts.footer.bucket == bucket_range.bucket]
        problem = runs_problem(bucket_range, footers, proof)
        report.add("cover", bucket_range.name, problem is None, "the files of all rounds", None, problem)


def _check_checksums(engine: Engine, subject: Subject, report: Report) -> None:
    """Checks rows that the log no longer has: the rows of each file against the checksum in its footer."""
    cut = {bucket_range.bucket: bucket_range.retained[0] for bucket_range in subject.bucket_ranges}
    files = [facts for facts in engine.footers if facts.footer is not None and _is_below(facts, cut.get(facts.footer.bucket, 0))]
    if not files:
        return
    wrong = [facts.file.path for facts in files if facts.footer is not None and _checksum(engine, facts) != facts.footer.checksum]
    details = f"the file {wrong[0]} has other rows than were written to it" if wrong else None
    report.add("checksums", "table", not wrong, len(files), len(files) - len(wrong), details)


def _is_below(facts: FileFacts, log_start: int) -> bool:
    """Returns whether rows of the file may come from changes that the log no longer has."""
    assert facts.footer is not None
    runs = facts.footer.runs
    return log_start > (runs[0][0] if runs else 0)


def _checksum(engine: Engine, facts: FileFacts) -> int:
    path = text_literal(facts.file.path)
    rule = engine.merge
    unproved = "" if rule is None else f" EXCLUDE ({', '.join(map(quoted, (*rule.keys, rule.sequence)))})"
    names = None
    if engine.fields is not None:
        hidden = () if rule is None else (*rule.keys, rule.sequence)
        stored = pa.schema([field for field in file_columns(facts.file, engine.fields.columns) if field.name not in hidden])
        names = proof_columns(stored, engine.fields.recorded)
    total = 0
    for batch in engine.batches(f"SELECT *{unproved} FROM read_parquet([{path}], hive_partitioning = false)", {}):
        total += row_checksum(batch, names)
    return total % MODULUS


def living_footers(engine: Engine, files: FileLists, facts: Sequence[FileFacts]) -> list[FileFooter]:
    """Returns the footers of `facts` with the offsets of the rows that no position delete names. Raises duckdb.Error.

    A sorted file keeps all its offsets, because its deleted rows do not tell theirs."""
    dead: defaultdict[str, list[int]] = defaultdict(list)
    if files.position_deletes:
        paths = ", ".join(text_literal(file.path) for file in files.position_deletes)
        locations = ", ".join(text_literal(fact.file.location) for fact in facts) or "NULL"
        sql = f"SELECT DISTINCT file_path, pos FROM read_parquet([{paths}], hive_partitioning = false) WHERE file_path IN ({locations})"
        for location, position in engine.rows(sql):
            dead[location].append(position)
    footers = ((fact.footer, dead[fact.file.location]) for fact in facts)
    return [
        footer if footer.is_sorted else replace(footer, runs=living_runs(footer.runs, positions))
        for footer, positions in footers
        if footer is not None
    ]


def living_runs(runs: Iterable[Run], dead: Sequence[int]) -> tuple[Run, ...]:
    """Returns `runs` without the rows at the positions `dead` of their file."""
    positions = merged((position, position + 1) for position in dead)
    left: list[Run] = []
    first = 0
    for start, stop in runs:
        shift, end = start - first, first + stop - start
        left += ((begin + shift, until + shift) for begin, until in without(first, end, positions))
        first = end
    return tuple(left)


def cover_problem(bucket_range: BucketRange, footers: Sequence[FileFooter], proof: BucketProof | None) -> str | None:
    """Returns the first problem, or None: an offset twice, outside, or in no file; files that do not add up to the marker's totals."""
    covered = [*(run for footer in footers for run in footer.runs), *bucket_range.empty]
    name, reached = f"bucket {bucket_range.name}", bucket_range.start
    for start, stop in sorted(covered):
        if start < reached:
            outside = f"{name}: a file has the offset {start}, which lies outside of [{bucket_range.start}, {bucket_range.tiered})"
            return outside if start < bucket_range.start else f"{name}: two files have the offset {start}"
        if start > reached:
            return f"{name}: no file has the offsets {reached} to {start - 1}"
        reached = stop
    if reached > bucket_range.tiered:
        return f"{name}: a file has the offset {reached - 1}, which lies outside of [{bucket_range.start}, {bucket_range.tiered})"
    if reached < bucket_range.tiered:
        return f"{name}: no file has the offsets {reached} to {bucket_range.tiered - 1}"
    return _sum_problem(name, bucket_range, footers, proof)


def overlap_problem(bucket_range: BucketRange, footers: Iterable[FileFooter]) -> str | None:
    """Returns the problem of the remaining files of Lakeward in a bucket in which another program rewrote files, or None."""
    reached: int | None = None
    for start, stop in sorted(run for footer in footers for run in footer.runs):
        if reached is not None and start < reached:
            return f"bucket {bucket_range.name}: two files have the offset {start}"
        if start < bucket_range.start or stop > bucket_range.tiered:
            return f"bucket {bucket_range.name}: a file has offsets outside of [{bucket_range.start}, {bucket_range.tiered})"
        reached = stop
    return None


def has_overlap(footers: Iterable[FileFooter]) -> bool:
    """Returns whether two files have the same offset."""
    runs = sorted(run for footer in footers for run in footer.runs)
    return any(after[0] < before[1] for before, after in pairwise(runs))


def runs_problem(bucket_range: BucketRange, footers: Iterable[FileFooter], proof: BucketProof) -> str | None:
    """Returns the problem of a primary-key bucket to which only rounds write, or None: a file that is missing, or there twice."""
    checksum = sum_of(footer.written_checksum for footer in footers)
    if checksum == proof.checksum:
        return None
    return (
        f"bucket {bucket_range.name}: the footers of its files add up to the checksum {checksum:016x}, the marker to "
        f"{proof.checksum:016x}: files of rounds are missing, or there twice"
    )


def _sum_problem(name: str, bucket_range: BucketRange, footers: Sequence[FileFooter], proof: BucketProof | None) -> str | None:
    if proof is None or proof.since != bucket_range.start:
        return None
    rows, checksum = sum(footer.rows for footer in footers), sum_of(footer.written_checksum for footer in footers)
    if (rows, checksum) == (proof.rows, proof.checksum):
        return None
    return (
        f"{name}: the footers of its files add up to {rows} rows with the checksum {checksum:016x}, the marker to {proof.rows} with "
        f"{proof.checksum:016x}"
    )
