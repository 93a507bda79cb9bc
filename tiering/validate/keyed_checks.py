"""The checks of a primary-key table: one row a key, and that row the newest change of its key."""

from __future__ import annotations

from typing import Any

from tiering.model import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, SNAPSHOT_OFFSET, ChangeType
from tiering.validate.engine import Engine, quoted
from tiering.validate.report import Report
from tiering.validate.subject import Stretch

_OFFSET, _CHANGE = quoted(OFFSET_COLUMN), quoted(CHANGE_TYPE_COLUMN)


def check_counts(engine: Engine, report: Report, stretches: tuple[Stretch, ...]) -> None:
    """As many rows as keys that live, by the newest change of each key in the log."""
    for one in stretches:
        _fold(engine, one)
        [(live,)] = engine.rows(f"SELECT count(*) FROM newest WHERE change <> {int(ChangeType.DELETE)}")
        [(older,)] = engine.rows(f"SELECT count(*) FROM {_lake(engine, one)} AS l WHERE {_untouched(engine, one)}", _place(one))
        [(rows,)] = engine.rows("SELECT count(*) FROM lake WHERE place = $place AND __bucket = $bucket", _place(one))
        report.add("rows", one.name, rows == live + older, live + older, rows, None)
        if older:
            text = f"{older} rows were last changed before offset {one.readable[0]}, which the log no longer holds: taken as they are"
            report.add("rows", one.name, None, None, older, text)


def check_offsets(engine: Engine, report: Report, stretches: tuple[Stretch, ...]) -> None:
    """No key twice, and no change beyond the marker."""
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    for one in stretches:
        mine = "FROM lake WHERE place = $place AND __bucket = $bucket"
        double = engine.rows(f"SELECT {keys}, count(*) {mine} GROUP BY {keys} HAVING count(*) > 1 ORDER BY {keys} LIMIT 1", _place(one))
        details = None
        if double:
            *key, times = double[0]
            details = f"bucket {one.name}: key {_key(key)} is there {times} times"
        beyond = engine.rows(f"SELECT min({_OFFSET}) {mine} AND {_OFFSET} >= {one.tiered}", _place(one))
        if details is None and beyond[0][0] is not None:
            details = f"bucket {one.name}: offset {beyond[0][0]} lies beyond {one.tiered}"
        report.add("keys", one.name, details is None, "each key once", None, details)


def check_rows(engine: Engine, report: Report, stretches: tuple[Stretch, ...]) -> None:
    """Each row equals the newest change of its key, and each key that lives has its row."""
    for one in stretches:
        _fold(engine, one)
        details = _first_difference(engine, one)
        report.add("values", one.name, details is None, "the newest change of each key", None, details)


def _fold(engine: Engine, one: Stretch) -> None:
    """Table `newest`: offset, change type and the row's hash of the newest change of each key in the readable log."""
    start, stop = one.readable
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    columns = [*engine.columns, CHANGE_TYPE_COLUMN]
    with engine.log(one, start, stop, columns) as log:
        engine.rows(
            f"CREATE OR REPLACE TEMP TABLE newest AS SELECT {keys}, max({_OFFSET}) AS at, arg_max({_CHANGE}, {_OFFSET}) AS change, "
            f"arg_max({engine.hash_of_row()}, {_OFFSET}) AS digest FROM {log} "
            f"WHERE {_CHANGE} <> {int(ChangeType.UPDATE_BEFORE)} GROUP BY {keys}"
        )


def _first_difference(engine: Engine, one: Stretch) -> str | None:
    keys = ", ".join(f"coalesce(n.{quoted(key)}, l.{quoted(key)})" for key in engine.table.primary_key)
    join = " AND ".join(f"n.{quoted(key)} = l.{quoted(key)}" for key in engine.table.primary_key)
    deleted = int(ChangeType.DELETE)
    sql = (
        f"SELECT {keys}, n.at, l.at, n.change = {deleted} FROM newest AS n FULL JOIN {_lake(engine, one)} AS l ON {join} "
        f"WHERE (n.change = {deleted} AND l.digest IS NOT NULL) OR (n.change <> {deleted} AND l.digest IS DISTINCT FROM n.digest) "
        f"OR (n.change IS NULL AND l.at >= {one.readable[0]}) ORDER BY coalesce(n.at, l.at) LIMIT 1"
    )
    found = engine.rows(sql, _place(one))
    if not found:
        return None
    *key, at, in_lake, is_deleted = found[0]
    where = f"bucket {one.name}: key {_key(key)}"
    if at is None:
        return f"{where} has offset {in_lake} in the lake; the log has no such change"
    if is_deleted:
        return f"{where} was deleted at offset {at} and is still in the lake (offset {in_lake})"
    if in_lake is None:
        return f"{where}, last changed at offset {at}, is missing"
    if in_lake != at:
        return f"{where} was last changed at offset {at}; the lake has it of offset {in_lake}"
    return f"{where}, last changed at offset {at}, has other values in the lake"


def _lake(engine: Engine, one: Stretch) -> str:
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    return f"(SELECT {keys}, {_OFFSET} AS at, {engine.hash_of_row()} AS digest FROM lake WHERE place = $place AND __bucket = $bucket)"


def _untouched(engine: Engine, one: Stretch) -> str:
    join = " AND ".join(f"n.{quoted(key)} = l.{quoted(key)}" for key in engine.table.primary_key)
    old = f"(l.at = {SNAPSHOT_OFFSET} OR l.at < {one.readable[0]})"
    return f"{old} AND NOT EXISTS (SELECT 1 FROM newest AS n WHERE {join})"


def _place(one: Stretch) -> dict[str, object]:
    return {"place": one.place[0], "bucket": one.place[1]}


def _key(values: list[Any]) -> str:
    return str(values[0]) if len(values) == 1 else "(" + ", ".join(map(str, values)) + ")"
