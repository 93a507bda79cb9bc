"""A real Paimon lake in a folder, as the simulator drives and checks it: what `SweptMemoryLake` is in memory.

Commits go through the real committer; only the request itself may be lost, come late, or get no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from support.lake_kinds.by_hand import PaimonByHand
from support.lake_kinds.simulated_lake import SimulatedLake
from support.lakes.memory_lake import MemoryTable, Range
from tiering.lake.base import Committable
from tiering.lake.paimon.commit.committer import PaimonCommitter, RefusedCommit, publish
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.factory import PaimonTieringFactory
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.reading.snapshots import StoredSnapshot, parse_snapshot
from tiering.lake.paimon.reading.view import marker_in
from tiering.lake.paimon.writing.payload import decode_files
from tiering.model.tables import TableInfo, TablePath


@dataclass(frozen=True)
class LateRequest:
    """A commit on its way. `needed`: all files that its snapshot names."""

    base: LoadedTable
    snapshot_id: int
    content: bytes
    needed: frozenset[str]


class SimulatedPaimonLake(SimulatedLake, PaimonLake):
    """See the module."""

    tag_moves_in_the_commit = False

    def __init__(self, folder: Path, seed: str = "") -> None:
        super().__init__(folder / "lake", folder=folder, seed=seed)
        self.by_hand: PaimonByHand = PaimonByHand(self.folder)
        self._by_uuid: dict[str, MemoryTable] = {}

    @property
    def tables(self) -> Mapping[TablePath, MemoryTable]:
        """The tables as they are. Markers and rows of snapshots that expired stay known."""
        with self.file_system.calm():
            loaded = [self._load(TablePath("sales", name)) for name in self.by_hand.tables("sales")]
            return {table.path: self._known(table) for table in loaded if table is not None}

    def _known(self, loaded: LoadedTable) -> MemoryTable:
        table = self._by_uuid.setdefault(loaded.uuid, MemoryTable(loaded.uuid))
        table.head = None if loaded.head is None else loaded.head.snapshot_id
        table.snapshots = {snapshot.snapshot_id: snapshot.described for snapshot in loaded.chain}
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
            yield from self.ranges_in(loaded.root / manifests.file_path(entry))

    def tiered(self, table: MemoryTable) -> int | None:
        """The newest tiering commit."""
        return max((snapshot for snapshot in table.snapshots if snapshot in table.markers), default=None)

    def files_of(self, committable: Committable) -> set[str]:
        """Returns the files that a commit of it will name."""
        return {file.name for result in committable.results for file in decode_files(result.payload).files}

    def missing(self, path: TablePath) -> set[str]:
        """Returns missing files: a snapshot of the table names them, or a delayed request that its compare-and-set would still accept."""
        with self.file_system.calm():
            loaded = self._load(path)
            return set() if loaded is None else self._missing(loaded)

    def _missing(self, loaded: LoadedTable) -> set[str]:
        coming = [request for request in self.late if request.base.uuid == loaded.uuid and _head_of(request.base) == _head_of(loaded)]
        manifests, known = Manifests(loaded), set[str]()
        needed = {Path(name).name for snapshot in loaded.chain for name in manifests.named_files(snapshot, known)}
        return needed.union(*(request.needed for request in coming)) - self.files.keys()

    def tiering_factory(self, table: TableInfo) -> PaimonTieringFactory:
        return replace(super().tiering_factory(table), make_committer=partial(PaimonCommitter, sent=self._sent, publisher=self._send))

    def _send(self, base: LoadedTable, snapshot_id: int, content: bytes) -> None:
        fault = self.faults()
        if fault == "late":
            with self.file_system.calm():
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

    def expire_snapshots(self, path: TablePath) -> None:
        """A user forgets what is older than the newest tiering commit."""
        table = self.tables.get(path)
        if table is not None and (tiered := self.tiered(table)) is not None:
            with self.file_system.calm():
                self.by_hand.expire_before(path, tiered)


def _head_of(loaded: LoadedTable) -> str | None:
    return None if loaded.head is None else loaded.head.digest
