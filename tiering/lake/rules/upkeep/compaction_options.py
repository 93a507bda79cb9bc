"""The table options of upkeep, with Fluss's names. Pure."""

from __future__ import annotations

from collections.abc import Mapping

AUTO_COMPACTION = "table.datalake.auto-compaction"
"""Whether rounds merge small files of the lake table. Fluss has it, with the default false; the embedded cluster's default is true."""

MERGED_BYTES_PER_FRESHNESS_MS = 2_000
"""Bytes that a round may merge for each millisecond of its table's freshness: 20 MB at 10 s. A core merges some 50 MB a second, so that
merging takes a round at most a twentieth of the freshness."""


MERGED_BYTES = 64 << 20
"""Bytes of small files that a round merges at most in one place, whatever its table's freshness is."""


def merge_budget(freshness_ms: int, at_most_bytes: int) -> int:
    """Bytes of small files that one round of a table merges at most."""
    return min(freshness_ms * MERGED_BYTES_PER_FRESHNESS_MS, at_most_bytes)


def merges_small_files(properties: Mapping[str, str], default: bool) -> bool:
    """Whether a table's options, or the cluster's default, let rounds merge small files."""
    value = properties.get(AUTO_COMPACTION)
    return default if value is None else value.strip().lower() == "true"
