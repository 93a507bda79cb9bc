"""The checks of a primary-key table: one row a key, and that row the newest change of its key.

The newest change of a key is looked for in all of the log that the cluster still holds, also below the offset at which the first round
began: rows that this round took from a KV snapshot (offset -1) are compared as far as the log still has the changes they were made from.
"""

from __future__ import annotations

from typing import Any

from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, SNAPSHOT_OFFSET, TIMESTAMP_COLUMN, ChangeType
from tiering.validate.elsewhere import report_elsewhere
from tiering.validate.engine import IN_BUCKET, Engine, place_parameters
from tiering.validate.lake_view import quoted
from tiering.validate.primary_key_proof import QuickProof
from tiering.validate.report import Report
from tiering.validate.results import Level
from tiering.validate.subject import Stretch

_DELETED = int(ChangeType.DELETE)


def gather(engine: Engine, stretches: tuple[Stretch, ...], level: Level) -> QuickProof:
    """The quick proof of the table; the checks of a bucket ask it first."""
    return QuickProof(engine, level)


def check_counts(engine: Engine, report: Report, stretches: tuple[Stretch, ...], proof: QuickProof) -> None:
    """Checks that a bucket has as many rows as the log has keys whose newest change is no delete."""
    counted = dict(proof.counted)
    for stretch in stretches:
        rows = counted.pop(stretch.place, 0)
        if proof.holds(stretch):
            report.add("rows", stretch.name, True, rows, rows)
            continue
        _fold(engine, stretch)
        [(live,)] = engine.rows(f"SELECT count(*) FROM newest WHERE __change <> {_DELETED}")
        [(older,)] = engine.rows(
            f"SELECT count(*) FROM {_lake(engine)} AS l WHERE {_untouched(engine, stretch)}", place_parameters(stretch)
        )
        report.add("rows", stretch.name, rows == live + older, live + older, rows, None)
        if older:
            text = f"{older} rows were last changed before offset {stretch.held[0]}, where the log begins: taken as they are"
            report.add("rows", stretch.name, None, None, older, text)
    report_elsewhere(report, counted, engine.table.bucket_count)


def check_offsets(engine: Engine, report: Report, stretches: tuple[Stretch, ...], proof: QuickProof) -> None:
    """Checks that no key has two rows, and that no row was changed beyond the marker."""
    for stretch in stretches:
        details = None if proof.holds(stretch) else _wrong_keys(engine, stretch)
        report.add("keys", stretch.name, details is None, "each key once", None, details)


def _wrong_keys(engine: Engine, stretch: Stretch) -> str | None:
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    texts = ", ".join(f"CAST({quoted(key)} AS VARCHAR)" for key in engine.table.primary_key)
    mine = f"FROM lake WHERE {IN_BUCKET}"
    twice = f"SELECT {texts}, count(*) {mine} GROUP BY {keys} HAVING count(*) > 1 ORDER BY {keys} LIMIT 1"
    for *key, times in engine.rows(twice, place_parameters(stretch)):
        return f"bucket {stretch.name}: key {_key(key)} is there {times} times"
    [(beyond,)] = engine.rows(f"SELECT min({OFFSET_COLUMN}) {mine} AND {OFFSET_COLUMN} >= {stretch.tiered}", place_parameters(stretch))
    return None if beyond is None else f"bucket {stretch.name}: offset {beyond} lies beyond {stretch.tiered}"


def check_rows(engine: Engine, report: Report, stretches: tuple[Stretch, ...], proof: QuickProof) -> None:
    """Checks that each row equals the newest change of its key, and that each key that was not deleted has a row."""
    for stretch in stretches:
        details = None
        if not proof.holds(stretch):
            _fold(engine, stretch)
            details = _first_difference(engine, stretch)
        report.add("values", stretch.name, details is None, "the newest change of each key", None, details)


def _fold(engine: Engine, stretch: Stretch) -> None:
    """Creates the table `newest`: offset, time, change type and hash of the user's columns of each key's newest change in the log."""
    start, stop = stretch.held
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    values = {"__time": TIMESTAMP_COLUMN, "__change": CHANGE_TYPE_COLUMN, "__digest": engine.hash_of(*engine.own_columns)}
    newest = ", ".join(f"arg_max({value}, {OFFSET_COLUMN}) AS {name}" for name, value in values.items())
    with engine.log(stretch, start, stop, [*engine.own_columns, OFFSET_COLUMN, TIMESTAMP_COLUMN, CHANGE_TYPE_COLUMN]) as log:
        engine.rows(
            f"CREATE OR REPLACE TEMP TABLE newest AS SELECT {keys}, max({OFFSET_COLUMN}) AS __at, {newest} FROM {log} "
            f"WHERE {CHANGE_TYPE_COLUMN} <> {int(ChangeType.UPDATE_BEFORE)} GROUP BY {keys}"
        )


def _first_difference(engine: Engine, stretch: Stretch) -> str | None:
    keys = ", ".join(f"CAST(coalesce(n.{quoted(key)}, l.{quoted(key)}) AS VARCHAR)" for key in engine.table.primary_key)
    join = " AND ".join(f"n.{quoted(key)} = l.{quoted(key)}" for key in engine.table.primary_key)
    # A row from a KV snapshot has neither offset nor time of its change.
    from_snapshot = f"(l.__at = {SNAPSHOT_OFFSET} AND (n.__at < {stretch.start} OR {stretch.start} = 0))"
    same = f"(l.__digest = n.__digest AND ({from_snapshot} OR (l.__at = n.__at AND l.__time = n.__time)))"
    if not engine.layout.has_row_offsets:
        same = "(l.__digest = n.__digest)"
    dead = f"(n.__change = {_DELETED} AND l.__digest IS NOT NULL)"
    other = f"(n.__change <> {_DELETED} AND {same} IS NOT TRUE)"
    unheard = f"(n.__change IS NULL AND {_is_older(engine, stretch)} IS NOT TRUE)"
    differences = engine.rows(
        f"SELECT {keys}, n.__at, l.__at, n.__change = {_DELETED}, l.__digest IS NULL, l.__digest = n.__digest FROM newest AS n "
        f"FULL JOIN {_lake(engine)} AS l ON {join} WHERE {dead} OR {other} OR {unheard} ORDER BY coalesce(n.__at, l.__at) LIMIT 1",
        place_parameters(stretch),
    )
    if not differences:
        return None
    *key, at, in_lake, is_deleted, is_missing, same_values = differences[0]
    where = f"bucket {stretch.name}: key {_key(key)}"
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


def _difference_in_values(where: str, at: int | None, is_deleted: bool, is_missing: bool) -> str:
    """Of a row that tells no offset."""
    if at is None:
        return f"{where} is in the lake; the log has no change of it"
    if is_deleted:
        return f"{where} was deleted at offset {at} and is still in the lake"
    if is_missing:
        return f"{where}, last changed at offset {at}, is missing"
    return f"{where}, last changed at offset {at}, has other values in the lake"


def _lake(engine: Engine) -> str:
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    digest = engine.hash_of(*engine.own_columns)
    time = TIMESTAMP_COLUMN if engine.layout.has_row_offsets else "NULL"
    return f"(SELECT {keys}, {OFFSET_COLUMN} AS __at, {time} AS __time, {digest} AS __digest FROM lake WHERE {IN_BUCKET})"


def _is_older(engine: Engine, stretch: Stretch) -> str:
    """SQL that is true for a row whose change the log need not hold any more. In a clean table that may be any row of a log that was cut.

    A log that reaches back to its start holds all changes, except those of rows from a KV snapshot in a partition: these may belong to
    a former partition of that name.
    """
    low = stretch.held[0]
    if not engine.layout.has_row_offsets:
        return str(low > 0)
    if low == 0:
        return f"({bool(stretch.place[0] and stretch.start)} AND l.__at = {SNAPSHOT_OFFSET})"
    return f"(l.__at = {SNAPSHOT_OFFSET} OR l.__at < {low})"


def _untouched(engine: Engine, stretch: Stretch) -> str:
    join = " AND ".join(f"n.{quoted(key)} = l.{quoted(key)}" for key in engine.table.primary_key)
    return f"{_is_older(engine, stretch)} AND NOT EXISTS (SELECT 1 FROM newest AS n WHERE {join})"


def _key(values: list[Any]) -> str:
    return str(values[0]) if len(values) == 1 else "(" + ", ".join(map(str, values)) + ")"
