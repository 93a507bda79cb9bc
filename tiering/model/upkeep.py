"""Upkeep of a lake table: what a round is asked to do for it, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

UPKEEP_ROUND_BYTES = 1 << 30
"""Bytes of data files that one upkeep round rewrites at most. More is done in several rounds, one after the other."""


@dataclass(frozen=True)
class ExpiryOrder:
    """Snapshots that a user wants removed. None = what the table's options say."""

    older_than: datetime | None = None
    retain_last: int | None = None


@dataclass(frozen=True)
class UpkeepOrder:
    """What a round does for the lake table beside tiering; in an upkeep round instead of it. Nothing of it changes a row.

    `rewrite`: data files that are small, or of which rows are deleted. `full`: all data files of the buckets, whatever their size.
    `partitions`: names of the partitions that are rewritten; None = all. `manifests`: all manifests are merged. `expiry` None = as every
    commit does it.
    """

    rewrite: bool = True
    full: bool = False
    partitions: frozenset[str] | None = None
    manifests: bool = False
    expiry: ExpiryOrder | None = None
    budget_bytes: int = UPKEEP_ROUND_BYTES


@dataclass(frozen=True)
class UpkeepStats:
    """What the upkeep of one round did. Files are data and delete files; `bytes_read` and `bytes_written` are those of rewritten files.

    `dropped`: rewritten buckets that the commit left out, because another commit had changed their files. `bytes_left`: bytes of files
    that are still to be rewritten; None = not known.
    """

    files_before: int = 0
    files_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    rows_dropped: int = 0
    """Deleted rows that the new files do not have."""
    snapshots_expired: int = 0
    manifests_before: int | None = None
    manifests_after: int | None = None
    dropped: int = 0
    bytes_left: int | None = None
