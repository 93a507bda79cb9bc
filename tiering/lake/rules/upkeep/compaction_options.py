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
"""Size at which writers end a data file, and to which rounds and upkeep rounds merge smaller ones. The option is Lakeward's own."""

LAKES_OWN = "none"
"""The default of TARGET_FILE_SIZE: what the lake table's own property says, or else its format's default."""

LEAST_TARGET_BYTES, MOST_TARGET_BYTES = 1 << 10, 64 << 30

MERGED_BYTES_PER_FRESHNESS_MS = 2_000
"""Bytes that a round may merge for each millisecond of its table's freshness: 20 MB at 10 s. A core merges some 50 MB a second, so that
merging takes a round at most a twentieth of the freshness."""


MERGED_BYTES = 64 << 20
"""Bytes of small files that a round merges at most in one place, whatever its table's freshness is."""


def merge_budget(freshness_ms: int, at_most_bytes: int) -> int:
    """Bytes of small files that one round of a table merges at most."""
    return min(freshness_ms * MERGED_BYTES_PER_FRESHNESS_MS, at_most_bytes)


def merging_ms(freshness_ms: int) -> int:
    """Milliseconds after which a round of a table merges the files of no further bucket: opening files takes long on object storage."""
    return freshness_ms // 20


def in_turn(buckets: Mapping[BucketKey, T], round_id: str) -> dict[BucketKey, T]:
    """`buckets`, another one coming first in each round: where a round has no time for all of them, each has its turn."""
    first = crc32(round_id.encode()) % len(buckets) if buckets else 0
    ordered = list(buckets.items())
    return dict(ordered[first:] + ordered[:first])


def target_file_bytes_of(properties: Mapping[str, str]) -> int | None:
    """What a table's options say; None = the lake table's own size counts. Raises InvalidArgument naming the option."""
    text = properties.get(TARGET_FILE_SIZE, LAKES_OWN)
    if text.strip().lower() == LAKES_OWN:
        return None
    size = parse_size(text)
    if size is None or not LEAST_TARGET_BYTES <= size <= MOST_TARGET_BYTES:
        raise InvalidArgument(
            f"the option {TARGET_FILE_SIZE} is {text[:60]!r}",
            hint=f"Write a size from '1 kb' to '64 gb', such as '256 mb'; or {LAKES_OWN!r} for the lake table's own.",
        )
    return size


REWRITTEN_BYTES_PER_MS = 16_000
"""Bytes that an upkeep round is expected to rewrite in a millisecond: a third of what a core does, so that most rounds end in time."""

LEAST_BUDGET_BYTES = 8 << 20
"""Bytes below which the budget of an upkeep round is not made smaller: it would be mostly overhead."""


def reachable_bytes(target_bytes: int, freshness_ms: int) -> int:
    """Size that upkeep rounds can give the data files of a table, in bytes: half of what one rewrites until the table is due, at most the
    target. A round that needs longer would give way each time to the table's own rows."""
    return min(target_bytes, max(LEAST_BUDGET_BYTES, freshness_ms * REWRITTEN_BYTES_PER_MS // 2))


def merges_small_files(properties: Mapping[str, str], default: bool) -> bool:
    """Whether a table's options, or the cluster's default, let rounds merge small files."""
    value = properties.get(AUTO_COMPACTION)
    return default if value is None else value.strip().lower() == "true"
