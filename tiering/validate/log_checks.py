"""Checks a log table: rows per bucket, every offset exactly once, and the same values on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiering.counts import counted
from tiering.lake.proof.file_footer import Run
from tiering.lake.schema.sql_text import text_literal
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN
from tiering.validate.engine import IN_BUCKET, Engine, place_parameters
from tiering.validate.lake_view import PLACE_COLUMN
from tiering.validate.report import Report, report_elsewhere
from tiering.validate.results import Level
from tiering.validate.subject import BucketRange

BLOCK_BITS = 12
"""Bits of an offset within a block. Large enough for few blocks at many rows, and small enough for a bitmap of 512 bytes per thread and
bucket."""
BLOCK_OFFSETS = 1 << BLOCK_BITS
NO_OFFSET_BLOCK = -1
"""Block of rows whose offset is NULL, and of some negative ones: never right."""
BLOCK = f"coalesce({OFFSET_COLUMN} >> {BLOCK_BITS}, {NO_OFFSET_BLOCK})"
"""SQL for a row's block."""

Place = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Block:
    """Totals of one block. `offsets`: the number of different offsets from `lowest` to `highest`. `readable` rows, whose offsets the log
    still has, have the checksum `digest`. Totals that a level does not need are 0 or None."""

    rows: int
    offsets: int = 0
    lowest: int | None = None
    highest: int | None = None
    readable: int = 0
    digest: int = 0

    def is_each_of(self, low: int, high: int, count: int) -> bool:
        """Returns whether the block has `count` offsets of `[low, high)`, each once, and no others."""
        if count == 0:
            return self.rows == 0
        inside = self.lowest is not None and self.highest is not None and low <= self.lowest and self.highest < high
        return inside and self.rows == self.offsets == count


LakeBlocks = Mapping[Place, Mapping[int, Block]]


def gather(engine: Engine, bucket_ranges: tuple[BucketRange, ...], level: Level) -> LakeBlocks:
    """Returns the blocks by place and number, with the totals that `level` needs. At level counts all rows of a bucket are one block."""
    columns = [PLACE_COLUMN, BUCKET_COLUMN, "0" if level is Level.COUNTS else BLOCK, "count(*)"]
    source, readable = "lake", ""
    if level.depth >= Level.OFFSETS.depth:
        # The number of bits counts different offsets in any order. The number of rows shows whether an offset is there twice.
        last = BLOCK_OFFSETS - 1
        bits = f"bit_count(bitstring_agg({OFFSET_COLUMN} & {last}, 0, {last}))"
        columns += [f"coalesce({bits}, 0)", f"min({OFFSET_COLUMN})", f"max({OFFSET_COLUMN})"]
    if level.depth >= Level.ROWS.depth:
        if any(bucket_range.start < bucket_range.readable[0] for bucket_range in bucket_ranges):
            source, readable = _with_bounds(bucket_ranges), f" FILTER (({OFFSET_COLUMN} >= __lakeward_low) IS NOT FALSE)"
        columns += [f"count(*){readable}", f"coalesce(sum({engine.hash_of(*engine.columns)}){readable}, 0)"]
    blocks: dict[Place, dict[int, Block]] = {}
    for place, bucket, block, *values in engine.rows(f"SELECT {', '.join(columns)} FROM {source} GROUP BY ALL"):
        blocks.setdefault((place, bucket), {})[block] = Block(*values)
    return blocks


def _with_bounds(bucket_ranges: tuple[BucketRange, ...]) -> str:
    """Returns the lake's rows with the first offset `__lakeward_low` of their bucket that the log still has."""
    bounds = ", ".join(
        f"({text_literal(bucket_range.place[0])}, {bucket_range.place[1]}, {bucket_range.readable[0]})" for bucket_range in bucket_ranges
    )
    same_bucket = f"{PLACE_COLUMN} = b.p AND {BUCKET_COLUMN} = b.n"
    return f"(SELECT lake.*, b.__lakeward_low FROM lake LEFT JOIN (VALUES {bounds}) AS b(p, n, __lakeward_low) ON {same_bucket})"


def digests_of_log(engine: Engine, bucket_range: BucketRange) -> Mapping[int, tuple[int, int]]:
    """Returns the number of rows and the checksum of each block in the log."""
    start, stop = bucket_range.readable
    with engine.log(bucket_range, start, stop, engine.columns) as log:
        digests = engine.rows(f"SELECT {BLOCK}, count(*), sum({engine.hash_of(*engine.columns)}) FROM {log} GROUP BY 1")
    return {block: (rows, int(digest)) for block, rows, digest in digests}


def with_gaps(engine: Engine, bucket_ranges: tuple[BucketRange, ...], lake: LakeBlocks) -> tuple[BucketRange, ...]:
    """Returns `bucket_ranges` with their offsets that have no row in the log.

    It reads the log only if the lake has another number of rows than offsets. Offsets that the log no longer has count as
    rows, so that a missing row is never taken for an offset without a row.
    """
    return tuple(
        _with_gaps(engine, bucket_range) if _rows(bucket_range, lake) != bucket_range.rows else bucket_range
        for bucket_range in bucket_ranges
    )


def _rows(bucket_range: BucketRange, lake: LakeBlocks) -> int:
    return sum(block.rows for block in lake.get(bucket_range.place, {}).values())


def _with_gaps(engine: Engine, bucket_range: BucketRange) -> BucketRange:
    reached, stop = bucket_range.readable
    gaps: list[Run] = [run for run in bucket_range.empty if run[1] <= reached]
    for batch in engine.log_batches(bucket_range, [OFFSET_COLUMN]):
        if batch.num_rows:
            places = np.concatenate(([reached - 1], batch.column(OFFSET_COLUMN).to_numpy()))
            gaps += [(int(places[at]) + 1, int(places[at + 1])) for at in np.flatnonzero(np.diff(places) > 1)]
            reached = int(places[-1]) + 1
    if reached < stop:
        gaps.append((reached, stop))
    return replace(bucket_range, empty=tuple(gaps))


def check_counts(engine: Engine, report: Report, bucket_ranges: tuple[BucketRange, ...], lake: LakeBlocks) -> None:
    """Checks that each bucket has as many rows as the marker says."""
    counted = {place: sum(block.rows for block in blocks.values()) for place, blocks in lake.items()}
    for bucket_range in bucket_ranges:
        expected, actual = bucket_range.rows, counted.pop(bucket_range.place, 0)
        report.add("rows", bucket_range.name, expected == actual, expected, actual, count_details(expected, actual))
    highest_bucket = max((bucket_range.place[1] or 0 for bucket_range in bucket_ranges), default=0)
    report_elsewhere(report, counted, max(engine.table.bucket_count, highest_bucket + 1))


def count_details(expected: int, actual: int) -> str | None:
    """Returns how many rows are too many or missing; None = neither."""
    if expected == actual:
        return None
    return f"{counted(actual - expected, 'row')} too many" if actual > expected else f"{counted(expected - actual, 'row')} missing"


def check_offsets(engine: Engine, report: Report, bucket_ranges: tuple[BucketRange, ...], lake: LakeBlocks) -> None:
    """Checks that every offset from the marker's start to its end is there exactly once, and none beyond."""
    for bucket_range in bucket_ranges:
        block = _first_bad_block(bucket_range, lake.get(bucket_range.place, {}))
        details = None if block is None else _offset_details(engine, bucket_range, block)
        report.add("offsets", bucket_range.name, block is None, f"[{bucket_range.start}, {bucket_range.tiered}) each once", None, details)


def _first_bad_block(bucket_range: BucketRange, blocks: Mapping[int, Block]) -> int | None:
    size = BLOCK_OFFSETS
    expected = range(bucket_range.start // size, -(-bucket_range.tiered // size)) if bucket_range.tiered > bucket_range.start else range(0)
    bad: list[int] = [min(outside)] if (outside := [block for block in blocks if block not in expected]) else []
    for block in expected:
        low, high = max(bucket_range.start, block * size), min(bucket_range.tiered, (block + 1) * size)
        wanted_rows = high - low - _overlap(bucket_range.empty, low, high)
        if not blocks.get(block, Block(0)).is_each_of(low, high, wanted_rows):
            return min([block, *bad])
    return bad[0] if bad else None


def _overlap(runs: tuple[Run, ...], low: int, high: int) -> int:
    return sum(max(0, min(stop, high) - max(start, low)) for start, stop in runs)


def _offset_details(engine: Engine, bucket_range: BucketRange, block: int) -> str:
    first, last = block * BLOCK_OFFSETS, (block + 1) * BLOCK_OFFSETS
    if block == NO_OFFSET_BLOCK and (without := _without_offset(engine, bucket_range)):
        return without
    bounds = f"{OFFSET_COLUMN} >= {first} AND {OFFSET_COLUMN} < {last}"
    sql = f"SELECT {OFFSET_COLUMN}, count(*) FROM lake WHERE {IN_BUCKET} AND {bounds} GROUP BY 1"
    counted = dict(engine.rows(sql, place_parameters(bucket_range)))
    for offset in range(first, last):
        is_empty = any(start <= offset < stop for start, stop in bucket_range.empty)
        rows, inside = counted.get(offset, 0), bucket_range.start <= offset < bucket_range.tiered and not is_empty
        if inside and rows == 0:
            return f"bucket {bucket_range.name}: offset {offset} is missing"
        if rows > 1:
            return f"bucket {bucket_range.name}: offset {offset} occurs {rows} times"
        if rows and not inside:
            return f"bucket {bucket_range.name}: offset {offset} lies outside of [{bucket_range.start}, {bucket_range.tiered})"
    return f"bucket {bucket_range.name}: offsets {first} to {last - 1} differ"


def _without_offset(engine: Engine, bucket_range: BucketRange) -> str | None:
    [(rows,)] = engine.rows(f"SELECT count(*) FROM lake WHERE {IN_BUCKET} AND {OFFSET_COLUMN} IS NULL", place_parameters(bucket_range))
    return f"bucket {bucket_range.name}: {counted(rows, 'row')} without an offset (NULL)" if rows else None


def check_rows(engine: Engine, report: Report, bucket_ranges: tuple[BucketRange, ...], lake: LakeBlocks) -> None:
    """Compares lake and log block by block, by a checksum of all columns that ignores order; reports what the log no longer holds."""
    for bucket_range in bucket_ranges:
        start, stop = bucket_range.readable
        if start > bucket_range.start:
            offsets = f"offsets {bucket_range.start} to {start - 1}"
            text = f"bucket {bucket_range.name}: the log no longer holds {offsets}: their rows cannot be compared"
            report.add("values", bucket_range.name, None, start - bucket_range.start, None, text)
        if start < stop:
            _compare_rows(engine, report, bucket_range, lake.get(bucket_range.place, {}))


def _compare_rows(engine: Engine, report: Report, bucket_range: BucketRange, blocks: Mapping[int, Block]) -> None:
    in_lake = {number: (block.readable, block.digest) for number, block in blocks.items() if block.readable}
    in_log = digests_of_log(engine, bucket_range)
    bad = sorted(block for block in {*in_log, *in_lake} if in_log.get(block) != in_lake.get(block))
    details = _value_details(engine, bucket_range, bad[0]) if bad else None
    report.add("values", bucket_range.name, not bad, _digest(in_log), _digest(in_lake), details)


def _digest(blocks: Mapping[int, tuple[int, int]]) -> str:
    rows, total = (sum(pair[index] for pair in blocks.values()) for index in (0, 1))
    return f"{rows} rows, checksum {total % (1 << 64):016x}"


def _value_details(engine: Engine, bucket_range: BucketRange, block: int) -> str:
    """Names the first row of the block that differs, and its columns that differ."""
    if block == NO_OFFSET_BLOCK and (without := _without_offset(engine, bucket_range)):
        return without
    start, stop = bucket_range.readable
    low, high = block * BLOCK_OFFSETS, (block + 1) * BLOCK_OFFSETS
    if low <= start < high:
        low = start  # the lake's rows before it cannot be compared
    hashes = ", ".join(engine.hash_of(name) for name in engine.columns)
    where = f"{IN_BUCKET} AND {OFFSET_COLUMN} >= {low} AND {OFFSET_COLUMN} < {high}"
    in_lake: dict[int, list[tuple[Any, ...]]] = {}
    for offset, *row_hashes in engine.rows(f"SELECT {OFFSET_COLUMN}, {hashes} FROM lake WHERE {where}", place_parameters(bucket_range)):
        in_lake.setdefault(offset, []).append(tuple(row_hashes))
    with engine.log(bucket_range, min(max(low, start), stop), min(max(high, start), stop), engine.columns) as log:
        in_log = {offset: tuple(row_hashes) for offset, *row_hashes in engine.rows(f"SELECT {OFFSET_COLUMN}, {hashes} FROM {log}")}
    for offset in sorted({*in_lake, *in_log}):
        lake_rows, log_row = in_lake.get(offset, []), in_log.get(offset)
        if log_row is None:
            return f"bucket {bucket_range.name}: offset {offset} is in the lake but not in the log"
        if len(lake_rows) != 1:
            return f"bucket {bucket_range.name}: offset {offset} is in the lake {len(lake_rows)} times"
        if lake_rows[0] != log_row:
            columns = [name for name, a, b in zip(engine.columns, lake_rows[0], log_row, strict=True) if a != b]
            return f"bucket {bucket_range.name}: offset {offset} has other values in the lake than in the log, in {', '.join(columns)}"
    return f"bucket {bucket_range.name}: offsets {low} to {high - 1} differ"
