"""The checks of a primary-key table: one row a key, and that row the newest change of its key.

The newest change of a key is looked for in all of the log that the cluster still holds, also below the offset at which the first round
began: rows that this round took from a KV snapshot (offset -1) are compared as far as the log still has the changes they were made from.
"""

from __future__ import annotations

from typing import Any

from tiering.counts import counted
from tiering.lake.column_names import RESERVED_PREFIX
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, SNAPSHOT_OFFSET, TIMESTAMP_COLUMN, ChangeType
from tiering.validate.clean.footers import OURS_COLUMN
from tiering.validate.elsewhere import report_elsewhere
from tiering.validate.engine import Engine
from tiering.validate.key_scopes import KeyScope, key_scopes
from tiering.validate.lake_view import quoted
from tiering.validate.primary_key_proof import QuickProof
from tiering.validate.report import Report
from tiering.validate.results import Level
from tiering.validate.subject import Stretch

_DELETED = int(ChangeType.DELETE)
_AT, _TIME = f"{RESERVED_PREFIX}at", f"{RESERVED_PREFIX}time"
_CHANGE, _DIGEST = f"{RESERVED_PREFIX}change", f"{RESERVED_PREFIX}digest"
_BEFORE_START = f"{RESERVED_PREFIX}before_start"
"""Columns that are made here: offset, time, change type, hash of the user's columns; whether the first round began behind the offset."""

UNNAMED = "not in the log, or of a former partition of that name: files that somebody wrote anew do not tell"


def gather(engine: Engine, stretches: tuple[Stretch, ...], level: Level) -> QuickProof:
    """The quick proof of the table; the checks of a scope ask it first."""
    return QuickProof(engine, key_scopes(engine, stretches), level)


def check_counts(engine: Engine, report: Report, stretches: tuple[Stretch, ...], proof: QuickProof) -> None:
    """Checks that a scope has as many rows as the log has keys whose newest change is no delete."""
    left = dict(proof.counted)
    for scope in proof.scopes:
        rows = sum(left.pop(place) for place in list(left) if scope.has(*place))
        if not scope.members:
            report.add("rows", scope.name, None, None, rows, "the marker names no such partition: one that was dropped, or somebody's own")
        elif proof.holds(scope):
            report.add("rows", scope.name, True, rows, rows)
        else:
            _count_rows(engine, report, scope, rows)
    report_elsewhere(report, left, engine.table.bucket_count)


def _count_rows(engine: Engine, report: Report, scope: KeyScope, rows: int) -> None:
    _fold(engine, scope)
    [(live,)] = engine.rows(f"SELECT count(*) FROM newest WHERE {_CHANGE} <> {_DELETED}")
    [(older, unnamed)] = engine.rows(
        f"SELECT count(*), count(*) FILTER (NOT l.{OURS_COLUMN}) FROM {_lake(engine, scope)} AS l WHERE {_untouched(engine, scope)}",
        scope.parameters,
    )
    report.add("rows", scope.name, rows == live + older, live + older, rows, None)
    cut = scope.log_start
    if older and cut:
        text = f"{older} rows were last changed before offset {cut}, where the log begins: taken as they are"
        report.add("rows", scope.name, None, None, older, text)
    elif unnamed:
        report.add("rows", scope.name, None, None, unnamed, f"{counted(unnamed, 'row')} {UNNAMED}")


def check_offsets(engine: Engine, report: Report, stretches: tuple[Stretch, ...], proof: QuickProof) -> None:
    """Checks that no key has two rows, and that no row was changed beyond the marker."""
    for scope in proof.scopes:
        if scope.members:
            details = None if proof.holds(scope) else _wrong_keys(engine, scope)
            report.add("keys", scope.name, details is None, "each key once", None, details)


def _wrong_keys(engine: Engine, scope: KeyScope) -> str | None:
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    texts = ", ".join(f"CAST({quoted(key)} AS VARCHAR)" for key in engine.table.primary_key)
    mine = f"FROM lake WHERE {scope.condition}"
    twice = f"SELECT {texts}, count(*) {mine} GROUP BY {keys} HAVING count(*) > 1 ORDER BY {keys} LIMIT 1"
    for *key, times in engine.rows(twice, scope.parameters):
        return f"{_place(scope)}: key {_key(key)} is there {times} times"
    if scope.bucket is None:
        return None  # its rows tell no offsets
    tiered = scope.members[0].tiered
    [(beyond,)] = engine.rows(f"SELECT min({OFFSET_COLUMN}) {mine} AND {OFFSET_COLUMN} >= {tiered}", scope.parameters)
    return None if beyond is None else f"{_place(scope)}: offset {beyond} lies beyond {tiered}"


def check_rows(engine: Engine, report: Report, stretches: tuple[Stretch, ...], proof: QuickProof) -> None:
    """Checks that each row equals the newest change of its key, and that each key that was not deleted has a row."""
    for scope in proof.scopes:
        details = None
        if not scope.members:
            continue
        if not proof.holds(scope):
            _fold(engine, scope)
            details = _first_difference(engine, scope)
        report.add("values", scope.name, details is None, "the newest change of each key", None, details)


def _fold(engine: Engine, scope: KeyScope) -> None:
    """Creates the table `newest`: offset, time, change type and hash of the user's columns of each key's newest change in the log.

    `__before_start`: the change was made before the KV snapshot with which the first round of the bucket began.
    """
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    values = {
        _TIME: TIMESTAMP_COLUMN,
        _CHANGE: CHANGE_TYPE_COLUMN,
        _DIGEST: engine.hash_of(*engine.own_columns),
    }
    newest = ", ".join(f"arg_max({value}, {OFFSET_COLUMN}) AS {name}" for name, value in values.items())
    into, at = "CREATE OR REPLACE TEMP TABLE newest AS", f"max({OFFSET_COLUMN})"
    for stretch in scope.members:
        start, stop = stretch.held
        with engine.log(stretch, start, stop, [*engine.own_columns, OFFSET_COLUMN, TIMESTAMP_COLUMN, CHANGE_TYPE_COLUMN]) as log:
            engine.rows(
                f"{into} SELECT {keys}, {at} AS {_AT}, {at} < {stretch.start} AS {_BEFORE_START}, {newest} FROM {log} "
                f"WHERE {CHANGE_TYPE_COLUMN} <> {int(ChangeType.UPDATE_BEFORE)} GROUP BY {keys}"
            )
        into = "INSERT INTO newest"


def _first_difference(engine: Engine, scope: KeyScope) -> str | None:
    keys = ", ".join(f"CAST(coalesce(n.{quoted(key)}, l.{quoted(key)}) AS VARCHAR)" for key in engine.table.primary_key)
    join = " AND ".join(f"n.{quoted(key)} = l.{quoted(key)}" for key in engine.table.primary_key)
    dead = f"(n.{_CHANGE} = {_DELETED} AND l.{_DIGEST} IS NOT NULL AND NOT {_may_outlive_delete(scope)})"
    other = f"(n.{_CHANGE} <> {_DELETED} AND {_is_same(engine, scope)} IS NOT TRUE)"
    unheard = f"(n.{_CHANGE} IS NULL AND {_is_older(engine, scope)} IS NOT TRUE)"
    differences = engine.rows(
        f"SELECT {keys}, n.{_AT}, l.{_AT}, n.{_CHANGE} = {_DELETED}, l.{_DIGEST} IS NULL, l.{_DIGEST} = n.{_DIGEST} FROM newest AS n "
        f"FULL JOIN {_lake(engine, scope)} AS l ON {join} WHERE {dead} OR {other} OR {unheard} ORDER BY coalesce(n.{_AT}, l.{_AT}) LIMIT 1",
        scope.parameters,
    )
    if not differences:
        return None
    *key, at, in_lake, is_deleted, is_missing, same_values = differences[0]
    where = f"{_place(scope)}: key {_key(key)}"
    if not engine.layout.has_row_offsets:
        return _difference_in_values(where, at, is_deleted, is_missing)
    if at is None:
        return f"{where} has offset {in_lake} in the lake; the log has no such change"
    if is_deleted:
        return f"{where} was deleted at offset {at} and is still in the lake (offset {in_lake})"
    if is_missing:
        return f"{where}, last changed at offset {at}, is missing"
    if in_lake not in (at, SNAPSHOT_OFFSET):
        return f"{where} was last changed at offset {at}; the lake has it of offset {in_lake}"
    return f"{where}, last changed at offset {at}, has {'another offset or time' if same_values else 'other values'} in the lake"


def _is_same(engine: Engine, scope: KeyScope) -> str:
    """SQL that is true for a row `l` of the lake that is the change `n`."""
    if not engine.layout.has_row_offsets:
        return f"(l.{_DIGEST} = n.{_DIGEST})"
    start = scope.members[0].start
    # A row from a KV snapshot has neither offset nor time of its change.
    from_snapshot = f"(l.{_AT} = {SNAPSHOT_OFFSET} AND (n.{_AT} < {start} OR {start} = 0))"
    return f"(l.{_DIGEST} = n.{_DIGEST} AND ({from_snapshot} OR (l.{_AT} = n.{_AT} AND l.{_TIME} = n.{_TIME})))"


def _difference_in_values(where: str, at: int | None, is_deleted: bool, is_missing: bool) -> str:
    """Of a row that tells no offset."""
    if at is None:
        return f"{where} is in the lake; the log has no change of it"
    if is_deleted:
        return f"{where} was deleted at offset {at} and is still in the lake"
    if is_missing:
        return f"{where}, last changed at offset {at}, is missing"
    return f"{where}, last changed at offset {at}, has other values in the lake"


def _lake(engine: Engine, scope: KeyScope) -> str:
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    digest = engine.hash_of(*engine.own_columns)
    time, ours = (TIMESTAMP_COLUMN, "TRUE") if engine.layout.has_row_offsets else ("NULL", OURS_COLUMN)
    columns = f"{keys}, {OFFSET_COLUMN} AS {_AT}, {time} AS {_TIME}, {digest} AS {_DIGEST}, {ours} AS {OURS_COLUMN}"
    return f"(SELECT {columns} FROM lake WHERE {scope.condition})"


def _is_older(engine: Engine, scope: KeyScope) -> str:
    """SQL that is true for a row whose change the log need not hold any more.

    A log that reaches back to its start holds all changes, except those of rows from a KV snapshot in a partition: these may belong to
    a former partition of that name. In a clean table any row may be older than a log that was cut, and of a former partition what lies
    in a file that somebody else wrote.
    """
    low = scope.log_start
    if not engine.layout.has_row_offsets:
        return f"({low > 0} OR ({bool(scope.place)} AND NOT l.{OURS_COLUMN}))"
    if low == 0:
        return f"({bool(scope.place and scope.members[0].start)} AND l.{_AT} = {SNAPSHOT_OFFSET})"
    return f"(l.{_AT} = {SNAPSHOT_OFFSET} OR l.{_AT} < {low})"


def _untouched(engine: Engine, scope: KeyScope) -> str:
    join = " AND ".join(f"n.{quoted(key)} = l.{quoted(key)}" for key in engine.table.primary_key)
    change = f"SELECT 1 FROM newest AS n WHERE {join} AND NOT {_may_outlive_delete(scope)}"
    return f"{_is_older(engine, scope)} AND NOT EXISTS ({change})"


def _may_outlive_delete(scope: KeyScope) -> str:
    """SQL that is true for a row `l` that may be a dropped partition's although the newest change `n` of its key is a delete.

    No round applies a delete from before the KV snapshot with which the bucket began. In a file that a user rewrote, nothing tells whose
    the row is.
    """
    return f"(n.{_CHANGE} = {_DELETED} AND n.{_BEFORE_START} AND {bool(scope.place)} AND NOT l.{OURS_COLUMN})"


def _place(scope: KeyScope) -> str:
    """For people."""
    return f"bucket {scope.name}" if scope.bucket is not None else f"partition {scope.place}" if scope.place else "table"


def _key(values: list[Any]) -> str:
    return str(values[0]) if len(values) == 1 else "(" + ", ".join(map(str, values)) + ")"
