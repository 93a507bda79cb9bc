"""Decides which small files of a bucket a round merges, so that a bucket has few files and each row is rewritten seldom.

It also has the upper bounds of merges in rounds and in upkeep rounds, by the freshness of their table. Pure.

The rule is size-tiered. A bucket may have SMALL_FILES small files. Once it has more, a merge takes its newest files, as many as cost
least. The cost is the number of rewritten bytes, divided by COST_FACTOR for each further file of the merge. A merge of n files makes room
for n - 1 rounds without a merge, so each further file is worth a multiple of the one before it.

In a simulation with 8,640 rounds of equal size a row is rewritten 7 times. A scheme that keeps as few files needs at least 6 (the binomial
lower bound of incremental merging). Files of a few rows shrink in a merge, so their bytes are rewritten less often than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import TypeVar
from zlib import crc32

from tiering.model.tables import BucketKey

T = TypeVar("T")

SMALL_FILES = 8
"""Upper bound of the small files of one bucket that readers open, in addition to those of the last round."""
SMALL_SHARE = 0.75
"""A file below this share of the target size is small. A merged file above it is not merged again. Iceberg's `rewrite_data_files` has the
same share (`min-file-size-bytes`)."""
COST_FACTOR = 2.5
"""The worth of each further file of a merge. Chosen by simulation: values from 2 to 3.5 differ by less than a tenth."""
MERGED_FILES = 100
"""Upper bound of the files of one merge. Opening a file takes milliseconds, on object storage more, and the rows of a round wait."""
PILE_RATIO = 4
"""If there are more small files than MERGED_FILES, a merge leaves out a file this many times larger than all files behind it.

An earlier version left such a pile, and upkeep rounds merge it. Without this rule each round would rewrite its own former merge together
with a few files of the pile. With it the pile does not grow, and a byte of new rows is rewritten about ten times.
"""


def is_small(size_bytes: int, target_bytes: int) -> bool:
    """Whether a data file is smaller than SMALL_SHARE of the target, so that opening it costs readers too much."""
    return size_bytes < SMALL_SHARE * target_bytes


def first_to_merge(sizes: Sequence[int], target_bytes: int, budget_bytes: int, small_files: int | None = None) -> int | None:
    """Returns the position of the first file of a bucket that is merged with all files behind it; None = nothing is merged.

    `sizes`: bytes of the bucket's data files, oldest first. At most MERGED_FILES and `budget_bytes` are rewritten. A bucket may have
    `small_files`; None = SMALL_FILES. Files about as large as the budget are left to upkeep rounds. If they counted as small, each round
    would rewrite the newest file because of others that it cannot merge.
    """
    target_bytes = min(target_bytes, budget_bytes)
    begin, oldest = len(sizes), max(0, len(sizes) - MERGED_FILES)
    while begin > oldest and is_small(sizes[begin - 1], target_bytes):
        begin -= 1
    if len(sizes) - begin <= (SMALL_FILES if small_files is None else small_files):
        return None
    is_pile = begin > 0 and is_small(sizes[begin - 1], target_bytes)
    cheapest: tuple[float, int] | None = None
    total = sizes[-1]
    for position in range(len(sizes) - 2, begin - 1, -1):
        if is_pile and sizes[position] > PILE_RATIO * total:
            break
        total += sizes[position]
        if total > budget_bytes:
            break
        cost = log(max(total, 1)) - (len(sizes) - position) * log(
            COST_FACTOR
        )  # a logarithm, because the quotient for thousands of files exceeds a float
        if cheapest is None or cost < cheapest[0]:
            cheapest = (cost, position)
    return None if cheapest is None else cheapest[1]


MERGED_BYTES_PER_FRESHNESS_MS = 2_000
"""Bytes that a round may merge for each millisecond of its table's freshness: 20 MB at 10 s. A core merges about 50 MB a second, so merging
takes at most a twentieth of the freshness."""

MERGED_BYTES = 64 << 20
"""Upper bound of the bytes of small files that a round merges in one place, for any freshness."""


def merge_budget(freshness_ms: int, at_most_bytes: int) -> int:
    """Returns an upper bound of the bytes of small files that one round of a table merges."""
    return min(freshness_ms * MERGED_BYTES_PER_FRESHNESS_MS, at_most_bytes)


def merging_ms(freshness_ms: int) -> int:
    """Returns the milliseconds after which a round merges no further bucket. Opening files takes long on object storage."""
    return freshness_ms // 20


def in_turn(buckets: Mapping[BucketKey, T], round_id: str) -> dict[BucketKey, T]:
    """Returns `buckets` in an order that begins with another bucket each round. So each has its turn if time is short."""
    first = crc32(round_id.encode()) % len(buckets) if buckets else 0
    ordered = list(buckets.items())
    return dict(ordered[first:] + ordered[:first])


REWRITTEN_BYTES_PER_MS = 16_000
"""Bytes that an upkeep round is expected to rewrite in a millisecond: a third of a core's rate, so that most rounds end in time."""

LEAST_BUDGET_BYTES = 8 << 20
"""Lower bound of an upkeep round's budget in bytes. A smaller round would be mostly overhead."""


def reachable_bytes(target_bytes: int, freshness_ms: int) -> int:
    """Returns the size in bytes that upkeep rounds can give a table's data files, at most the target.

    It is half of the bytes that one round can rewrite until the table is due. A round that needs longer would always be interrupted by
    the table's own rows."""
    return min(target_bytes, max(LEAST_BUDGET_BYTES, freshness_ms * REWRITTEN_BYTES_PER_MS // 2))
