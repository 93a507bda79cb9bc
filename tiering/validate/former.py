"""Finds rows of a partition that was dropped and then recreated under the same name.

Rows in a lake name their partition only by its values, and rows of a dropped partition stay. They are older than the first record of the
new partition's log. So the validation can count and report them, and does not compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tiering.instants import to_microseconds
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, SNAPSHOT_OFFSET, TIMESTAMP_COLUMN, TableType
from tiering.validate.engine import IN_BUCKET, Engine, place_parameters
from tiering.validate.lake_view import PLACE_COLUMN
from tiering.validate.report import Report
from tiering.validate.subject import BucketRange

EVERY_OFFSET = -(2**63)
"""An offset below every real one."""
LOOK_FARTHER = 100
"""Factor by which each next read is longer while no record was found. Nearly always the first offset has a record."""


def set_former_apart(engine: Engine, report: Report, stretches: tuple[BucketRange, ...]) -> tuple[BucketRange, ...]:
    """Returns the stretches as they can be compared, and removes the rows of former partitions from the view `lake`."""
    if not engine.table.partition_keys:
        return stretches
    sql = f"SELECT {PLACE_COLUMN}, {BUCKET_COLUMN}, count(*), epoch_us(min({TIMESTAMP_COLUMN})) FROM lake GROUP BY 1, 2"
    lake_rows = {(place, bucket): _LakeRows(rows, oldest_us) for place, bucket, rows, oldest_us in engine.rows(sql)}
    look = _look_at_keys if engine.table.table_type is TableType.PRIMARY_KEY else _look_at_log
    return tuple(look(engine, report, stretch, lake_rows.get(stretch.place, _LakeRows(0, None))) for stretch in stretches)


@dataclass(frozen=True)
class _LakeRows:
    """Rows of a bucket in the lake. `oldest_us`: microseconds since 1970-01-01 UTC; None = no row has a time."""

    rows: int
    oldest_us: int | None


def _look_at_log(engine: Engine, report: Report, stretch: BucketRange, lake: _LakeRows) -> BucketRange:
    """Finds rows of a former partition, which make a bucket of a log table larger than its marker says."""
    if lake.rows <= stretch.tiered - stretch.start:
        return stretch
    low, stop = stretch.readable
    first = _first_time(engine, stretch, low, stop)
    before = lake.rows if first is None else _count(engine, stretch, f"{TIMESTAMP_COLUMN} < $first", {"first": first})
    former = before - (low - stretch.start)
    if former <= 0:
        return stretch
    engine.set_apart(stretch, first, EVERY_OFFSET)
    text = older_rows_text(former)
    if low > stretch.start:
        text += f"; offsets {stretch.start} to {low - 1} of this one cannot be told from them"
    report.add("rows", stretch.name, None, None, former, text)
    return replace(stretch, start=low)


def _look_at_keys(engine: Engine, report: Report, stretch: BucketRange, lake: _LakeRows) -> BucketRange:
    """Finds rows as old as a former partition's which the log cannot have written. Other checks report the rows below the log's start."""
    low, stop = stretch.held
    if lake.rows > 0 and stretch.tiered == 0:  # no row of this partition is in the lake yet
        return _all_former(engine, report, stretch, lake.rows)
    if lake.rows == 0 or low >= stop:
        return stretch
    first = _first_time(engine, stretch, low, stop)
    if first is None:  # all tiered offsets of its log have no record
        return _all_former(engine, report, stretch, lake.rows) if low == 0 else stretch
    if lake.oldest_us is not None and lake.oldest_us >= to_microseconds(first):
        return stretch  # avoids a scan of all files for each of many buckets
    lowest = SNAPSHOT_OFFSET if low == stretch.start == 0 else low
    former = _count(engine, stretch, f"{TIMESTAMP_COLUMN} < $first AND {OFFSET_COLUMN} >= {lowest}", {"first": first})
    if former:
        engine.set_apart(stretch, first, lowest)
        report.add("rows", stretch.name, None, None, former, older_rows_text(former))
    return stretch


def _all_former(engine: Engine, report: Report, stretch: BucketRange, rows: int) -> BucketRange:
    engine.set_apart(stretch, None, EVERY_OFFSET)
    report.add("rows", stretch.name, None, None, rows, older_rows_text(rows))
    return stretch


def older_rows_text(former: int) -> str:
    """Returns the number of older rows in words."""
    return f"{former} rows are older than the partition's log: of a former partition of that name, taken as they are"


def _first_time(engine: Engine, stretch: BucketRange, low: int, stop: int) -> datetime | None:
    """Returns the time of the first record in `[low, stop)`. Not every offset has a record."""
    size = 1
    while low < stop:
        with engine.log(stretch, low, min(low + size, stop), [OFFSET_COLUMN, TIMESTAMP_COLUMN]) as log:
            for (time,) in engine.rows(f"SELECT {TIMESTAMP_COLUMN} FROM {log} ORDER BY {OFFSET_COLUMN} LIMIT 1"):
                assert isinstance(time, datetime)
                return time
        low, size = low + size, size * LOOK_FARTHER
    return None


def _count(engine: Engine, stretch: BucketRange, condition: str, parameters: Mapping[str, object]) -> int:
    [(count,)] = engine.rows(f"SELECT count(*) FROM lake WHERE {IN_BUCKET} AND {condition}", {**place_parameters(stretch), **parameters})
    return int(count)
