"""When a cluster that assigns its tables may be notified of lake snapshots (docs/fluss-shared.md).

Another tiering service plans from the offsets that the cluster has. Before it commits, it checks whether the cluster knows the lake's
newest snapshot. A notification between these steps would let it pass that check with an outdated plan, and double our rows. So the cluster
is notified only while the table is assigned to us, and the table is not handed back during the notification. What was not notified is found
later by the other service's check or by our next round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tiering.coordinator.memory.table_records import TableRecords


class ClusterNotifications:
    """The running notifications of the cluster, for all tables."""

    def __init__(self, table_records: TableRecords) -> None:
        self._table_records = table_records
        self._under_way: Counter[int] = Counter()

    @contextmanager
    def turn(self, table_id: int) -> Iterator[bool]:
        """Yields whether the cluster may be notified now. If so, the table is kept until the end of the block."""
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
        """Returns whether a notification runs, so that the table must not be handed back. Call it under the lock of the records."""
        return self._under_way[table_id] > 0
