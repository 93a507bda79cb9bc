"""Upkeep of a lake table: the order that a round gets for it, and the work that the round did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

UPKEEP_ROUND_BYTES = 1 << 30
"""The most bytes of data files that one upkeep round rewrites. More files take several rounds, one after the other."""


@dataclass(frozen=True)
class ExpiryOrder:
    """The snapshots that a user wants to be removed. None = the value of the table's option."""

    older_than: datetime | None = None
    retain_last: int | None = None


@dataclass(frozen=True)
class UpkeepOrder:
    """The work of a round on the lake table beside tiering. An upkeep round does this work instead of tiering. No part of it changes a row.

    `rewrite`: rewrite small data files, and data files with deleted rows. `full`: rewrite all data files of the buckets, whatever their
    size. `partitions`: names of the partitions to rewrite; None = all. `manifests`: merge all manifests. `expiry` None = remove snapshots
    as every commit does.
    """

    rewrite: bool = True
    full: bool = False
    partitions: frozenset[str] | None = None
    manifests: bool = False
    expiry: ExpiryOrder | None = None
    budget_bytes: int = UPKEEP_ROUND_BYTES


@dataclass(frozen=True)
class UpkeepStats:
    """The work that the upkeep of one round did. `files_before` and `files_after` count data and delete files.

    `bytes_read` and `bytes_written` are those of rewritten files. `dropped` counts rewritten buckets that the commit left out because
    another commit had changed their files. `bytes_left` is the size of the files that still need a rewrite; None = not known.
    """

    files_before: int = 0
    files_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    rows_dropped: int = 0
    """Deleted rows of the old files, which the new files do not contain."""
    snapshots_expired: int = 0
    manifests_before: int | None = None
    manifests_after: int | None = None
    dropped: int = 0
    bytes_left: int | None = None


NO_UPKEEP = UpkeepStats()
