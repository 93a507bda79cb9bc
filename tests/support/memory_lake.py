"""A lake in memory with the compare-and-set of a real one, for simulated rounds: rows are offset ranges.

`MemoryLake.faults` decides what happens to each commit request: it may go through, be lost on the way, go through with
its answer lost, or arrive late (`deliver_late`), after whatever else happened meanwhile.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from tiering.errors import CommitOutcomeUnknown
from tiering.lake.base import (
    Committable,
    CommitterInitContext,
    LakeSnapshot,
    LakeView,
    WriteResult,
    WriterInitContext,
)
from tiering.lake.marker import Marker
from tiering.model import BucketKey, TableInfo, TablePath

Range = tuple[BucketKey, int, int, str]
"""Bucket, first offset, offset after the last, and the name of the file that holds them."""
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class MemoryTable:
    """One lake table. `rows` has, per snapshot, all ranges it contains."""

    uuid: str
    head: int | None = None
    tag: int | None = None
    snapshots: dict[int, LakeSnapshot] = field(default_factory=dict)
    markers: dict[int, Marker] = field(default_factory=dict)
    rows: dict[int, tuple[Range, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A commit on its way."""

    path: TablePath
    uuid: str
    head: int | None
    tag: int | None
    marker: Marker
    ranges: tuple[Range, ...]


class MemoryLake:
    """A `Lake`. Not thread-safe: the simulator runs one thing at a time."""

    format = "iceberg"

    def __init__(self) -> None:
        self.tables: dict[TablePath, MemoryTable] = {}
        self.late: list[Request] = []
        self.deleted: list[Range] = []
        self.faults: Callable[[], str] = lambda: "ok"
        self._ids = itertools.count(1)

    def view(self, path: TablePath) -> LakeView | None:
        table = self.tables.get(path)
        if table is None:
            return None
        marker = None if table.tag is None else table.markers.get(table.tag)
        return LakeView(path, table.uuid, table.head, table.tag, marker, dict(table.snapshots))

    def ensure_table(self, table: TableInfo) -> LakeView:
        self.tables.setdefault(table.path, MemoryTable(f"lake-{next(self._ids)}"))
        view = self.view(table.path)
        assert view is not None
        return view

    def check_schema(self, table: TableInfo) -> None:
        """Holds anything."""

    def tiering_factory(self, table: TableInfo) -> MemoryFactory:
        return MemoryFactory(self, table.path)

    def rows(self, path: TablePath) -> tuple[Range, ...]:
        """What a reader of the head sees."""
        table = self.tables.get(path)
        return () if table is None or table.head is None else table.rows[table.head]

    def foreign_commit(self, path: TablePath) -> None:
        """A compaction: same rows, new head, the tag stays."""
        table = self.tables.get(path)
        if table is not None and table.head is not None:
            self._add(table, table.rows[table.head], None)

    def receive(self, request: Request) -> bool:
        """The compare-and-set on uuid, head and tag; whether it landed."""
        table = self.tables.get(request.path)
        if table is None or (table.uuid, table.head, table.tag) != (request.uuid, request.head, request.tag):
            return False
        before = () if table.head is None else table.rows[table.head]
        snapshot_id = self._add(table, before + request.ranges, request.marker)
        table.tag = snapshot_id
        return True

    def deliver_late(self) -> None:
        """The oldest delayed request arrives now."""
        if self.late:
            self.receive(self.late.pop(0))

    def send(self, request: Request) -> None:
        """As a client sees it: raises CommitOutcomeUnknown whenever the answer is not a plain yes."""
        fault = self.faults()
        if fault == "late":
            self.late.append(request)
        landed = fault in ("ok", "answer lost") and self.receive(request)
        if fault != "ok" or not landed:
            raise CommitOutcomeUnknown(f"the commit was {'refused' if fault == 'ok' else fault}")

    def _add(self, table: MemoryTable, rows: tuple[Range, ...], marker: Marker | None) -> int:
        snapshot_id = next(self._ids)
        table.snapshots[snapshot_id] = LakeSnapshot(
            snapshot_id, table.head, len(table.snapshots) + 1, WHEN, "append", None, None if marker is None else marker.round_id
        )
        if marker is not None:
            table.markers[snapshot_id] = marker
        table.rows[snapshot_id] = rows
        table.head = snapshot_id
        return snapshot_id


class MemoryFactory:
    """A `LakeTieringFactory` whose write results carry their ranges as JSON."""

    def __init__(self, lake: MemoryLake, path: TablePath) -> None:
        self._lake = lake
        self._path = path

    def create_writer(self, context: WriterInitContext) -> MemoryWriter:
        return MemoryWriter(context)

    def create_committer(self, context: CommitterInitContext) -> MemoryCommitter:
        return MemoryCommitter(self._lake, self._path)

    def serialize_write_result(self, result: WriteResult) -> bytes:
        return json.dumps([str(result.bucket), result.starting_offset, result.reached_offset, result.payload.decode()]).encode()

    def deserialize_write_result(self, data: bytes) -> WriteResult:
        bucket, start, reached, file = json.loads(data)
        return WriteResult(BucketKey.parse(bucket), start, reached, reached - start, 1, 1, file.encode())

    def serialize_committable(self, committable: Committable) -> bytes:
        return json.dumps([committable.round_id, [self.serialize_write_result(one).decode() for one in committable.results]]).encode()

    def deserialize_committable(self, data: bytes) -> Committable:
        round_id, results = json.loads(data)
        return Committable(round_id, tuple(self.deserialize_write_result(one.encode()) for one in results))


class MemoryWriter:
    """A `LakeWriter` that counts."""

    def __init__(self, context: WriterInitContext) -> None:
        self._context = context

    def write(self, batch: pa.RecordBatch) -> None:
        """The ranges say it all."""

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        file = f"{self._context.bucket}-{self._context.attempt_nonce}".encode()
        return WriteResult(self._context.bucket, starting_offset, reached_offset, reached_offset - starting_offset, 1, 1, file)

    def abort(self) -> None:
        """Nothing was written."""


class MemoryCommitter:
    """A `LakeCommitter` that sends one request."""

    def __init__(self, lake: MemoryLake, path: TablePath) -> None:
        self._lake = lake
        self._path = path

    def to_committable(self, results: Sequence[WriteResult]) -> Committable:
        return Committable("", tuple(results))

    def commit(self, committable: Committable, base: LakeView, marker: Marker) -> int:
        self._lake.send(Request(self._path, base.table_uuid, base.head, base.tag, marker, _ranges(committable)))
        head = self._lake.tables[self._path].head
        assert head is not None
        return head

    def abort(self, committable: Committable) -> None:
        self._lake.deleted.extend(_ranges(committable))


def _ranges(committable: Committable) -> tuple[Range, ...]:
    return tuple((one.bucket, one.starting_offset, one.reached_offset, one.payload.decode()) for one in committable.results)
