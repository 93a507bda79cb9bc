"""Counts the rows of a snapshot with pypaimon alone, for proofs (`tiering.lake.file_lists.CountingLake`)."""

from __future__ import annotations

from importlib.metadata import version
from typing import cast

from pypaimon import CatalogFactory

from tiering.lake.base import LakeView
from tiering.lake.file_lists import ReaderCount
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.loading import LoadedTable

READER = "pypaimon"


def count_rows(view: LakeView, snapshot_id: int) -> ReaderCount:
    """Implements `CountingLake.count_rows`. It reads one column of all rows, and so merges changes."""
    loaded = cast(LoadedTable, view.handle)
    if not loaded.storage.is_local:
        return ReaderCount(READER, version(READER), None, "not asked: the warehouse is not on a file system of this machine")
    with lake_errors(f"count the rows of {view.path}", table_path=view.path):
        catalog = CatalogFactory.create({"warehouse": str(loaded.root.parent.parent)})
        table = catalog.get_table(str(view.path)).copy({"scan.snapshot-id": str(snapshot_id)})
        builder = table.new_read_builder()
        builder = builder.with_projection([table.field_names[0]])
        reader = builder.new_read().to_arrow_batch_reader(builder.new_scan().plan().splits())
        return ReaderCount(READER, version(READER), sum(batch.num_rows for batch in reader))
