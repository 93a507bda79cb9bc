"""Upper bounds of what rounds and upkeep rounds merge, by the freshness of their table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from zlib import crc32

from tiering.model.tables import BucketKey

T = TypeVar("T")

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
