"""Checks a log table: rows per bucket, every offset exactly once, and the same values on both sides.

The rows of a sorted file do not tell their offsets. A bucket with such files is compared with the log file by file, because the footer of
each file names the offsets of all its rows. Memory: the runs of the footers, and for a file that differs 16 bytes for each of its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tiering.counts import counted
from tiering.lake.proof.file_footer import FileFooter, Run
from tiering.lake.proof.row_checksum import Words, row_hashes
from tiering.lake.schema.sql_text import quoted, text_literal
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN
from tiering.validate.clean_footers import SORTED_FILE_COLUMN
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
Integers = npt.NDArray[np.int64]


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
    if (problem := row_count_problem(engine, bucket_range)) is not None:
        return problem
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
        if start < stop and bucket_range.bucket in engine.sorted_buckets:
            compare_files(engine, report, bucket_range)
        elif start < stop:
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
    for offset, *values in engine.rows(f"SELECT {OFFSET_COLUMN}, {hashes} FROM lake WHERE {where}", place_parameters(bucket_range)):
        in_lake.setdefault(offset, []).append(tuple(values))
    with engine.log(bucket_range, min(max(low, start), stop), min(max(high, start), stop), engine.columns) as log:
        in_log = {offset: tuple(values) for offset, *values in engine.rows(f"SELECT {OFFSET_COLUMN}, {hashes} FROM {log}")}
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


@dataclass(frozen=True)
class _Files:
    """Files of one bucket with their footers, by path. The number of a file is its place in `paths`."""

    footers: Mapping[str, FileFooter]

    @cached_property
    def paths(self) -> Sequence[str]:
        return list(self.footers)

    @cached_property
    def _runs(self) -> Integers:
        """Start, stop and number of the file, in the order of the starts."""
        runs = [(*run, number) for number, path in enumerate(self.paths) for run in self.footers[path].runs]
        return np.array(sorted(runs), np.int64).reshape(-1, 3).T

    def numbers_of(self, offsets: Integers) -> Integers:
        """Returns the number of the file of each offset; -1 = in none."""
        starts, stops, numbers = self._runs
        places = np.searchsorted(starts, offsets, side="right") - 1
        is_inside = (places >= 0) & (offsets < stops[places])
        return np.where(is_inside, numbers[places], -1)

    def only(self, path: str) -> _Files:
        """Returns one of the files."""
        return _Files({path: self.footers[path]})


def row_count_problem(engine: Engine, bucket_range: BucketRange) -> str | None:
    """Returns which file of a bucket with sorted files has another number of live rows than offsets; None = no file, or no sorted ones."""
    if bucket_range.bucket not in engine.sorted_buckets:
        return None
    sql = f"SELECT {SORTED_FILE_COLUMN}, count(*) FROM lake WHERE {IN_BUCKET} GROUP BY 1"
    rows = dict(engine.rows(sql, place_parameters(bucket_range)))
    for path, footer in _footers(engine, bucket_range).items():
        if rows.get(path, 0) != footer.rows:
            return f"bucket {bucket_range.name}: the file {path} has {counted(rows.get(path, 0), 'row')} for {footer.rows} offsets"
    return None


def compare_files(engine: Engine, report: Report, bucket_range: BucketRange) -> None:
    """Compares the rows of each file with those of its offsets in the log, by a checksum. A file with offsets that the log no longer has is
    left to the check of its own checksum."""
    start, stop = bucket_range.readable
    files = _Files(
        {
            path: footer
            for path, footer in _footers(engine, bucket_range).items()
            if footer.runs and start <= footer.runs[0][0] and footer.runs[-1][1] <= stop
        }
    )
    if not files.footers:
        return
    in_lake, in_log = _sums(files, _hashes_of_lake(engine, bucket_range, files)), _sums(files, _hashes_of_log(engine, bucket_range, files))
    bad = [path for path, lake, log in zip(files.paths, in_lake, in_log, strict=True) if lake != log]
    details = _difference(engine, bucket_range, files.only(bad[0])) if bad else None
    total_of_log, total_of_lake = int(in_log.sum(dtype=np.uint64)), int(in_lake.sum(dtype=np.uint64))
    report.add("values", bucket_range.name, not bad, f"{total_of_log:016x}", f"{total_of_lake:016x}", details)


def _footers(engine: Engine, bucket_range: BucketRange) -> dict[str, FileFooter]:
    facts = ((facts.file.path, facts.footer) for facts in engine.footers)
    return {path: footer for path, footer in facts if footer is not None and footer.bucket == bucket_range.bucket}


def _sums(files: _Files, rows: Iterator[tuple[Integers, Words, Any]]) -> Words:
    """Returns the sum of the hashes of each file's rows, modulo 2^64."""
    sums = np.zeros(len(files.paths), np.uint64)
    for numbers, hashes, _ in rows:
        np.add.at(sums, numbers, hashes)
    return sums


def _hashes_of_lake(engine: Engine, bucket_range: BucketRange, files: _Files) -> Iterator[tuple[Integers, Words, None]]:
    """Yields the file numbers and the hashes of rows of `files`."""
    own, names = ", ".join(quoted(name) for name in engine.own_columns), engine.proof_names
    numbers = {path: number for number, path in enumerate(files.paths)}
    for batch in engine.batches(f"SELECT {own}, {SORTED_FILE_COLUMN} FROM lake WHERE {IN_BUCKET}", place_parameters(bucket_range)):
        paths = batch.column(batch.num_columns - 1).dictionary_encode()
        places = np.array([*(numbers.get(str(path), -1) for path in paths.dictionary.to_pylist()), -1], np.int64)
        places = places[paths.indices.fill_null(len(places) - 1).to_numpy()]
        is_named = places >= 0
        yield places[is_named], row_hashes(batch.select(engine.own_columns), names)[is_named], None


def _hashes_of_log(engine: Engine, bucket_range: BucketRange, files: _Files) -> Iterator[tuple[Integers, Words, Integers]]:
    """Yields the file numbers, the hashes and the offsets of records of `files`."""
    names = engine.proof_names
    for batch in engine.log_batches(bucket_range, [*engine.own_columns, OFFSET_COLUMN]):
        offsets = batch.column(OFFSET_COLUMN).to_numpy()
        places = files.numbers_of(offsets)
        is_named = places >= 0
        yield places[is_named], row_hashes(batch.select(engine.own_columns), names)[is_named], offsets[is_named]


def _difference(engine: Engine, bucket_range: BucketRange, file: _Files) -> str:
    """Names the first offset whose row the file does not have as the log has it, or the number of rows that it has too many."""
    [path] = file.paths
    left = Counter[int]()
    for _, hashes, _ in _hashes_of_lake(engine, bucket_range, file):
        left.update(hashes.tolist())
    missing: list[int] = []
    for _, hashes, offsets in _hashes_of_log(engine, bucket_range, file):
        for offset, row_hash in zip(offsets.tolist(), hashes.tolist(), strict=True):
            if left[row_hash]:
                left[row_hash] -= 1
            else:
                missing.append(offset)
    if not missing:
        return f"bucket {bucket_range.name}: the file {path} has {counted(left.total(), 'row')} more than the log has for its offsets"
    others = f", and {counted(len(missing) - 1, 'other')}" if len(missing) > 1 else ""
    return f"bucket {bucket_range.name}: the file {path} lacks the row of offset {missing[0]} as the log has it{others}"
