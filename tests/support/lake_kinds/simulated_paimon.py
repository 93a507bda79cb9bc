"""A real Paimon lake in a folder, as the simulator drives and checks it: what `SweptMemoryLake` is in memory.

Commits go through the real committer; only the request itself may be lost, come late, or get no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from support.lake_kinds.by_hand import PaimonByHand
from support.lakes.memory_lake import MemoryTable, Range
from tiering.lake.base import Committable, LakeView
from tiering.lake.maintenance import LakeSurvey, StoredFile
from tiering.lake.paimon.commit.committer import PaimonCommitter
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.commit.publishing import RefusedCommit, publish
from tiering.lake.paimon.factory import PaimonTieringFactory
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.reading.snapshots import StoredSnapshot, parse_snapshot
from tiering.lake.paimon.reading.view import marker_in
from tiering.lake.paimon.writing.payload import decode_files
from tiering.model.tables import BucketKey, TableInfo, TablePath

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class LateRequest:
    """A commit on its way. `needed`: all files that its snapshot names."""

    base: LoadedTable
    snapshot_id: int
    content: bytes
    needed: frozenset[str]


class SimulatedPaimonLake(PaimonLake):
    """See the module. Not thread-safe. Tables lie in the database `sales`."""

    tag_moves_in_the_commit = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "lake")
        self._folder = folder / "lake"
        self._by_hand = PaimonByHand(self._folder)
        self.late: list[LateRequest] = []
        self.faults: Callable[[], str] = lambda: "ok"
        self.now: Callable[[], datetime] = lambda: LONG_AGO
        self.meanwhile: Callable[[], None] = lambda: None
        self._by_uuid: dict[str, MemoryTable] = {}
        self._ranges: dict[str, tuple[Range, ...]] = {}

    @property
    def tables(self) -> Mapping[TablePath, MemoryTable]:
        """The tables as they are. Markers and rows of snapshots that expired stay known."""
        loaded = [self._load(TablePath("sales", name)) for name in self._by_hand.tables("sales")]
        return {table.path: self._known(table) for table in loaded if table is not None}

    def _known(self, loaded: LoadedTable) -> MemoryTable:
        table = self._by_uuid.setdefault(loaded.uuid, MemoryTable(loaded.uuid))
        table.head = None if loaded.head is None else loaded.head.snapshot_id
        table.snapshots = {snapshot.snapshot_id: snapshot.described() for snapshot in loaded.chain}
        for snapshot in loaded.chain:
            if snapshot.snapshot_id in table.rows:
                continue
            marker = marker_in(loaded, snapshot)
            if marker is not None:
                table.markers[snapshot.snapshot_id] = marker
            table.rows[snapshot.snapshot_id] = tuple(self._rows_of(loaded, snapshot))
        return table

    def _rows_of(self, loaded: LoadedTable, snapshot: StoredSnapshot) -> Iterator[Range]:
        manifests = Manifests(loaded)
        for entry in manifests.live_entries(snapshot):
            file = loaded.root / manifests.file_path(entry)
            if file.name not in self._ranges:
                self._ranges[file.name] = tuple(_ranges_in(file))
            yield from self._ranges[file.name]

    def tiered(self, table: MemoryTable) -> int | None:
        """The newest tiering commit."""
        return max((snapshot for snapshot in table.snapshots if snapshot in table.markers), default=None)

    def rows(self, path: TablePath) -> tuple[Range, ...]:
        """What a reader of the head sees."""
        table = self.tables.get(path)
        return () if table is None or table.head is None else table.rows[table.head]

    @property
    def files(self) -> Mapping[str, Path]:
        """All there are, by name: those of tables that got another name keep theirs."""
        return {file.name: file for file in self._folder.rglob("*") if file.is_file()}

    def files_of(self, committable: Committable) -> set[str]:
        """What a commit of it will name."""
        return {file.name for result in committable.results for file in decode_files(result.payload).files}

    def missing(self, path: TablePath) -> set[str]:
        """Files that a snapshot of the table, or a delayed request that its compare-and-set would still take, names and nobody has."""
        loaded = self._load(path)
        if loaded is None:
            return set()
        coming = [request for request in self.late if request.base.uuid == loaded.uuid and _head_of(request.base) == _head_of(loaded)]
        manifests, known = Manifests(loaded), set[str]()
        needed = {Path(name).name for snapshot in loaded.chain for name in manifests.named_files(snapshot, known)}
        return needed.union(*(request.needed for request in coming)) - self.files.keys()

    def tiering_factory(self, table: TableInfo) -> PaimonTieringFactory:
        return replace(super().tiering_factory(table), make_committer=partial(PaimonCommitter, sent=self._sent, publisher=self._send))

    def _send(self, base: LoadedTable, snapshot_id: int, content: bytes) -> None:
        fault = self.faults()
        if fault == "late":
            named = Manifests(base).named_files(parse_snapshot(snapshot_id, content), set())
            self.late.append(LateRequest(base, snapshot_id, content, frozenset(Path(name).name for name in named)))
        if fault in ("ok", "answer lost"):
            publish(base, snapshot_id, content)
        if fault != "ok":
            raise RefusedCommit(fault)

    def deliver_late(self) -> None:
        """The oldest delayed request arrives now."""
        if self.late:
            request = self.late.pop(0)
            with suppress(RefusedCommit, OSError):
                publish(request.base, request.snapshot_id, request.content)

    def foreign_commit(self, path: TablePath) -> None:
        """Somebody writes the same rows anew."""
        if self._by_hand.exists(path) and self._by_hand.snapshots(path):
            self._by_hand.rewrite(path)

    def expire_snapshots(self, path: TablePath) -> None:
        """A user forgets what is older than the newest tiering commit."""
        table = self.tables.get(path)
        if table is not None and (tiered := self.tiered(table)) is not None:
            self._by_hand.expire_before(path, tiered)

    def rename(self, path: TablePath, other: TablePath) -> None:
        """A user gives the table another name, and with it another folder."""
        self._by_hand.rename(path, other.table_name)

    def survey(self, path: TablePath) -> LakeSurvey | None:
        self.meanwhile()
        return super().survey(path)

    def stored_files(self, view: LakeView) -> Sequence[StoredFile]:
        """All of them old: no clock may be what protects a file."""
        self.meanwhile()
        return [replace(file, modified_at=LONG_AGO) for file in super().stored_files(view)]

    def live_files(self, view: LakeView) -> Collection[str]:
        self.meanwhile()
        return super().live_files(view)

    def delete_file(self, view: LakeView, location: str) -> None:
        self.meanwhile()
        super().delete_file(view, location)


def _head_of(loaded: LoadedTable) -> str | None:
    return None if loaded.head is None else loaded.head.digest


def _ranges_in(file: Path) -> Iterator[Range]:
    rows = pq.read_table(file, columns=["__bucket", "__offset"], partitioning=None)
    buckets, offsets = rows["__bucket"].to_numpy(), rows["__offset"].to_numpy()
    for bucket in np.unique(buckets):
        mine = np.sort(offsets[buckets == bucket])
        for run in np.split(mine, np.flatnonzero(np.diff(mine) != 1) + 1):
            yield BucketKey(None, int(bucket)), int(run[0]), int(run[-1]) + 1, file.name
