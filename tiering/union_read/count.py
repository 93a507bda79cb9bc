"""Counts the rows of a read without reading them, where manifests of the lake and offsets of the log tell their number exactly."""

from __future__ import annotations

from tiering.cluster.base import SplitSource
from tiering.cluster.skipping import MarkedRecords
from tiering.model.reading.scans import ReadMoment, ReadPart, ReadScan
from tiering.model.tables import TableInfo, TableType
from tiering.union_read.plan import LakeOpener, is_dense, plan_scan
from tiering.union_read.pushdown.pruning import concerns_only_partitions, partition_matches
from tiering.union_read.readers import CountedRows, RowReader


def count_rows(
    source: SplitSource, open_lake: LakeOpener, moment: ReadMoment, scan: ReadScan, marked: MarkedRecords | None = None
) -> int | None:
    """Returns the exact number of rows of a scan; None if only reading the rows tells it.

    The number is known for a log table, and for a changelog, if the conditions concern only partition columns. A log counts by offsets
    where these are dense. Fluss's offsets are not: its batches without records use offsets, too. Raises the errors of `plan_scan`.
    """
    table = source.table(moment.path)
    is_merged = table.table_type is TableType.PRIMARY_KEY and scan.part is not ReadPart.CHANGELOG
    if is_merged or not concerns_only_partitions(table, scan.conditions):
        return None
    if (moment.log_records or scan.part is ReadPart.CHANGELOG) and not is_dense(source, table):
        return None
    total = 0
    for reader in plan_scan(source, open_lake, moment, scan, marked):
        rows = _matching_rows(table, scan, reader)
        if rows is None:
            return None
        total += rows
    return total if scan.limit is None else min(total, scan.limit)


def _matching_rows(table: TableInfo, scan: ReadScan, reader: RowReader) -> int | None:
    if not isinstance(reader, CountedRows):
        return None
    if not scan.conditions:
        return reader.row_count
    if reader.partition_name is None:
        return None
    matches = partition_matches(table, scan.conditions, reader.partition_name)
    return None if matches is None else reader.row_count if matches else 0
