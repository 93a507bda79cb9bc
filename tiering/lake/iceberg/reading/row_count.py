"""Counts the rows of a snapshot with pyiceberg alone, for proofs (`tiering.lake.file_lists.CountingLake`)."""

from __future__ import annotations

from importlib.metadata import version
from typing import cast

from pyiceberg.table import Table

from tiering.lake.base import LakeView
from tiering.lake.file_lists import ReaderCount
from tiering.lake.iceberg.errors import lake_errors


def count_rows(view: LakeView, snapshot_id: int) -> ReaderCount:
    """Implements `CountingLake.count_rows`. It reads one column of all rows, and so applies deletes."""
    table = cast(Table, view.handle)
    with lake_errors(f"count the rows of {view.path}", table_path=view.path):
        column = table.schema().column_names[0]
        batches = table.scan(snapshot_id=snapshot_id, selected_fields=(column,)).to_arrow_batch_reader()
        return ReaderCount("pyiceberg", version("pyiceberg"), sum(batch.num_rows for batch in batches))
