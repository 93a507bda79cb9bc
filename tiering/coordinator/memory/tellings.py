"""In whose turn a cluster that assigns its tables is told of lake snapshots (docs/fluss-shared.md).

Another service plans from the offsets that the cluster has, and checks before it commits whether the cluster knows the lake's newest
snapshot. Told of ours in between, it would pass that check with a plan from before, and double our rows. So the cluster is told only while
the table is ours, and the table does not go back while it is being told. What was not told, the other service's check or our next
round says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tiering.coordinator.memory.table_records import TableRecords


class Tellings:
    """Of all tables."""

    def __init__(self, table_records: TableRecords) -> None:
        self._table_records = table_records
        self._under_way: Counter[int] = Counter()

    @contextmanager
    def turn(self, table_id: int) -> Iterator[bool]:
        """Whether the cluster may be told now; if so, the table is kept until the end of the block."""
        with self._table_records.changing():
            record = self._table_records.get(table_id)
            in_turn = not self._table_records.options.assigned_by_cluster or (record is not None and record.has_turn)
            self._under_way[table_id] += in_turn
        try:
            yield in_turn
        finally:
            with self._table_records.changing():
                self._under_way[table_id] -= in_turn

    def is_under_way(self, table_id: int) -> bool:
        """Whether the table must not go back yet. Call it under the lock of the records."""
        return self._under_way[table_id] > 0
