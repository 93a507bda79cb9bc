"""A commit that takes all rewrites, so that tests show what notices it."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table import Table

from tiering.lake.iceberg.upkeep.live_files import FittingRewrites
from tiering.lake.iceberg.writing.data_files import FilesPayload


def all_rewrites(table: Table, head: int | None, rewrites: Mapping[int, FilesPayload]) -> FittingRewrites:
    """In the place of `fitting_rewrites`: fits whatever became of the old files since."""
    gone = {location for payload in rewrites.values() if payload.change is not None for location in payload.change.obsolete}
    return FittingRewrites(rewrites, frozenset(gone))
