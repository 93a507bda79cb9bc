"""Union reads in the process of a test: the moment, the tasks and the rows, without Spark and without a service."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tiering.cluster.base import SplitSource
from tiering.model.reading.scans import ReadMoment, ReadScan
from tiering.model.tables import TablePath
from tiering.union_read.count import count_rows
from tiering.union_read.plan import LakeOpener, base_without_coordinator, open_read, plan_scan, scan_columns, scan_schema, scan_tasks
from tiering.union_read.task_codec import decode, encode
from tiering.union_read.tasks import ReadTask

WHOLE_TABLE = ReadScan()


@dataclass(frozen=True)
class PlannedRead:
    """A read whose moment is fixed. Its scans may run later."""

    cluster: SplitSource
    open_lake: LakeOpener
    moment: ReadMoment

    def tasks(self, scan: ReadScan = WHOLE_TABLE) -> list[ReadTask]:
        """Returns the tasks of a scan, as an executor gets them."""
        readers = plan_scan(self.cluster, self.open_lake, self.moment, scan)
        tasks = scan_tasks(self.cluster.table(self.moment.path), readers, scan)
        return [decode(encode(task)) for task in tasks]

    def rows(self, scan: ReadScan = WHOLE_TABLE) -> pa.Table:
        """Returns the rows of a scan, in any order."""
        table = self.cluster.table(self.moment.path)
        schema, columns = scan_schema(table, scan), scan_columns(table, scan)
        batches = [batch for task in self.tasks(scan) for batch in task.read()]
        return pa.Table.from_batches(batches, schema=pa.schema([schema.field(name) for name in columns]))

    def count(self, scan: ReadScan = WHOLE_TABLE) -> int | None:
        """Returns the number of rows of a scan without reading them; None = unknown."""
        return count_rows(self.cluster, self.open_lake, self.moment, scan)


def planned_read(cluster: SplitSource, open_lake: LakeOpener, path: TablePath) -> PlannedRead:
    """Fixes the moment of a read as of now."""
    return PlannedRead(cluster, open_lake, open_read(cluster, path, base_without_coordinator(cluster, open_lake)))
