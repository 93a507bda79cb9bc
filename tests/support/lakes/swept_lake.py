"""The lake in memory as the sweep sees it (`LakeMaintenance`), and what must hold of its files whatever is swept.

`meanwhile` is called before each of its answers: there the simulator lets everybody else go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from support.lakes.memory_lake import MemoryLake
from tiering.lake.base import LakeView
from tiering.lake.maintenance import ForeignOffsets, LakeSurvey, StoredFile
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.model.tables import TableInfo, TablePath


class SweptMemoryLake(MemoryLake):
    """A `Lake` and a `LakeMaintenance` whose files matter: a commit that names a missing one is an error of the test."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] = lambda: None
        self.swept: list[str] = []

    def survey(self, path: TablePath) -> LakeSurvey | None:
        self.meanwhile()
        view = self.view(path)
        return None if view is None else LakeSurvey(view, view.marker)

    def stored_files(self, view: LakeView) -> Sequence[StoredFile]:
        self.meanwhile()
        return [StoredFile(name, name, 1, written) for name, written in sorted(self.files.items())]

    def live_files(self, view: LakeView) -> Collection[str]:
        """Returns the live files of the view, by the table's metadata in hand, whatever the table is called now."""
        self.meanwhile()
        [path] = [path for path, table in self.tables.items() if table.uuid == view.table_uuid]
        return self.named(path, view.snapshots)

    def delete_file(self, view: LakeView, location: str) -> None:
        self.meanwhile()
        if self.files.pop(location, None) is not None:
            self.swept.append(location)

    def row_offsets(self, table: TableInfo, view: LakeView, partitions: Mapping[str, int]) -> RowOffsets:
        held = RowOffsets()
        for bucket, start, stop, _ in () if view.head is None else self.tables[view.path].rows[view.head]:
            held.add((None, bucket.bucket_id), np.arange(start, stop))
        return held

    def foreign_offsets(self, view: LakeView, snapshot_id: int) -> ForeignOffsets:
        raise AssertionError("the simulator adopts nothing")

    def named(self, path: TablePath, snapshots: Collection[int]) -> frozenset[str]:
        """All files that these snapshots of the table need."""
        return frozenset().union(*(self.tables[path].named[snapshot] for snapshot in snapshots))

    def expire_snapshots(self, path: TablePath) -> None:
        """A user forgets what is older than the newest tiering commit, and the files that only that needs."""
        table = self.tables.get(path)
        tiered = None if table is None else self.tiered(table)
        if table is None or tiered is None:
            return
        kept = {snapshot_id: snapshot for snapshot_id, snapshot in table.snapshots.items() if snapshot_id >= tiered}
        for name in self.named(path, table.snapshots) - self.named(path, kept):
            self.files.pop(name, None)
        table.expire_all_but(kept, forgets=False)

    def missing(self, path: TablePath) -> frozenset[str]:
        """Returns missing files: a snapshot of the table names them, or a delayed request that its compare-and-set would still accept."""
        table = self.tables.get(path)
        if table is None:
            return frozenset()
        newest = (table.uuid, self.tiered(table))
        coming = [request for request in self.late if request.path == path and (request.uuid, request.tiered) == newest]
        needed = {file for request in coming for file in (request.manifest, *(name for *_, name in request.ranges))}
        return (self.named(path, table.snapshots) | needed) - self.files.keys()
