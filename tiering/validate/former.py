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


def set_former_apart(engine: Engine, report: Report, bucket_ranges: tuple[BucketRange, ...]) -> tuple[BucketRange, ...]:
    """Returns the stretches as they can be compared, and removes the rows of former partitions from the view `lake`."""
    if not engine.table.partition_keys:
        return bucket_ranges
    sql = f"SELECT {PLACE_COLUMN}, {BUCKET_COLUMN}, count(*), epoch_us(min({TIMESTAMP_COLUMN})) FROM lake GROUP BY 1, 2"
    lake_rows = {(place, bucket): _LakeRows(rows, oldest_us) for place, bucket, rows, oldest_us in engine.rows(sql)}
    check = _check_keys if engine.table.table_type is TableType.PRIMARY_KEY else _check_log
    return tuple(
        check(engine, report, bucket_range, lake_rows.get(bucket_range.place, _LakeRows(0, None))) for bucket_range in bucket_ranges
    )


@dataclass(frozen=True)
class _LakeRows:
    """Rows of a bucket in the lake. `oldest_us`: microseconds since 1970-01-01 UTC; None = no row has a time."""

    rows: int
    oldest_us: int | None


def _check_log(engine: Engine, report: Report, bucket_range: BucketRange, lake: _LakeRows) -> BucketRange:
    """Finds rows of a former partition, which make a bucket of a log table larger than its marker says."""
    if lake.rows <= bucket_range.tiered - bucket_range.start:
        return bucket_range
    low, stop = bucket_range.readable
    first = _first_time(engine, bucket_range, low, stop)
    before = lake.rows if first is None else _count(engine, bucket_range, f"{TIMESTAMP_COLUMN} < $first", {"first": first})
    former = before - (low - bucket_range.start)
    if former <= 0:
        return bucket_range
    engine.set_apart(bucket_range, first, EVERY_OFFSET)
    text = older_rows_text(former)
    if low > bucket_range.start:
        text += f"; offsets {bucket_range.start} to {low - 1} of this one cannot be told from them"
    report.add("rows", bucket_range.name, None, None, former, text)
    return replace(bucket_range, start=low)


def _check_keys(engine: Engine, report: Report, bucket_range: BucketRange, lake: _LakeRows) -> BucketRange:
    """Finds rows as old as a former partition's which the log cannot have written. Other checks report the rows below the log's start."""
    low, stop = bucket_range.retained
    if lake.rows > 0 and bucket_range.tiered == 0:  # no row of this partition is in the lake yet
        return _all_former(engine, report, bucket_range, lake.rows)
    if lake.rows == 0 or low >= stop:
        return bucket_range
    first = _first_time(engine, bucket_range, low, stop)
    if first is None:  # all tiered offsets of its log have no record
        return _all_former(engine, report, bucket_range, lake.rows) if low == 0 else bucket_range
    if lake.oldest_us is not None and lake.oldest_us >= to_microseconds(first):
        return bucket_range  # avoids a scan of all files for each of many buckets
    lowest = SNAPSHOT_OFFSET if low == bucket_range.start == 0 else low
    former = _count(engine, bucket_range, f"{TIMESTAMP_COLUMN} < $first AND {OFFSET_COLUMN} >= {lowest}", {"first": first})
    if former:
        engine.set_apart(bucket_range, first, lowest)
        report.add("rows", bucket_range.name, None, None, former, older_rows_text(former))
    return bucket_range


def _all_former(engine: Engine, report: Report, bucket_range: BucketRange, rows: int) -> BucketRange:
    engine.set_apart(bucket_range, None, EVERY_OFFSET)
    report.add("rows", bucket_range.name, None, None, rows, older_rows_text(rows))
    return bucket_range


def older_rows_text(former: int) -> str:
    """Returns the number of older rows in words."""
    return f"{former} rows are older than the partition's log: of a former partition of that name, taken as they are"


def _first_time(engine: Engine, bucket_range: BucketRange, low: int, stop: int) -> datetime | None:
    """Returns the time of the first record in `[low, stop)`. Not every offset has a record."""
    size = 1
    while low < stop:
        with engine.log(bucket_range, low, min(low + size, stop), [OFFSET_COLUMN, TIMESTAMP_COLUMN]) as log:
            for (time,) in engine.rows(f"SELECT {TIMESTAMP_COLUMN} FROM {log} ORDER BY {OFFSET_COLUMN} LIMIT 1"):
                assert isinstance(time, datetime)
                return time
        low, size = low + size, size * LOOK_FARTHER
    return None


def _count(engine: Engine, bucket_range: BucketRange, condition: str, parameters: Mapping[str, object]) -> int:
    [(count,)] = engine.rows(
        f"SELECT count(*) FROM lake WHERE {IN_BUCKET} AND {condition}", {**place_parameters(bucket_range), **parameters}
    )
    return int(count)
