"""Divides a log table's rows into blocks of offsets. One scan of the lake gathers all numbers that its checks need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN
from tiering.validate.engine import Engine
from tiering.validate.lake_view import PLACE_COLUMN, text_literal
from tiering.validate.results import Level
from tiering.validate.subject import Stretch

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


def gather_blocks(engine: Engine, stretches: tuple[Stretch, ...], level: Level) -> Mapping[Place, Mapping[int, Block]]:
    """Returns the blocks by place and number, with the totals that `level` needs. At level counts all rows of a bucket are one block."""
    columns = [PLACE_COLUMN, BUCKET_COLUMN, "0" if level is Level.COUNTS else BLOCK, "count(*)"]
    source, readable = "lake", ""
    if level.depth >= Level.OFFSETS.depth:
        # The number of bits counts different offsets in any order. The number of rows shows whether an offset is there twice.
        last = BLOCK_OFFSETS - 1
        bits = f"bit_count(bitstring_agg({OFFSET_COLUMN} & {last}, 0, {last}))"
        columns += [f"coalesce({bits}, 0)", f"min({OFFSET_COLUMN})", f"max({OFFSET_COLUMN})"]
    if level.depth >= Level.ROWS.depth:
        if any(stretch.start < stretch.readable[0] for stretch in stretches):
            source, readable = _with_bounds(stretches), f" FILTER (({OFFSET_COLUMN} >= __lakeward_low) IS NOT FALSE)"
        columns += [f"count(*){readable}", f"coalesce(sum({engine.hash_of(*engine.columns)}){readable}, 0)"]
    blocks: dict[Place, dict[int, Block]] = {}
    for place, bucket, block, *values in engine.rows(f"SELECT {', '.join(columns)} FROM {source} GROUP BY ALL"):
        blocks.setdefault((place, bucket), {})[block] = Block(*values)
    return blocks


def _with_bounds(stretches: tuple[Stretch, ...]) -> str:
    """Returns the lake's rows with the first offset `__lakeward_low` of their bucket that the log still has."""
    bounds = ", ".join(f"({text_literal(stretch.place[0])}, {stretch.place[1]}, {stretch.readable[0]})" for stretch in stretches)
    mine = f"{PLACE_COLUMN} = b.p AND {BUCKET_COLUMN} = b.n"
    return f"(SELECT lake.*, b.__lakeward_low FROM lake LEFT JOIN (VALUES {bounds}) AS b(p, n, __lakeward_low) ON {mine})"


def digests_of_log(engine: Engine, stretch: Stretch) -> Mapping[int, tuple[int, int]]:
    """Returns the number of rows and the checksum of each block in the log."""
    start, stop = stretch.readable
    with engine.log(stretch, start, stop, engine.columns) as log:
        digests = engine.rows(f"SELECT {BLOCK}, count(*), sum({engine.hash_of(*engine.columns)}) FROM {log} GROUP BY 1")
    return {block: (rows, int(digest)) for block, rows, digest in digests}
