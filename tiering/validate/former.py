"""Rows of a partition that was dropped, and then made anew under the same name.

Rows in a lake name their partition by its values alone, and a dropped one's stay. They are older than the first record of the new
one's log, which tells them apart: they are counted and said, and not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiering.model import BUCKET_COLUMN, OFFSET_COLUMN, SNAPSHOT_OFFSET, TIMESTAMP_COLUMN, TableType
from tiering.validate.engine import IN_BUCKET, Engine, place_parameters
from tiering.validate.lake_view import PLACE_COLUMN
from tiering.validate.report import Report
from tiering.validate.subject import Stretch

EVERY_OFFSET = -(2**63)
"""Lower than any."""


def set_former_apart(engine: Engine, report: Report, stretches: tuple[Stretch, ...]) -> tuple[Stretch, ...]:
    """The stretches as they can be compared; the view `lake` is left without the rows of former partitions."""
    if not engine.table.partition_keys:
        return stretches
    counted = {(row[0], row[1]): row[2] for row in engine.rows(f"SELECT {PLACE_COLUMN}, {BUCKET_COLUMN}, count(*) FROM lake GROUP BY 1, 2")}
    look = _look_at_keys if engine.table.table_type is TableType.PRIMARY_KEY else _look_at_log
    return tuple(look(engine, report, one, counted.get(one.place, 0)) for one in stretches)


def _look_at_log(engine: Engine, report: Report, one: Stretch, rows: int) -> Stretch:
    """A former partition's rows make a bucket of a log table hold more than its marker says."""
    if rows <= one.tiered - one.start:
        return one
    low, stop = one.readable
    first = _time_of(engine, one, low) if low < stop else None
    before = rows if first is None else _count(engine, one, f"{TIMESTAMP_COLUMN} < $first", {"first": first})
    former = before - (low - one.start)
    if former <= 0:
        return one
    engine.set_apart(one, first, EVERY_OFFSET)
    text = f"{former} rows are older than the partition's log: of a former partition of that name, taken as they are"
    if low > one.start:
        text += f"; offsets {one.start} to {low - 1} of this one cannot be told from them"
    report.add("rows", one.name, None, None, former, text)
    return replace(one, start=low)


def _look_at_keys(engine: Engine, report: Report, one: Stretch, rows: int) -> Stretch:
    """Rows as old as a former partition's that the log cannot have written; those below what it holds are told elsewhere."""
    low, stop = one.held
    if rows == 0 or low >= stop:
        return one
    first = _time_of(engine, one, low)
    lowest = SNAPSHOT_OFFSET if low == one.start == 0 else low
    former = _count(engine, one, f"{TIMESTAMP_COLUMN} < $first AND {OFFSET_COLUMN} >= {lowest}", {"first": first})
    if former:
        engine.set_apart(one, first, lowest)
        text = f"{former} rows are older than the partition's log: of a former partition of that name, taken as they are"
        report.add("rows", one.name, None, None, former, text)
    return one


def _time_of(engine: Engine, one: Stretch, offset: int) -> object:
    with engine.log(one, offset, offset + 1, [TIMESTAMP_COLUMN]) as log:
        [(found,)] = engine.rows(f"SELECT {TIMESTAMP_COLUMN} FROM {log}")
    return found


def _count(engine: Engine, one: Stretch, condition: str, parameters: Mapping[str, object]) -> int:
    [(count,)] = engine.rows(f"SELECT count(*) FROM lake WHERE {IN_BUCKET} AND {condition}", {**place_parameters(one), **parameters})
    return int(count)
