"""Counts the rows of a snapshot with pypaimon alone, for proofs (`tiering.lake.proof.reader_counts.CountingLake`)."""

from __future__ import annotations

from typing import cast

from pypaimon import CatalogFactory

from tiering.lake.base import LakeView
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.proof.reader_counts import ReaderCount, counted_by


def count_rows(view: LakeView, snapshot_id: int) -> list[ReaderCount]:
    """Implements `CountingLake.count_rows`. pypaimon reads one column of all rows, and so merges changes."""
    return [counted_by("pypaimon", lambda: _by_pypaimon(view, snapshot_id))]


def _by_pypaimon(view: LakeView, snapshot_id: int) -> int:
    loaded = cast(LoadedTable, view.handle)
    if not loaded.storage.is_local:
        raise NotImplementedError("the warehouse is not on a file system of this machine")
    catalog = CatalogFactory.create({"warehouse": str(loaded.root.parent.parent)})
    table = catalog.get_table(str(view.path)).copy({"scan.snapshot-id": str(snapshot_id)})
    builder = table.new_read_builder()
    builder = builder.with_projection([table.field_names[0]])
    reader = builder.new_read().to_arrow_batch_reader(builder.new_scan().plan().splits())
    return sum(batch.num_rows for batch in reader)
