"""A real Iceberg lake in a folder, with pyiceberg's SQL catalog, as the simulator drives and checks it.

Commits go through the real committer and the real catalog; only the request itself may be lost, come late, or get no answer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from sqlalchemy.exc import SQLAlchemyError

from support.lake_kinds.by_hand import IcebergByHand
from support.lake_kinds.simulated_lake import SimulatedLake
from support.lakes.memory_lake import MemoryTable, Range
from tiering.lake.base import Committable
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.reading.view import marker_in, view_of
from tiering.lake.iceberg.writing.data_files import decode_files
from tiering.lake.marker import ROUND_ID_KEY
from tiering.lake.registry import LAKE_CATALOG_FILE, local_lake_properties
from tiering.model.tables import TablePath

REFUSALS = (CommitFailedException, NoSuchTableError, OSError, SQLAlchemyError)


@dataclass(frozen=True)
class LateRequest:
    """A commit on its way."""

    table: Table
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]

    @property
    def snapshots(self) -> list[Snapshot]:
        """Snapshots that it adds: below the commit of the round perhaps one that replaces files."""
        return [update.snapshot for update in self.updates if isinstance(update, AddSnapshotUpdate)]


class SimulatedIcebergLake(SimulatedLake, IcebergLake):
    """See the module."""

    tag_moves_in_the_commit = True

    def __init__(self, folder: Path, seed: str = "") -> None:
        properties = local_lake_properties(folder)
        super().__init__(properties, folder=folder, seed=seed)
        self.by_hand: IcebergByHand = IcebergByHand(properties)
        self._catalog_file = folder / LAKE_CATALOG_FILE
        catalog: Any = self._open()
        self._send = catalog.commit_table
        load, create = catalog.load_table, catalog.create_table
        catalog.commit_table = self._commit_table
        catalog.load_table = lambda *args, **options: self.file_system.run("catalog", load, *args, **options)
        catalog.create_table = lambda *args, **options: self.file_system.run("catalog", create, *args, **options)
        self._loaded: dict[str, StaticTable] = {}
        self._by_uuid: dict[str, MemoryTable] = {}
        self._named: dict[int, frozenset[str]] = {}

    def _stored(self) -> dict[TablePath, StaticTable]:
        """The catalog's tables, read from its database and not through the catalog."""
        with sqlite3.connect(f"file:{self._catalog_file}?mode=ro", uri=True) as database:
            rows = database.execute("SELECT table_name, metadata_location FROM iceberg_tables").fetchall()
        database.close()
        for _, location in rows:
            if location not in self._loaded:
                self._loaded[location] = StaticTable.from_metadata(location)
        return {TablePath("sales", name): self._loaded[location] for name, location in sorted(rows)}

    @property
    def tables(self) -> Mapping[TablePath, MemoryTable]:
        """The tables as they are. Markers and rows of snapshots that expired stay known."""
        with self.file_system.calm():
            return {path: self._known(path, stored) for path, stored in self._stored().items()}

    def _known(self, path: TablePath, stored: StaticTable) -> MemoryTable:
        view = view_of(path, stored, lenient=True)
        table = self._by_uuid.setdefault(view.table_uuid, MemoryTable(view.table_uuid))
        table.head, table.tag, table.snapshots = view.head, view.tiered, dict(view.snapshots)
        for snapshot in sorted(stored.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0):
            if snapshot.snapshot_id in table.rows:
                continue
            if view.snapshots[snapshot.snapshot_id].round_id is not None:
                marker = marker_in(stored, snapshot.snapshot_id)
                assert marker is not None, f"snapshot {snapshot.snapshot_id} names a round in {ROUND_ID_KEY} and has no marker"
                table.markers[snapshot.snapshot_id] = marker
            table.rows[snapshot.snapshot_id] = tuple(self._rows_of(stored, snapshot))
        return table

    def _rows_of(self, stored: Table, snapshot: Snapshot) -> Iterator[Range]:
        for manifest in snapshot.manifests(stored.io):
            for entry in manifest.fetch_manifest_entry(stored.io):
                yield from self.ranges_in(Path(entry.data_file.file_path.removeprefix("file://")))

    def tiered(self, table: MemoryTable) -> int | None:
        """The newest tiering commit."""
        return table.tag

    def files_of(self, committable: Committable) -> set[str]:
        """Returns the files that a commit of it will name."""
        return {
            Path(file.file_path).name
            for result in (*committable.results, *committable.rewrites)
            for file in decode_files(result.payload).files
        }

    def missing(self, path: TablePath) -> set[str]:
        """Returns missing files: a snapshot of the table names them, or a delayed request that its compare-and-set would still accept."""
        with self.file_system.calm():
            stored = self._stored().get(path)
            if stored is None:
                return set()
            coming = [snapshot for request in self.late if _would_land(request, stored) for snapshot in request.snapshots]
            needed = frozenset[str]().union(*(self._files_named(stored, snapshot) for snapshot in (*stored.metadata.snapshots, *coming)))
        return needed - self.files.keys()

    def _files_named(self, stored: Table, snapshot: Snapshot) -> frozenset[str]:
        """All files that readers of a snapshot need."""
        if snapshot.snapshot_id not in self._named:
            names = [snapshot.manifest_list]
            for manifest in snapshot.manifests(stored.io):
                names += [manifest.manifest_path, *(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(stored.io))]
            self._named[snapshot.snapshot_id] = frozenset(Path(name).name for name in names)
        return self._named[snapshot.snapshot_id]

    def _commit_table(self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]) -> Any:
        fault = self.faults()
        if fault == "late":
            request = LateRequest(table, requirements, updates)
            self.late.append(request)
            with self.file_system.calm():
                for snapshot in request.snapshots:
                    self._files_named(table, snapshot)
        answer = self._send(table, requirements, updates) if fault in ("ok", "answer lost") else None
        if fault != "ok":
            raise ConnectionError(fault)
        return answer

    def deliver_late(self) -> None:
        """The oldest delayed request arrives now."""
        if self.late:
            request = self.late.pop(0)
            with suppress(*REFUSALS):
                self._send(request.table, request.requirements, request.updates)

    def expire_snapshots(self, path: TablePath) -> None:
        """A user forgets what is older than the newest tiering commit, and the files that only that needs."""
        table = self.tables.get(path)
        tiered = None if table is None else table.snapshots.get(self.tiered(table) or 0)
        if table is None or tiered is None:
            return
        with self.file_system.calm():
            stored = self._stored()[path]
            older = {entry.snapshot_id for entry in table.snapshots.values() if entry.sequence_number < tiered.sequence_number}
            gone, kept = set[str](), set[str]()
            for snapshot in stored.metadata.snapshots:
                (gone if snapshot.snapshot_id in older else kept).update(self._files_named(stored, snapshot))
            if older:
                self.by_hand.expire_these(path, older)
            files = self.files
            for name in (gone - kept) & files.keys():
                files[name].unlink()


def _would_land(request: LateRequest, stored: Table) -> bool:
    with suppress(CommitFailedException):
        for requirement in request.requirements:
            requirement.validate(stored.metadata)
        return True
    return False
