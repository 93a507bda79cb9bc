"""A lake in memory with the compare-and-set of a real one, for simulated rounds: rows are offset ranges.

Files are names with the time they were written; a writer's and a committer's are named as the real lake names them.

`MemoryLake.faults` decides what happens to each commit request: it may go through, be lost on the way, go through with
its answer lost, or arrive late (`deliver_late`), after whatever else happened meanwhile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tiering.errors import CommitOutcomeUnknown, LakeTableReplaced
from tiering.lake.base import (
    NO_PROPERTIES,
    Committable,
    LakeSnapshot,
    LakeView,
    WriteResult,
    WriterInitContext,
)
from tiering.lake.layouts import Layout
from tiering.lake.marker import Marker
from tiering.lake.proof.row_checksum import MODULUS
from tiering.lake.rules.commit_check import check_committable
from tiering.lake.rules.hints import absent_table, replaced_hint
from tiering.model.tables import OFFSET_COLUMN, SNAPSHOT_OFFSET, BucketKey, TableInfo, TablePath

Range = tuple[BucketKey, int, int, str]
"""Bucket, first offset, offset after the last, and the name of the file that holds them."""
BEGUN = "-begun"
"""In the name of a file: it has rows of a KV snapshot, beside what stands in the bucket."""
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class MemoryTable:
    """One lake table. Per snapshot, `rows` has all ranges it contains and `named` all files it needs; both outlive an expiry.

    `expired`: snapshots that former metadata still names, where the format has any.
    """

    uuid: str
    head: int | None = None
    tag: int | None = None
    snapshots: dict[int, LakeSnapshot] = field(default_factory=dict)
    markers: dict[int, Marker] = field(default_factory=dict)
    rows: dict[int, tuple[Range, ...]] = field(default_factory=dict)
    named: dict[int, frozenset[str]] = field(default_factory=dict)
    expired: dict[int, LakeSnapshot] = field(default_factory=dict)

    def expire_all_but(self, kept: Collection[int | None], *, forgets: bool) -> None:
        """A user expires all other snapshots. `forgets`: and deletes the former metadata, so that nothing tells what they were."""
        self.expired |= {number: snapshot for number, snapshot in self.snapshots.items() if number not in kept}
        self.snapshots = {number: snapshot for number, snapshot in self.snapshots.items() if number in kept}
        if forgets:
            self.expired = {}


@dataclass(frozen=True)
class Request:
    """A commit on its way."""

    path: TablePath
    uuid: str
    head: int | None
    tiered: int | None
    marker: Marker
    ranges: tuple[Range, ...]
    manifest: str = ""
    identity: int | None = None
    """Identity of the head, for formats that reuse ids of snapshots; None: the id alone identifies it."""
    rewrites: tuple[Any, ...] = ()
    """Files that take the place of others, where the lake can do that."""
    removed: tuple[int, ...] = ()
    """Snapshots that expire with it."""
    is_upkeep: bool = False
    """Whether it is of an upkeep round, which brings no row."""


class MemoryLake:
    """A `Lake`. Not thread-safe: the simulator runs one thing at a time.

    `tag_moves_in_the_commit`: as in Iceberg, and the tag tells which commit is the newest tiering commit. False: as in Paimon, where
    a tag follows a commit some time later (`move_tag`) or never, and the newest snapshot with a marker is the newest tiering commit.
    """

    format = "iceberg"
    tag_moves_in_the_commit = True
    layout = Layout.SYSTEM_COLUMNS
    """Clean: write results have checksums, so that markers have proofs."""

    def __init__(self) -> None:
        self.tables: dict[TablePath, MemoryTable] = {}
        self.late: list[Request] = []
        self.deleted: list[Range] = []
        self.files: dict[str, datetime] = {}
        self.now: Callable[[], datetime] = lambda: WHEN
        self.faults: Callable[[], str] = lambda: "ok"
        self.properties: dict[str, Mapping[str, str]] = {}
        """By round what its snapshot carries beside the marker."""
        self._ids = itertools.count(1)
        self._ensured: dict[TablePath, str] = {}

    def databases(self) -> list[str]:
        return sorted({path.database_name for path in self.tables})

    def view(self, path: TablePath) -> LakeView | None:
        table = self.tables.get(path)
        if table is None:
            return None
        tiered = self.tiered(table)
        marker = None if tiered is None else table.markers.get(tiered)
        reference = "tag lakeward-tiered" if self.tag_moves_in_the_commit else None
        expired = dict(table.expired) if self.tag_moves_in_the_commit else {}
        return LakeView(path, table.uuid, table.head, tiered, marker, dict(table.snapshots), reference=reference, expired=expired)

    def tiered(self, table: MemoryTable) -> int | None:
        """The newest tiering commit."""
        if self.tag_moves_in_the_commit:
            return table.tag
        return max((snapshot for snapshot in table.snapshots if snapshot in table.markers), default=None)

    def move_tag(self, table: MemoryTable) -> None:
        """The tag follows the newest tiering commit."""
        table.tag = self.tiered(table)

    def ensure_table(self, table: TableInfo, *, may_create: bool = True) -> LakeView:
        if table.path not in self.tables and not may_create:
            raise absent_table(table.path)
        self.tables.setdefault(table.path, MemoryTable(f"lake-{next(self._ids)}"))
        view = self.view(table.path)
        assert view is not None
        self._ensured[table.path] = view.table_uuid
        return view

    def check_schema(self, table: TableInfo) -> None:
        """Holds anything."""

    def bucket_files(self, table: TableInfo, view: LakeView, buckets: Mapping[BucketKey, str | None]) -> Mapping[BucketKey, bytes]:
        return {}

    def tiering_factory(self, table: TableInfo) -> MemoryFactory:
        uuid = self._ensured.get(table.path) or self.tables[table.path].uuid
        return MemoryFactory(self, table.path, uuid)

    def rows(self, path: TablePath) -> tuple[Range, ...]:
        """Returns the rows that a reader of the head sees."""
        table = self.tables.get(path)
        return () if table is None or table.head is None else table.rows[table.head]

    def foreign_commit(self, path: TablePath) -> None:
        """A compaction: the same rows in a file of its own, new head, the tag stays."""
        table = self.tables.get(path)
        if table is not None and table.head is not None:
            file = self.write(f"{next(self._ids):05}-compacted.parquet")
            self._add(table, tuple((bucket, start, stop, file) for bucket, start, stop, _ in table.rows[table.head]), None, ())

    def rename(self, path: TablePath, other: TablePath) -> None:
        """A user gives the table another name. Its files stay where they are: in the one folder of this lake."""
        self.tables[other] = self.tables.pop(path)

    def files_of(self, committable: Committable) -> set[str]:
        """Returns the files that a commit of it will name."""
        return {file for *_, file in ranges_of(committable)}

    def new_id(self) -> int:
        """The next number; also names snapshots."""
        return next(self._ids)

    def write(self, name: str) -> str:
        """A file is there from now on."""
        self.files[name] = self.now()
        return name

    def receive(self, request: Request) -> bool:
        """The compare-and-set on uuid, head and newest tiering commit; whether it landed."""
        table = self.tables.get(request.path)
        if table is None or (table.uuid, table.head, self.tiered(table)) != (request.uuid, request.head, request.tiered):
            return False
        head = None if table.head is None else table.snapshots.get(table.head)
        if head is not None and request.identity not in (None, head.identity):
            return False
        before = () if table.head is None else table.rows[table.head]
        manifests = () if table.head is None else tuple(name for name in table.named[table.head] if name.endswith(".avro"))
        snapshot_id = self._add(table, before + request.ranges, request.marker, (*manifests, request.manifest))
        if self.tag_moves_in_the_commit:
            table.tag = snapshot_id
        return True

    def deliver_late(self) -> None:
        """The oldest delayed request arrives now."""
        if self.late:
            self.receive(self.late.pop(0))

    def send(self, request: Request) -> None:
        """Sends a request as a client: raises CommitOutcomeUnknown unless the answer is a plain yes."""
        fault = self.faults()
        if fault == "late":
            self.late.append(request)
        landed = fault in ("ok", "answer lost") and self.receive(request)
        if fault != "ok" or not landed:
            raise CommitOutcomeUnknown(f"the commit was {'refused' if fault == 'ok' else fault}")

    def _add(self, table: MemoryTable, rows: tuple[Range, ...], marker: Marker | None, manifests: tuple[str, ...]) -> int:
        snapshot_id = next(self._ids)
        table.snapshots[snapshot_id] = LakeSnapshot(
            snapshot_id, table.head, len(table.named) + 1, WHEN, "append", None, None if marker is None else marker.round_id
        )
        if marker is not None:
            table.markers[snapshot_id] = marker
        table.rows[snapshot_id] = rows
        table.named[snapshot_id] = frozenset({file for *_, file in rows} | {name for name in manifests if name})
        table.head = snapshot_id
        return snapshot_id


class MemoryFactory:
    """A `LakeTieringFactory` whose write results name their file."""

    def __init__(self, lake: MemoryLake, path: TablePath, uuid: str) -> None:
        self._lake = lake
        self._path = path
        self._uuid = uuid

    def create_writer(self, context: WriterInitContext) -> MemoryWriter:
        if self._uuid != context.lake_table_uuid:
            raise LakeTableReplaced(
                f"the lake table {self._path} is {self._uuid}, not {context.lake_table_uuid}", hint=replaced_hint(self._path)
            )
        return MemoryWriter(self._lake, context)

    def create_committer(self) -> MemoryCommitter:
        return MemoryCommitter(self._lake, self._path)


class MemoryWriter:
    """A `LakeWriter` that counts."""

    def __init__(self, lake: MemoryLake, context: WriterInitContext) -> None:
        self._context = context
        self._lake = lake
        replacing = "-replacing" if context.replaces else ""
        self._file = lake.write(f"lakeward-{context.round_id}-{context.attempt_nonce}-{context.bucket}{replacing}.parquet")

    def write(self, batch: pa.RecordBatch) -> None:
        """The ranges say it all, but for rows of a KV snapshot."""
        if not self._context.replaces and SNAPSHOT_OFFSET in batch.column(OFFSET_COLUMN).to_pylist() and BEGUN not in self._file:
            written = self._lake.files.pop(self._file)
            self._file = self._file.removesuffix(".parquet") + f"{BEGUN}.parquet"
            self._lake.files[self._file] = written

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        records = reached_offset - starting_offset
        checksum = checksum_of(starting_offset, reached_offset) if self._lake.layout is Layout.CLEAN else None
        return WriteResult(self._context.bucket, starting_offset, reached_offset, records, 1, 1, self._file.encode(), checksum=checksum)

    def abort(self) -> None:
        self._lake.files.pop(self._file, None)


class MemoryCommitter:
    """A `LakeCommitter` that sends one request."""

    def __init__(self, lake: MemoryLake, path: TablePath) -> None:
        self._lake = lake
        self._path = path

    def commit(self, committable: Committable, base: LakeView, marker: Marker, properties: Mapping[str, str] = NO_PROPERTIES) -> int:
        check_committable(committable, base, marker)
        manifest = self._lake.write(f"lakeward-{marker.round_id}-m{self._lake.new_id()}.avro")
        self._lake.properties[marker.round_id] = properties
        ranges = ranges_of(committable)
        self._lake.send(Request(self._path, base.table_uuid, base.head, base.tiered, marker, ranges, manifest, base.head_identity))
        head = self._lake.tables[self._path].head
        assert head is not None
        return head

    def abort(self, committable: Committable) -> None:
        self._lake.deleted.extend(ranges_of(committable))
        for *_, file in ranges_of(committable):
            self._lake.files.pop(file, None)


def checksum_of(start: int, stop: int) -> int:
    """Returns the checksum of the rows with the offsets `[start, stop)`. It sums like that of real rows."""
    return sum(offset * 0x9E3779B97F4A7C15 for offset in range(start, stop)) % MODULUS


def ranges_of(committable: Committable) -> tuple[Range, ...]:
    """Returns the ranges in its write results, with their files."""
    return tuple((result.bucket, result.starting_offset, result.reached_offset, result.payload.decode()) for result in committable.results)
