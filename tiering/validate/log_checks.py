"""The checks of a log table: rows per bucket, every offset exactly once, and the same values on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiering.model import BUCKET_COLUMN, OFFSET_COLUMN
from tiering.validate.elsewhere import report_elsewhere
from tiering.validate.engine import IN_BUCKET, Engine, place_parameters
from tiering.validate.lake_view import PLACE_COLUMN, text_literal
from tiering.validate.report import Report
from tiering.validate.subject import Stretch

OFFSETS_A_BLOCK = 64
"""As many as fit the bits of a number: their powers of two sum to all ones, in just as many terms, only if each is there once."""
ROWS_A_BLOCK_BITS = 16
"""Of offsets whose rows are compared by one checksum; a difference is looked for in its block alone."""
NO_OFFSET_BLOCK = -1
"""Of rows whose offset is NULL, and of some of the negative ones: never right."""
_PLACE = f"{PLACE_COLUMN}, {BUCKET_COLUMN}"


def check_counts(engine: Engine, report: Report, stretches: tuple[Stretch, ...]) -> None:
    """Rows of each bucket against the marker."""
    counted = {(row[0], row[1]): row[2] for row in engine.rows(f"SELECT {_PLACE}, count(*) FROM lake GROUP BY 1, 2")}
    for one in stretches:
        expected, actual = one.tiered - one.start, counted.pop(one.place, 0)
        report.add("rows", one.name, expected == actual, expected, actual, _count_details(expected, actual))
    report_elsewhere(report, counted, engine.table.bucket_count)


def _count_details(expected: int, actual: int) -> str | None:
    if expected == actual:
        return None
    return f"{actual - expected} rows too many" if actual > expected else f"{expected - actual} rows are missing"


def check_offsets(engine: Engine, report: Report, stretches: tuple[Stretch, ...]) -> None:
    """Every offset from the marker's start to its end exactly once, and none beyond."""
    shift = OFFSETS_A_BLOCK.bit_length() - 1
    found: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
    sql = (
        f"SELECT {_PLACE}, {_block(shift)}, count(*), sum((1::HUGEINT) << ({OFFSET_COLUMN} & {OFFSETS_A_BLOCK - 1})::INTEGER) "
        "FROM lake GROUP BY ALL"
    )
    for place, bucket, block, rows, bits in engine.rows(sql):
        found.setdefault((place, bucket), {})[block] = (rows, int(bits or 0))
    for one in stretches:
        block = _first_bad_block(one, found.get(one.place, {}))
        details = None if block is None else _offset_details(engine, one, block)
        report.add("offsets", one.name, block is None, f"[{one.start}, {one.tiered}) each once", None, details)


def _first_bad_block(one: Stretch, blocks: Mapping[int, tuple[int, int]]) -> int | None:
    size = OFFSETS_A_BLOCK
    wanted = range(one.start // size, -(-one.tiered // size)) if one.tiered > one.start else range(0)
    bad: list[int] = [min(outside)] if (outside := [block for block in blocks if block not in wanted]) else []
    for block in wanted:
        low, high = max(one.start - block * size, 0), min(one.tiered - block * size, size)
        if blocks.get(block) != (high - low, (1 << high) - (1 << low)):
            return min([block, *bad])
    return bad[0] if bad else None


def _offset_details(engine: Engine, one: Stretch, block: int) -> str:
    first, last = block * OFFSETS_A_BLOCK, (block + 1) * OFFSETS_A_BLOCK
    if block == NO_OFFSET_BLOCK and (without := _without_offset(engine, one)):
        return without
    bounds = f"{OFFSET_COLUMN} >= {first} AND {OFFSET_COLUMN} < {last}"
    sql = f"SELECT {OFFSET_COLUMN}, count(*) FROM lake WHERE {IN_BUCKET} AND {bounds} GROUP BY 1"
    counted = dict(engine.rows(sql, place_parameters(one)))
    for offset in range(first, last):
        rows, inside = counted.get(offset, 0), one.start <= offset < one.tiered
        if inside and rows == 0:
            return f"bucket {one.name}: offset {offset} is missing"
        if rows > 1:
            return f"bucket {one.name}: offset {offset} is there {rows} times"
        if rows and not inside:
            return f"bucket {one.name}: offset {offset} lies outside of [{one.start}, {one.tiered})"
    return f"bucket {one.name}: offsets {first} to {last - 1} differ"


def _without_offset(engine: Engine, one: Stretch) -> str | None:
    [(rows,)] = engine.rows(f"SELECT count(*) FROM lake WHERE {IN_BUCKET} AND {OFFSET_COLUMN} IS NULL", place_parameters(one))
    return f"bucket {one.name}: {rows} rows have no offset (NULL)" if rows else None


def _block(shift: int) -> str:
    return f"coalesce({OFFSET_COLUMN} >> {shift}, {NO_OFFSET_BLOCK})"


def check_rows(engine: Engine, report: Report, stretches: tuple[Stretch, ...]) -> None:
    """An order-free checksum over all columns, block by block, of lake and log; what the log no longer holds is said."""
    in_lake: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
    sql = f"SELECT {_PLACE}, {_block(ROWS_A_BLOCK_BITS)}, count(*), sum({engine.hash_of(*engine.columns)}) FROM lake GROUP BY ALL"
    if any(one.start < one.readable[0] for one in stretches):
        sql = _only_readable(sql, stretches)
    for place, bucket, block, rows, digest in engine.rows(sql):
        in_lake.setdefault((place, bucket), {})[block] = (rows, int(digest))
    for one in stretches:
        start, stop = one.readable
        if start > one.start:
            text = f"bucket {one.name}: the log no longer holds offsets {one.start} to {start - 1}: their rows cannot be compared"
            report.add("values", one.name, None, start - one.start, None, text)
        if start < stop:
            _compare_rows(engine, report, one, in_lake.get(one.place, {}))


def _only_readable(sql: str, stretches: tuple[Stretch, ...]) -> str:
    """The rows of each bucket that the log still has."""
    bounds = ", ".join(f"({text_literal(one.place[0])}, {one.place[1]}, {one.readable[0]})" for one in stretches)
    mine = f"{PLACE_COLUMN} = b.p AND {BUCKET_COLUMN} = b.n AND ({OFFSET_COLUMN} >= b.low) IS NOT FALSE"
    return sql.replace("FROM lake", f"FROM (SELECT lake.* FROM lake JOIN (VALUES {bounds}) AS b(p, n, low) ON {mine})")


def _compare_rows(engine: Engine, report: Report, one: Stretch, in_lake: Mapping[int, tuple[int, int]]) -> None:
    start, stop = one.readable
    sql = f"SELECT {OFFSET_COLUMN} >> {ROWS_A_BLOCK_BITS}, count(*), sum({engine.hash_of(*engine.columns)})"
    with engine.log(one, start, stop, engine.columns) as log:
        in_log = {block: (rows, int(digest)) for block, rows, digest in engine.rows(f"{sql} FROM {log} GROUP BY 1")}
    bad = sorted(block for block in {*in_log, *in_lake} if in_log.get(block) != in_lake.get(block))
    details = _value_details(engine, one, bad[0]) if bad else None
    report.add("values", one.name, not bad, _digest(in_log), _digest(in_lake), details)


def _digest(blocks: Mapping[int, tuple[int, int]]) -> str:
    rows, total = (sum(pair[index] for pair in blocks.values()) for index in (0, 1))
    return f"{rows} rows, checksum {total % (1 << 64):016x}"


def _value_details(engine: Engine, one: Stretch, block: int) -> str:
    """The first row of the block that differs, and its columns that do."""
    if block == NO_OFFSET_BLOCK and (without := _without_offset(engine, one)):
        return without
    start, stop = one.readable
    low, high = block << ROWS_A_BLOCK_BITS, (block + 1) << ROWS_A_BLOCK_BITS
    if low <= start < high:
        low = start  # what lies before it in the lake cannot be compared
    hashes = ", ".join(engine.hash_of(name) for name in engine.columns)
    where = f"{IN_BUCKET} AND {OFFSET_COLUMN} >= {low} AND {OFFSET_COLUMN} < {high}"
    in_lake: dict[int, list[tuple[Any, ...]]] = {}
    for offset, *rest in engine.rows(f"SELECT {OFFSET_COLUMN}, {hashes} FROM lake WHERE {where}", place_parameters(one)):
        in_lake.setdefault(offset, []).append(tuple(rest))
    with engine.log(one, min(max(low, start), stop), min(max(high, start), stop), engine.columns) as log:
        in_log = {offset: tuple(rest) for offset, *rest in engine.rows(f"SELECT {OFFSET_COLUMN}, {hashes} FROM {log}")}
    for offset in sorted({*in_lake, *in_log}):
        ours, theirs = in_lake.get(offset, []), in_log.get(offset)
        if theirs is None:
            return f"bucket {one.name}: offset {offset} is in the lake but not in the log"
        if len(ours) != 1:
            return f"bucket {one.name}: offset {offset} is in the lake {len(ours)} times"
        if ours[0] != theirs:
            columns = [name for name, a, b in zip(engine.columns, ours[0], theirs, strict=True) if a != b]
            return f"bucket {one.name}: offset {offset} has other values in the lake than in the log, in {', '.join(columns)}"
    return f"bucket {one.name}: offsets {low} to {high - 1} differ"
