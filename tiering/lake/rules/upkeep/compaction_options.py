"""The table options of upkeep, with Fluss's names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from zlib import crc32

from tiering.errors import InvalidArgument
from tiering.model.tables import BucketKey
from tiering.round_bytes import parse_size

T = TypeVar("T")

AUTO_COMPACTION = "table.datalake.auto-compaction"
"""Whether rounds merge small files of the lake table. Fluss has it, with the default false; the embedded cluster's default is true."""

TARGET_FILE_SIZE = "table.datalake.target-file-size"
"""The size at which writers end a data file, and to which rounds and upkeep rounds merge smaller files. The option is Lakeward's own."""

LAKES_OWN = "none"
"""Default of TARGET_FILE_SIZE: the lake table's own property decides, or else the format's default."""

LEAST_TARGET_BYTES, MOST_TARGET_BYTES = 1 << 10, 64 << 30

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


def target_file_bytes_of(properties: Mapping[str, str]) -> int | None:
    """Returns the table option's size in bytes; None = the lake table's own size applies. Raises InvalidArgument that names the option."""
    text = properties.get(TARGET_FILE_SIZE, LAKES_OWN)
    if text.strip().lower() == LAKES_OWN:
        return None
    size = parse_size(text)
    if size is None or not LEAST_TARGET_BYTES <= size <= MOST_TARGET_BYTES:
        raise InvalidArgument(
            f"the option {TARGET_FILE_SIZE} is {text[:60]!r}",
            hint=f"Write a size from '1 kb' to '64 gb', such as '256 mb'; or {LAKES_OWN!r} for the lake table's own size.",
        )
    return size


REWRITTEN_BYTES_PER_MS = 16_000
"""Bytes that an upkeep round is expected to rewrite in a millisecond: a third of a core's rate, so that most rounds end in time."""

LEAST_BUDGET_BYTES = 8 << 20
"""Lower bound of an upkeep round's budget in bytes. A smaller round would be mostly overhead."""


def reachable_bytes(target_bytes: int, freshness_ms: int) -> int:
    """Returns the size in bytes that upkeep rounds can give a table's data files, at most the target.

    It is half of the bytes that one round can rewrite until the table is due. A round that needs longer would always be interrupted by
    the table's own rows."""
    return min(target_bytes, max(LEAST_BUDGET_BYTES, freshness_ms * REWRITTEN_BYTES_PER_MS // 2))


def merges_small_files(properties: Mapping[str, str], default: bool) -> bool:
    """Whether rounds may merge small files, by the table's options or else by the cluster's default."""
    value = properties.get(AUTO_COMPACTION)
    return default if value is None else value.strip().lower() == "true"
