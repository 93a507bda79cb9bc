"""Rows of a partition that was dropped, and then made anew under the same name.

Rows in a lake name their partition by its values alone, and a dropped one's stay. They are older than the first record of the new
one's log, which tells them apart: they are counted and said, and not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, SNAPSHOT_OFFSET, TIMESTAMP_COLUMN, TableType
from tiering.validate.engine import IN_BUCKET, Engine, place_parameters
from tiering.validate.lake_view import PLACE_COLUMN
from tiering.validate.report import Report
from tiering.validate.subject import Stretch

EVERY_OFFSET = -(2**63)
"""Lower than any."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def set_former_apart(engine: Engine, report: Report, stretches: tuple[Stretch, ...]) -> tuple[Stretch, ...]:
    """The stretches as they can be compared; the view `lake` is left without the rows of former partitions."""
    if not engine.table.partition_keys:
        return stretches
    sql = f"SELECT {PLACE_COLUMN}, {BUCKET_COLUMN}, count(*), epoch_us(min({TIMESTAMP_COLUMN})) FROM lake GROUP BY 1, 2"
    found = {(place, bucket): _Found(rows, oldest_us) for place, bucket, rows, oldest_us in engine.rows(sql)}
    look = _look_at_keys if engine.table.table_type is TableType.PRIMARY_KEY else _look_at_log
    return tuple(look(engine, report, one, found.get(one.place, _Found(0, None))) for one in stretches)


@dataclass(frozen=True)
class _Found:
    """Of a bucket in the lake. `oldest_us`: since 1970-01-01 UTC; None = no row has a time."""

    rows: int
    oldest_us: int | None


def _look_at_log(engine: Engine, report: Report, one: Stretch, lake: _Found) -> Stretch:
    """A former partition's rows make a bucket of a log table hold more than its marker says."""
    if lake.rows <= one.tiered - one.start:
        return one
    low, stop = one.readable
    first = _time_of(engine, one, low) if low < stop else None
    before = lake.rows if first is None else _count(engine, one, f"{TIMESTAMP_COLUMN} < $first", {"first": first})
    former = before - (low - one.start)
    if former <= 0:
        return one
    engine.set_apart(one, first, EVERY_OFFSET)
    text = _said(former)
    if low > one.start:
        text += f"; offsets {one.start} to {low - 1} of this one cannot be told from them"
    report.add("rows", one.name, None, None, former, text)
    return replace(one, start=low)


def _look_at_keys(engine: Engine, report: Report, one: Stretch, lake: _Found) -> Stretch:
    """Rows as old as a former partition's that the log cannot have written; those below what it holds are told elsewhere."""
    low, stop = one.held
    if lake.rows > 0 and one.tiered == 0:  # nothing of this partition is in the lake yet
        return _all_former(engine, report, one, lake.rows)
    if lake.rows == 0 or low >= stop:
        return one
    first = _time_of(engine, one, low)
    if lake.oldest_us is not None and lake.oldest_us >= (first - _EPOCH) // timedelta(microseconds=1):
        return one  # without a look at all files for each of many buckets
    lowest = SNAPSHOT_OFFSET if low == one.start == 0 else low
    former = _count(engine, one, f"{TIMESTAMP_COLUMN} < $first AND {OFFSET_COLUMN} >= {lowest}", {"first": first})
    if former:
        engine.set_apart(one, first, lowest)
        report.add("rows", one.name, None, None, former, _said(former))
    return one


def _all_former(engine: Engine, report: Report, one: Stretch, rows: int) -> Stretch:
    engine.set_apart(one, None, EVERY_OFFSET)
    report.add("rows", one.name, None, None, rows, _said(rows))
    return one


def _said(former: int) -> str:
    return f"{former} rows are older than the partition's log: of a former partition of that name, taken as they are"


def _time_of(engine: Engine, one: Stretch, offset: int) -> datetime:
    with engine.log(one, offset, offset + 1, [TIMESTAMP_COLUMN]) as log:
        [(found,)] = engine.rows(f"SELECT {TIMESTAMP_COLUMN} FROM {log}")
    assert isinstance(found, datetime)
    return found


def _count(engine: Engine, one: Stretch, condition: str, parameters: Mapping[str, object]) -> int:
    [(count,)] = engine.rows(f"SELECT count(*) FROM lake WHERE {IN_BUCKET} AND {condition}", {**place_parameters(one), **parameters})
    return int(count)
