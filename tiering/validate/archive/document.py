"""The content of a proof: log, lake, files, footers, chain, checks, and the statements with which `verify.py` reads the rows again.

`verify.py` knows neither layouts nor formats nor encodings of footers. The proof has the statements that made the view of the lake's rows
in this validation, and the offsets of each file as numbers. DuckDB makes a text of each row of the log and of the lake. The checksum of
rows is the sum, modulo 2^64, of the lower halves of the MD5 sums of these texts.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tiering.clock import Clock, SystemClock
from tiering.lake.base import Lake
from tiering.lake.column_names import RESERVED_PREFIX
from tiering.lake.file_lists import ReadableLake
from tiering.lake.marker import Marker
from tiering.lake.proof.file_footer import without
from tiering.lake.schema.sql_text import quoted
from tiering.model.tables import BUCKET_COLUMN, CHANGE_TYPE_COLUMN, OFFSET_COLUMN, ChangeType, TableType
from tiering.procedures.validate_table import CheckResult
from tiering.validate.archive import verify
from tiering.validate.archive.readers import reader_counts
from tiering.validate.archive.spark_reader import NOT_ASKED, SparkReader
from tiering.validate.clean_footers import SORTED_FILE_COLUMN, footer_entries
from tiering.validate.clean_ledger import markers_of
from tiering.validate.engine import IN_BUCKET, Engine, Scope, place_parameters
from tiering.validate.lake_view import PLACE_COLUMN
from tiering.validate.newest_changes import AT, CHANGE, DELETED, DIGEST
from tiering.validate.subject import BucketRange, Subject

PACKAGES = ("lakeward", "duckdb", "pyarrow", "pyiceberg", "pypaimon")
"""Packages whose versions a proof names."""
RECORD = f"{RESERVED_PREFIX}record"
"""Column with the number of a record of a log, with its offset and its change type."""

Sums = Mapping[str, Any]
"""The number of rows and their checksum."""


class ProofWitness:
    """Collects the content of a proof during a validation at the level rows (`tiering.validate.run.Witness`)."""

    def __init__(self, cluster_kind: str, clock: Clock | None = None, spark: SparkReader = NOT_ASKED) -> None:
        self._cluster_kind = cluster_kind
        self._clock = clock or SystemClock()
        self._spark = spark
        self._subject: Subject | None = None
        self._contents: dict[str, Any] = {}

    def begin(self, lake: Lake, subject: Subject) -> None:
        """Begins anew with this subject."""
        self._lake, self._subject, self._contents = lake, subject, {}

    def read(self, engine: Engine) -> None:
        """Reads the contents of both sides."""
        assert self._subject is not None
        self._contents = _contents(self._lake, engine, self._subject, self._spark)

    def document(self, results: Sequence[CheckResult]) -> dict[str, Any]:
        """Returns the proof, after the validation ended with these results."""
        assert self._subject is not None
        subject = self._subject
        checks = [result.to_plain() for result in results]
        nothing: dict[str, Any] = {"files": [], "totals": [], "scopes": [], "sql": None, "stored_rows": None, "readers": [], "logs": {}}
        contents = self._contents or nothing
        scopes = [{**scope, "verdict": verify.verdict_of(scope, checks)} for scope in contents["scopes"]]
        rounds, former = _chain(self._lake, subject)
        document = {
            "format": verify.FORMAT,
            "made_at": self._clock.now().isoformat(timespec="seconds"),
            "versions": _versions(),
            "table": _table(subject, self._cluster_kind),
            "lake": _lake(self._lake, subject),
            "buckets": [_bucket(bucket_range, subject, contents, results) for bucket_range in subject.bucket_ranges],
            "chain": rounds,
            "former_rounds": former,
            "checks": checks,
            **{name: value for name, value in contents.items() if name != "logs"},
            "scopes": scopes,
        }
        return {**document, "verdict": verify.overall(document)}


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _table(subject: Subject, cluster_kind: str) -> dict[str, Any]:
    table = subject.table
    return {
        "path": str(table.path),
        "table_id": table.table_id,
        "type": table.table_type.value,
        "columns": [[column.name, str(column.type)] for column in table.schema],
        "primary_key": list(table.primary_key),
        "partition_keys": list(table.partition_keys),
        "cluster_kind": cluster_kind,
        "cluster_id": subject.source.cluster_id,
    }


def _lake(lake: Lake, subject: Subject) -> dict[str, Any]:
    view, snapshot_id = subject.view, subject.files.snapshot_id
    snapshot = None if snapshot_id is None else view.snapshots.get(snapshot_id)
    return {
        "format": lake.format,
        "layout": subject.layout.value,
        "table_uuid": view.table_uuid,
        "location": view.location,
        "snapshot_id": snapshot_id,
        "committed_at": None if snapshot is None else snapshot.committed_at.isoformat(),
        "is_newest": snapshot_id == view.head,
        "round_id": None if subject.marker is None else subject.marker.round_id,
    }


def _chain(lake: Lake, subject: Subject) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the rounds that lead to the snapshot, newest first, and other rounds whose snapshots are still there."""
    if subject.layout.has_row_offsets or subject.marker is None or not isinstance(lake, ReadableLake):
        return [], []
    markers, line = markers_of(lake, subject), [subject.marker]
    markers.pop(subject.marker.round_id, None)
    while (base := line[-1].base_round_id) is not None and base in markers:
        line.append(markers.pop(base))
    return [_round(marker) for marker in line], [_round(marker) for marker in markers.values()]


def _round(marker: Marker) -> dict[str, Any]:
    return {
        "round_id": marker.round_id,
        "base_round_id": marker.base_round_id,
        "ends": {str(bucket): reached.tiered for bucket, reached in marker.buckets.items()},
        "proofs": {str(bucket): list(proof.values) for bucket, proof in marker.proofs.items()},
    }


def _bucket(bucket_range: BucketRange, subject: Subject, contents: Mapping[str, Any], results: Sequence[CheckResult]) -> dict[str, Any]:
    cover = [result for result in results if (result.check, result.scope) == ("cover", bucket_range.name) and result.expected is not None]
    is_log = subject.table.table_type is TableType.LOG
    in_footers = bool(is_log and cover and contents["files"] and not subject.files.position_deletes)
    gaps: tuple[tuple[int, int], ...] = ()
    if in_footers and all(result.ok for result in cover):
        runs = [tuple(run) for file in contents["files"] if file["written_for"] == str(bucket_range.bucket) for run in file["offsets"]]
        gaps = without(bucket_range.start, bucket_range.tiered, [*runs, *bucket_range.empty])
    return {
        "bucket": bucket_range.name,
        "id": str(bucket_range.bucket),
        "partition": bucket_range.place[0],
        "bucket_id": bucket_range.place[1],
        "start": bucket_range.start,
        "tiered": bucket_range.tiered,
        "log_start": bucket_range.log_start,
        "log_end": bucket_range.log_end,
        "log": contents["logs"].get(bucket_range.name),
        "offsets_in_footers": in_footers,
        "offsets_without_rows": [list(run) for run in (*bucket_range.empty, *gaps)],
        "left_out": [list(run) for run in bucket_range.left_out],
    }


def _contents(lake: Lake, engine: Engine, subject: Subject, spark: SparkReader) -> dict[str, Any]:
    """Returns files, totals, scopes, statements and readers, and `logs`: the log's part of each bucket."""
    files = subject.files.all_files
    tokens = {file.path: f"{verify.TOKEN}{number}" for number, file in enumerate(files)}
    totals_sql = f"SELECT {PLACE_COLUMN}, {BUCKET_COLUMN}, count(*), {row_sum(_compared(engine))} FROM lake GROUP BY ALL"
    totals = [[place, bucket, rows, _text(checksum)] for place, bucket, rows, checksum in engine.rows(totals_sql)]
    logs = {bucket_range.name: _log(engine, bucket_range) for bucket_range in subject.bucket_ranges}
    buckets = [{"partition": r.place[0], "bucket_id": r.place[1], "bucket": r.name} for r in subject.bucket_ranges]
    stored_sql = f"SELECT count(*) FROM {'all_rows' if subject.files.data and not engine.layout.has_row_offsets else 'lake_rows'}"
    [(stored_rows,)] = engine.rows(stored_sql)
    return {
        "files": _files(engine, subject),
        "totals": sorted(totals, key=repr),
        "scopes": [_scope(engine, scope, totals, logs, buckets) for scope in _scopes(subject, totals)],
        "stored_rows": stored_rows,
        "sql": {
            "setup": [[_tokenized(sql, tokens), _tokenized(parameters, tokens)] for sql, parameters in engine.definitions],
            "totals": totals_sql,
            "stored_rows": stored_sql,
        }
        if files
        else None,
        "readers": reader_counts(lake, subject, stored_rows, spark),
        "logs": {name: {key: value for key, value in log.items() if key != "rows_at_the_end"} for name, log in logs.items()},
    }


def _tokenized(value: Any, tokens: Mapping[str, str]) -> Any:
    plain = (
        {name: item.isoformat() if isinstance(item, datetime) else item for name, item in value.items()}
        if isinstance(value, Mapping)
        else value
    )
    return verify.replaced(plain, lambda text: tokens.get(text, text))


def _compared(engine: Engine) -> list[str]:
    """Returns the columns whose values the checksums have. Offsets in footers are compared as numbers (`verify.check_cover`)."""
    has_offsets = engine.layout.has_row_offsets and engine.table.table_type is TableType.LOG
    return engine.columns if has_offsets else engine.own_columns


def row_hash(columns: Sequence[str]) -> str:
    """Returns SQL for 64 bits of the MD5 sum of a row: of the length and the text of each value, and `-` for NULL."""
    values = (
        f"CASE WHEN {name} IS NULL THEN '-' ELSE concat(length(CAST({name} AS VARCHAR)), ':', CAST({name} AS VARCHAR)) END"
        for name in map(quoted, columns)
    )
    return f"md5_number_lower(concat({', '.join(values)}))"


def row_sum(columns: Sequence[str]) -> str:
    """Returns SQL for the sum of the rows' numbers, not yet modulo 2^64."""
    return f"coalesce(sum({row_hash(columns)}), 0)"


def _text(checksum: int) -> str:
    return f"{int(checksum) % verify.MODULUS:016x}"


def _sums(rows: int, checksum: int) -> dict[str, Any]:
    return {"rows": rows, "checksum": _text(checksum)}


def _log(engine: Engine, bucket_range: BucketRange) -> dict[str, Any]:
    """Returns the records of a bucket's log that were compared, and `rows_at_the_end`, the rows that they leave."""
    if engine.table.table_type is TableType.LOG:
        start, stop = bucket_range.readable
        with engine.log(bucket_range, start, stop, _compared(engine)) as log:
            [sums] = engine.rows(f"SELECT count(*), {row_sum(_compared(engine))} FROM {log}")
        records = _sums(*sums)
        return {"from": start, "to": stop, "records": records["rows"], "checksum": records["checksum"], "rows_at_the_end": records}
    start, stop = bucket_range.retained
    keys = ", ".join(map(quoted, engine.table.primary_key))
    columns = [*engine.own_columns, OFFSET_COLUMN, CHANGE_TYPE_COLUMN]
    with engine.log(bucket_range, start, stop, columns) as log:
        newest = f"SELECT arg_max({CHANGE}, {AT}) AS {CHANGE}, arg_max({DIGEST}, {AT}) AS {DIGEST} FROM records"
        changes = f"{newest} WHERE {CHANGE} <> {int(ChangeType.UPDATE_BEFORE)} GROUP BY {keys}"
        [(records, checksum, rows, rows_checksum)] = engine.rows(
            f"WITH records AS MATERIALIZED (SELECT {keys}, {OFFSET_COLUMN} AS {AT}, {CHANGE_TYPE_COLUMN} AS {CHANGE}, "
            f"{row_hash(engine.own_columns)} AS {DIGEST}, {row_hash(columns)} AS {RECORD} FROM {log}), "
            f"living AS (SELECT * FROM ({changes}) WHERE {CHANGE} <> {DELETED}) "
            f"SELECT (SELECT count(*) FROM records), (SELECT coalesce(sum({RECORD}), 0) FROM records), "
            f"(SELECT count(*) FROM living), (SELECT coalesce(sum({DIGEST}), 0) FROM living)"
        )
    return {"from": start, "to": stop, "records": records, "checksum": _text(checksum), "rows_at_the_end": _sums(rows, rows_checksum)}


def _scopes(subject: Subject, totals: Sequence[Sequence[Any]]) -> list[Scope]:
    """Returns a scope for each bucket, or for a partition whose rows do not all show their bucket."""
    ranges = subject.bucket_ranges
    mixed = sorted({place for place, bucket, *_ in totals if bucket is None})
    single = [Scope(*bucket_range.place, (bucket_range,)) for bucket_range in ranges if bucket_range.place[0] not in mixed]
    whole = [Scope(place, None, tuple(r for r in ranges if r.place[0] == place)) for place in mixed]
    return [*single, *(scope for scope in whole if scope.members)]


def _scope(
    engine: Engine,
    scope: Scope,
    totals: Sequence[Sequence[Any]],
    logs: Mapping[str, Mapping[str, Any]],
    buckets: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    names = [member.name for member in scope.members]
    why = next((reason for member in scope.members if (reason := _cut(engine, member)) is not None), None)
    ends = [logs[name]["rows_at_the_end"] for name in names]
    in_log = {"rows": sum(end["rows"] for end in ends), "checksum": _text(sum(int(end["checksum"], 16) for end in ends))}
    return {
        "scope": scope.name,
        "buckets": names,
        "is_whole_partition": scope.bucket is None,
        "log": in_log if why is None else None,
        "why_not_compared": why,
        "part": _part(engine, scope, in_log) if why is not None and totals else None,
        "lake": verify.totals_of([bucket for bucket in buckets if bucket["bucket"] in names], scope.bucket is None, totals),
    }


def _cut(engine: Engine, member: BucketRange) -> str | None:
    """Returns why the log does not have all changes of a bucket; None if it has them."""
    if engine.counts_backfilled:
        return "another program rewrote files of a backfill, whose rows the log never had"
    is_log = engine.table.table_type is TableType.LOG
    missing = member.start < member.tiered and member.readable != (member.start, member.tiered) if is_log else member.retained[0] > 0
    return f"the log of bucket {member.name} begins at offset {member.log_start}" if missing else None


def _part(engine: Engine, scope: Scope, in_log: Sums) -> dict[str, Any] | None:
    """Returns the rows of a log table's bucket that the log still has, on both sides.

    Returns None if offsets do not show which rows these are, as in sorted files.
    """
    if engine.table.table_type is not TableType.LOG or scope.bucket is None or engine.counts_backfilled:
        return None
    [member] = scope.members
    is_placed = f"{OFFSET_COLUMN} IS NOT NULL" + ("" if engine.layout.has_row_offsets else f" AND {SORTED_FILE_COLUMN} IS NULL")
    [(unplaced,)] = engine.rows(f"SELECT count(*) FROM lake WHERE {IN_BUCKET} AND NOT ({is_placed})", place_parameters(member))
    if unplaced:
        return None
    condition = f"{IN_BUCKET} AND {OFFSET_COLUMN} >= {member.readable[0]}"
    sql = f"SELECT count(*), {row_sum(_compared(engine))} FROM lake WHERE {condition}"
    [sums] = engine.rows(sql, place_parameters(member))
    return {"sql": sql, "parameters": place_parameters(member), "log": dict(in_log), "lake": _sums(*sums)}


def _files(engine: Engine, subject: Subject) -> list[dict[str, Any]]:
    files = subject.files
    kinds = [*("data" for _ in files.data), *("position deletes" for _ in files.position_deletes)]
    kinds += ["equality deletes" for _ in files.equality_deletes]
    footers = footer_entries(engine.rows, files.all_files)
    facts = {fact.file.path: fact.footer for fact in engine.footers}
    return [
        {
            "kind": kind,
            "location": file.location,
            "bytes": Path(file.path).stat().st_size,
            "sha256": _sha256(file.path),
            "records": file.records,
            "sequence_number": file.sequence_number,
            "partition": file.place,
            "footer": footers.get(file.path, {}),
            "written_for": None if (footer := facts.get(file.path)) is None else str(footer.bucket),
            "offsets": [] if footer is None else [list(run) for run in footer.runs],
        }
        for kind, file in zip(kinds, files.all_files, strict=True)
    ]


def _sha256(path: str) -> str:
    with open(path, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
