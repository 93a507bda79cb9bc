"""Counts the rows of a snapshot with other readers of Iceberg tables, for proofs (`tiering.lake.proof.reader_counts.CountingLake`)."""

from __future__ import annotations

from typing import cast

from pyiceberg.table import Table

from tiering.lake.base import LakeView
from tiering.lake.proof.reader_counts import ReaderCount, counted_by


def count_rows(view: LakeView, snapshot_id: int) -> list[ReaderCount]:
    """Implements `CountingLake.count_rows`. Each reader applies deletes."""
    table = cast(Table, view.handle)
    return [
        counted_by("pyiceberg", lambda: _by_pyiceberg(table, snapshot_id)),
        counted_by("polars", lambda: _by_polars(table, snapshot_id)),
    ]


def _by_pyiceberg(table: Table, snapshot_id: int) -> int:
    column = table.schema().columns[0].name
    batches = table.scan(snapshot_id=snapshot_id, selected_fields=(column,)).to_arrow_batch_reader()
    return sum(batch.num_rows for batch in batches)


def _by_polars(table: Table, snapshot_id: int) -> int:
    """Counts with the reader of Parquet files that Polars itself has. pyiceberg only lists the files."""
    import polars

    rows = polars.scan_iceberg(
        table, snapshot_id=snapshot_id, reader_override="native", use_metadata_statistics=False, fast_deletion_count=False
    )
    return int(rows.select(polars.len()).collect(engine="streaming").item())
