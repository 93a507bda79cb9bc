"""Checks a primary-key table: one row per key, and that row is the newest change of its key.

The checks search the newest change of a key in all of the log that the cluster still has, also below the offset at which the first round
began. If the log was cut, the newest KV snapshot has the rows that were last changed before the log begins. Without such a KV snapshot no
check says that these rows are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiering.counts import counted
from tiering.lake.schema.sql_text import quoted
from tiering.model.tables import BUCKET_COLUMN, CHANGE_TYPE_COLUMN, OFFSET_COLUMN, SNAPSHOT_OFFSET, ChangeType
from tiering.validate.clean_footers import OURS_COLUMN
from tiering.validate.engine import Engine, Scope
from tiering.validate.lake_view import PLACE_COLUMN
from tiering.validate.newest_changes import (
    AT,
    BEFORE_START,
    CHANGE,
    DELETED,
    DIGEST,
    TIME,
    NewestChanges,
    fold,
    is_below_log,
    key_scopes,
    lake_rows,
    may_be_former,
    same_key,
)
from tiering.validate.report import Report, report_elsewhere
from tiering.validate.results import Level
from tiering.validate.subject import BucketRange

FORMER = "neither in the log nor in the KV snapshot: of a former partition of that name, taken as they are"
UNNAMED = "not in the log, or of a former partition of that name: files that another program rewrote do not show which"


def gather(engine: Engine, bucket_ranges: tuple[BucketRange, ...], level: Level) -> QuickProof:
    """Returns the quick proof of the table. The checks of a scope use it first."""
    return QuickProof(engine, key_scopes(engine, bucket_ranges), level)


def check_counts(engine: Engine, report: Report, bucket_ranges: tuple[BucketRange, ...], proof: QuickProof) -> None:
    """Checks that a scope has as many rows as the log has keys whose newest change is not a delete."""
    left = dict(proof.counted)
    for scope in proof.scopes:
        rows = sum(left.pop(place) for place in list(left) if scope.has(*place))
        if not scope.members:
            report.add("rows", scope.name, None, None, rows, "the marker names no such partition: a dropped one, or one of another writer")
        elif proof.holds(scope):
            report.add("rows", scope.name, True, rows, rows)
        else:
            _count_rows(engine, report, scope, rows)
    report_elsewhere(report, left, engine.table.bucket_count)


def _count_rows(engine: Engine, report: Report, scope: Scope, rows: int) -> None:
    changes = fold(engine, scope)
    [(live,)] = engine.rows(f"SELECT count(*) FROM newest WHERE {CHANGE} <> {DELETED}")
    [(older, unclear)] = engine.rows(
        f"SELECT count(*), count(*) FILTER ({_is_unclear(engine)}) FROM {lake_rows(engine, scope)} AS l "
        f"WHERE {_untouched(engine, scope, changes)}",
        scope.parameters,
    )
    cut = scope.log_start
    if changes.problem is not None and rows == live + older:
        text = f"{counted(older, 'row')} last changed before offset {cut}, where the log begins, and {changes.problem}: taken as they are"
        report.add("rows", scope.name, None, None, rows, f"{text}; rows may be missing")
        return
    report.add("rows", scope.name, rows == live + older, live + older, rows, None)
    if changes.problem is not None:
        return
    if changes.unclear_keys:
        text = (
            f"{counted(changes.unclear_keys, 'key')} changed again since, or by a record that was skipped: their rows are taken as they are"
        )
        report.add("rows", scope.name, None, None, unclear, text)
    if former := older - unclear:
        text = UNNAMED if not engine.layout.has_row_offsets else FORMER
        report.add("rows", scope.name, None, None, former, f"{counted(former, 'row')} {text}")


def check_offsets(engine: Engine, report: Report, bucket_ranges: tuple[BucketRange, ...], proof: QuickProof) -> None:
    """Checks that no key has two rows, and that no row was changed beyond the marker."""
    for scope in proof.scopes:
        if scope.members:
            details = None if proof.holds(scope) else _wrong_keys(engine, scope)
            report.add("keys", scope.name, details is None, "each key once", None, details)


def _wrong_keys(engine: Engine, scope: Scope) -> str | None:
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    texts = ", ".join(f"CAST({quoted(key)} AS VARCHAR)" for key in engine.table.primary_key)
    lake_scope = f"FROM lake WHERE {scope.condition}"
    twice = f"SELECT {texts}, count(*) {lake_scope} GROUP BY {keys} HAVING count(*) > 1 ORDER BY {keys} LIMIT 1"
    for *key, times in engine.rows(twice, scope.parameters):
        return f"{_place(scope)}: key {_key(key)} occurs {times} times"
    if scope.bucket is None:
        return None  # its rows have no offsets
    tiered = scope.members[0].tiered
    [(beyond,)] = engine.rows(f"SELECT min({OFFSET_COLUMN}) {lake_scope} AND {OFFSET_COLUMN} >= {tiered}", scope.parameters)
    return None if beyond is None else f"{_place(scope)}: offset {beyond} lies beyond {tiered}"


def check_rows(engine: Engine, report: Report, bucket_ranges: tuple[BucketRange, ...], proof: QuickProof) -> None:
    """Checks that each row equals the newest change of its key, and that each key that was not deleted has a row."""
    for scope in proof.scopes:
        details = None
        if not scope.members:
            continue
        if not proof.holds(scope):
            changes = fold(engine, scope)
            details = _first_difference(engine, scope, changes)
            if details is None and changes.problem is not None:
                text = f"rows last changed before offset {scope.log_start}, where the log begins, are not compared: {changes.problem}"
                report.add("values", scope.name, None, None, None, text)
                continue
        report.add("values", scope.name, details is None, "the newest change of each key", None, details)


def _first_difference(engine: Engine, scope: Scope, changes: NewestChanges) -> str | None:
    keys = ", ".join(f"CAST(coalesce(n.{quoted(key)}, l.{quoted(key)}) AS VARCHAR)" for key in engine.table.primary_key)
    join = same_key(engine, "n", "l")
    dead = f"(n.{CHANGE} = {DELETED} AND l.{DIGEST} IS NOT NULL AND NOT {_may_outlive_delete(scope)})"
    other = f"(n.{CHANGE} <> {DELETED} AND {_is_same(engine, scope)} IS NOT TRUE)"
    unheard = f"(n.{CHANGE} IS NULL AND {_is_older(engine, scope, changes)} IS NOT TRUE)"
    differences = engine.rows(
        f"SELECT {keys}, n.{AT}, l.{AT}, n.{CHANGE} = {DELETED}, l.{DIGEST} IS NULL, l.{DIGEST} = n.{DIGEST} FROM newest AS n "
        f"FULL JOIN {lake_rows(engine, scope)} AS l ON {join} WHERE {dead} OR {other} OR {unheard} "
        f"ORDER BY coalesce(n.{AT}, l.{AT}) LIMIT 1",
        scope.parameters,
    )
    if not differences:
        return None
    *key, at, in_lake, is_deleted, is_missing, same_values = differences[0]
    where = f"{_place(scope)}: key {_key(key)}"
    if at == SNAPSHOT_OFFSET:
        return f"{where}, last changed before the log begins, {_SNAPSHOT_DIFFERENCES[bool(is_missing)]}"
    if not engine.layout.has_row_offsets:
        return _difference_in_values(where, at, is_deleted, is_missing)
    if at is None and in_lake is not None and in_lake < scope.log_start:
        return f"{where} has offset {in_lake} in the lake; neither the log nor the KV snapshot has such a row"
    if at is None:
        return f"{where} has offset {in_lake} in the lake; the log has no such change"
    if is_deleted:
        return f"{where} was deleted at offset {at} and is still in the lake (offset {in_lake})"
    if is_missing:
        return f"{where}, last changed at offset {at}, is missing"
    if in_lake not in (at, SNAPSHOT_OFFSET):
        return f"{where} was last changed at offset {at}; the lake has it of offset {in_lake}"
    return f"{where}, last changed at offset {at}, has {'another offset or time' if same_values else 'other values'} in the lake"


_SNAPSHOT_DIFFERENCES = {True: "is missing; the KV snapshot has it", False: "has other values in the lake than in the KV snapshot"}
"""Text of a difference, by whether the row is missing."""


def _is_same(engine: Engine, scope: Scope) -> str:
    """SQL that is true for a row `l` of the lake that is the change `n`."""
    if not engine.layout.has_row_offsets:
        return f"(l.{DIGEST} = n.{DIGEST})"
    start = scope.members[0].start
    # A row from a KV snapshot has neither offset nor time of its change.
    from_snapshot = f"(l.{AT} = {SNAPSHOT_OFFSET} AND (n.{AT} < {start} OR {start} = 0))"
    by_snapshot = f"(n.{AT} = {SNAPSHOT_OFFSET} AND {is_below_log(engine, scope)})"
    return f"(l.{DIGEST} = n.{DIGEST} AND ({from_snapshot} OR {by_snapshot} OR (l.{AT} = n.{AT} AND l.{TIME} = n.{TIME})))"


def _difference_in_values(where: str, at: int | None, is_deleted: bool, is_missing: bool) -> str:
    """Returns the difference of a row without an offset in words."""
    if at is None:
        return f"{where} is in the lake; the log has no change of it"
    if is_deleted:
        return f"{where} was deleted at offset {at} and is still in the lake"
    if is_missing:
        return f"{where}, last changed at offset {at}, is missing"
    return f"{where}, last changed at offset {at}, has other values in the lake"


def _is_unclear(engine: Engine) -> str:
    """Returns SQL that is true for a row `l` of the lake whose key's state at the end of the lake copy is unknown."""
    return f"EXISTS (SELECT 1 FROM unclear AS u WHERE {same_key(engine, 'u', 'l')})"


def _is_older(engine: Engine, scope: Scope, changes: NewestChanges) -> str:
    """Returns SQL that is true for a row whose change the log may no longer have.

    A log that reaches back to its start has all changes, except for rows from a KV snapshot in a partition: these may belong to a former
    partition of that name. In a clean table any row may be older than a log that was cut, and any row in a file of another program may be
    of a former partition. If a KV snapshot has the rows from before the log begins, only rows of unclear keys are left.
    """
    low = scope.log_start
    if low > 0 and changes.problem is None:
        return f"({is_below_log(engine, scope)} AND ({_is_unclear(engine)} OR {may_be_former(engine, scope)}))"
    if not engine.layout.has_row_offsets:
        return f"({low > 0} OR ({bool(scope.place)} AND NOT l.{OURS_COLUMN}))"
    if low == 0:
        return f"({bool(scope.place and scope.members[0].start)} AND l.{AT} = {SNAPSHOT_OFFSET})"
    return f"(l.{AT} = {SNAPSHOT_OFFSET} OR l.{AT} < {low})"


def _untouched(engine: Engine, scope: Scope, changes: NewestChanges) -> str:
    change = f"SELECT 1 FROM newest AS n WHERE {same_key(engine, 'n', 'l')} AND NOT {_may_outlive_delete(scope)}"
    return f"{_is_older(engine, scope, changes)} AND NOT EXISTS ({change})"


def _may_outlive_delete(scope: Scope) -> str:
    """Returns SQL that is true for a row `l` that may be of a dropped partition although the newest change `n` of its key is a delete.

    No round applies a delete from before the KV snapshot with which the bucket began. In a file that another program rewrote, rows do not
    show their partition.
    """
    return f"(n.{CHANGE} = {DELETED} AND n.{BEFORE_START} AND {bool(scope.place)} AND NOT l.{OURS_COLUMN})"


def _place(scope: Scope) -> str:
    """Returns the scope's name in words."""
    return f"bucket {scope.name}" if scope.bucket is not None else f"partition {scope.place}" if scope.place else "table"


def _key(values: list[Any]) -> str:
    return str(values[0]) if len(values) == 1 else "(" + ", ".join(map(str, values)) + ")"


@dataclass(frozen=True)
class _Side:
    rows: int = 0
    digest: int = 0


def _total(sides: Sequence[_Side]) -> tuple[int, int]:
    return sum(side.rows for side in sides), sum(side.digest for side in sides)


# The quick proof of a scope, mostly a bucket: the lake has as many rows as the log has live keys, with the same checksum. If it holds,
# the rows are the newest changes of their keys, each once, and no further check is needed. If it does not hold (a difference, rows from a
# KV snapshot, a log that was cut), it proves nothing, and the checks compare the rows. Only the keys of a bucket are in memory, or in
# DuckDB's temporary folder.
class QuickProof:
    """Proves `scopes` of one table at one level: by the number of rows, by keys and offsets, or by all columns."""

    def __init__(self, engine: Engine, scopes: Sequence[Scope], level: Level) -> None:
        self._engine = engine
        self.scopes = scopes
        self._columns: list[str] = []
        if level.depth >= Level.OFFSETS.depth:
            self._columns = [*engine.table.primary_key, *([OFFSET_COLUMN] if engine.layout.has_row_offsets else [])]
        if level.depth >= Level.ROWS.depth:
            self._columns = engine.columns
        self._lake = self._read_lake()
        self._proved: dict[tuple[str, int | None], bool] = {}

    @property
    def counted(self) -> Mapping[tuple[str, int | None], int]:
        """Number of rows in the lake, by place."""
        return {place: side.rows for place, side in self._lake.items()}

    def holds(self, scope: Scope) -> bool:
        """Returns True if the scope is proved right at this level; False = it is not proved."""
        place = (scope.place, scope.bucket)
        if place not in self._proved:
            self._proved[place] = self._compare(scope, [side for place, side in self._lake.items() if scope.has(*place)])
        return self._proved[place]

    def _compare(self, scope: Scope, lake: Sequence[_Side]) -> bool:
        if scope.log_start > 0:
            return False  # rows that were last changed before the log begins may be missing, which the log cannot show
        log = [self._read_log(bucket_range) for bucket_range in scope.members]
        return _total(lake) == _total(log)

    def _digest(self) -> str:
        return self._engine.hash_of(*self._columns) if self._columns else "0::UBIGINT"

    def _read_lake(self) -> dict[tuple[str, int | None], _Side]:
        places = f"{PLACE_COLUMN}, {BUCKET_COLUMN}"
        sql = f"SELECT {places}, count(*), sum({self._digest()}) FROM lake GROUP BY {places}"
        return {(place, bucket): _Side(rows, int(digest)) for place, bucket, rows, digest in self._engine.rows(sql)}

    def _read_log(self, bucket_range: BucketRange) -> _Side:
        """Returns the number and checksum of the newest changes of the keys that are not deleted."""
        start, stop = bucket_range.retained
        requested_columns = [OFFSET_COLUMN, CHANGE_TYPE_COLUMN, *self._engine.table.primary_key, *self._columns]
        with self._engine.log(bucket_range, start, stop, list(dict.fromkeys(requested_columns))) as log:
            [(rows, digest)] = self._engine.rows(
                f"SELECT count(*), sum((__lakeward_newest & {_DIGEST_MASK})::UBIGINT) FROM ({_newest(self._engine, self._digest(), log)}) "
                f"WHERE __lakeward_newest & {_LIVES} <> 0"
            )
        return _Side(rows, int(digest or 0))


_DIGEST_MASK = f"{(1 << 64) - 1}::UHUGEINT"
_LIVES = f"{1 << 64}::UHUGEINT"


def _newest(engine: Engine, digest: str, log: str) -> str:
    """Returns SQL of the greatest (offset, whether it lives, digest) of each key, in the bits of one number: far cheaper than `arg_max`."""
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    lives = f"({CHANGE_TYPE_COLUMN} <> {int(ChangeType.DELETE)})::UBIGINT"
    return (
        f"SELECT max((({OFFSET_COLUMN}::UBIGINT * 2 + {lives})::UHUGEINT << 64) | {digest}::UHUGEINT) AS __lakeward_newest FROM {log} "
        f"WHERE {CHANGE_TYPE_COLUMN} <> {int(ChangeType.UPDATE_BEFORE)} GROUP BY {keys}"
    )
