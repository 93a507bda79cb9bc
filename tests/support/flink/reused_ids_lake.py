"""The shared lake in memory with Paimon's ids: 1, 2, 3 and so on, which come again after a roll-back, and no tag."""

from __future__ import annotations

from support.lakes.memory_lake import WHEN, MemoryTable, Range
from support.lakes.shared_memory_lake import SharedMemoryLake
from tiering.lake.base import LakeSnapshot
from tiering.lake.marker import Marker

FIRST_MARK = 1 << 40


class ReusedIdsLake(SharedMemoryLake):
    """A lake whose newest tiering commit is the newest snapshot with a marker."""

    tag_moves_in_the_commit = False
    ids_come_again = True

    def _add(self, table: MemoryTable, rows: tuple[Range, ...], marker: Marker | None, manifests: tuple[str, ...]) -> int:
        parent = table.head
        snapshot_id = 1 if parent is None else parent + 1
        table.markers.pop(snapshot_id, None)
        round_id = None if marker is None else marker.round_id
        mark = FIRST_MARK + self.new_id()
        table.snapshots[snapshot_id] = LakeSnapshot(snapshot_id, parent, snapshot_id, WHEN, "append", None, round_id, mark=mark)
        if marker is not None:
            table.markers[snapshot_id] = marker
        table.rows[snapshot_id] = rows
        table.named[snapshot_id] = frozenset({file for *_, file in rows} | {name for name in manifests if name})
        table.head = snapshot_id
        return snapshot_id

    def roll_back(self, snapshot_id: int) -> None:
        """Newer snapshots are deleted."""
        for later in [number for number in self.table.snapshots if number > snapshot_id]:
            del self.table.snapshots[later]
        self.table.head = snapshot_id

    def expire_all_but_head(self, *, forgets: bool = True) -> None:
        """Oldest first, up to the newest tiering commit, which a consumer keeps."""
        head, tiered = self.table.head, self.tiered(self.table)
        if head is not None:
            first = head if tiered is None else tiered
            self.table.snapshots = {number: snapshot for number, snapshot in self.table.snapshots.items() if number >= first}
