"""A lake in memory whose files know which rows they really hold, and that breaks as storages, catalogs, libraries and users do.

What a commit says of its files is compared with them when it lands (`on_landing`). Each lake table has a folder, which stays its own when
it is renamed.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from support.lakes.memory_lake import MemoryCommitter, MemoryFactory, MemoryTable, Range, Request
from support.lakes.swept_lake import SweptMemoryLake
from support.simulated import upkeep
from support.simulated.chance import Chance, PanicException
from tiering.errors import Cancelled, LakeTableReplaced, LakeUnavailable
from tiering.lake.base import NO_PROPERTIES, Committable, FileRewrite, LakeView, WriteResult, WriterInitContext
from tiering.lake.maintenance import LakeSurvey, RewriteTask, StoredFile, UpkeepPlan, never
from tiering.lake.marker import Marker
from tiering.lake.rules.commit_check import check_committable
from tiering.lake.rules.contiguous_offsets import Place, RowOffsets
from tiering.lake.rules.hints import replaced_hint
from tiering.model.tables import SNAPSHOT_OFFSET, BucketKey, TableInfo, TablePath, TableType
from tiering.model.upkeep import UpkeepOrder

UNAVAILABLE = 0.003
OVERTAKEN_SHARE = 0.5
"""Share of commits that replace files before which another commit lands."""
COMMIT_SHARE = 0.08
"""Share of commit requests for each kind of fault."""


@dataclass(frozen=True)
class FileContent:
    """The rows of one data file: `[start, stop)` of a bucket's log, behind its KV snapshot as of `snapshot_offset`, if it has one."""

    table_id: int
    bucket: BucketKey
    start: int
    stop: int
    snapshot_offset: int | None = None
    replaces: bool = False


class SimulatedLake(SweptMemoryLake):
    """See the module. `on_landing` gets each commit of ours that landed, with the newest marker before it."""

    def __init__(self, chance: Chance, partition_names: Mapping[int, str]) -> None:
        super().__init__()
        self.chance = chance
        self.contents: dict[str, FileContent] = {}
        self.folders: dict[str, TablePath] = {}
        """Folders of lake tables, by uuid."""
        self.folder_of_file: dict[str, TablePath] = {}
        self.sent_rounds: set[str] = set()
        self.named_by: dict[str, dict[int, frozenset[str]]] = {}
        """By lake table and snapshot, the files that it needs."""
        self.on_landing: Callable[[Request, Marker | None], None] = lambda request, base: None
        self.on_set_back: Callable[[Collection[str]], None] = lambda round_ids: None
        """Gets the rounds that a roll-back took out of the table."""
        self.on_delete: Callable[[str], None] = lambda name: None
        self.on_making: Callable[[TableInfo], None] = lambda table: None
        self.during_commits: Callable[[], None] = lambda: None
        self.fails_in_repairs = True
        """Whether it may fail to answer where reconciliations and sweeps read it."""
        self.expires = False
        """Whether snapshots expire with commits, and files that only they named are deleted."""
        self._partition_names = partition_names
        self.faults = self._fault_of_request

    def answer(self, question: str) -> None:
        """At times the catalog has none, or the library that asks it breaks."""
        if self.chance.strikes("lake-unreachable", UNAVAILABLE):
            raise LakeUnavailable(f"the catalog does not answer: {question}")
        if self.chance.strikes("library-panic", UNAVAILABLE):
            raise PanicException("in a library that talks to the catalog")

    def view(self, path: TablePath) -> LakeView | None:
        self.answer("view")
        return super().view(path)

    def ensure_table(self, table: TableInfo, *, may_create: bool = True) -> LakeView:
        self.answer("making a table")
        if table.path not in self.tables and may_create:
            self.on_making(table)
            self.tables[table.path] = MemoryTable(f"lake-{self.new_id()}")
            self.folders[self.tables[table.path].uuid] = table.path
            self.named_by[self.tables[table.path].uuid] = self.tables[table.path].named
        if self.chance.strikes("lake-unreachable", 0.03):
            raise LakeUnavailable("the answer of the catalog got lost after it made the table")
        return super().ensure_table(table, may_create=may_create)

    def tiering_factory(self, table: TableInfo) -> MemoryFactory:
        uuid = self._ensured.get(table.path)
        if uuid is None:
            uuid = self.tables[table.path].uuid if table.path in self.tables else ""
        return SimulatedFactory(self, table.path, uuid)

    def write(self, name: str) -> str:
        raise AssertionError(f"{name} has no folder")

    def write_in(self, folder: TablePath, name: str) -> str:
        """A file is there from now on."""
        self.files[name] = self.now()
        self.folder_of_file[name] = folder
        return name

    def remove(self, name: str) -> None:
        """A file is gone."""
        if name in self.files:
            self.on_delete(name)
            del self.files[name]

    def receive(self, request: Request) -> bool:
        table = self.tables.get(request.path)
        newest = None if table is None else self.tiered(table)
        base = None if table is None or newest is None else table.markers.get(newest)
        emptied = {self._place(content.bucket) for *_, file in request.ranges if (content := self.contents[file]).replaces}
        if table is not None and request.rewrites and self._would_land(table, request):
            assert table.head is not None
            self._add(table, upkeep.with_rewrites(table.rows[table.head], request.rewrites), None, ())
            request = replace(request, head=table.head, identity=None)
        landed = super().receive(request) if table is None else self._received(request, table, emptied)
        if landed and table is not None and table.snapshots.keys() >= set(request.removed):
            table.expire_all_but(table.snapshots.keys() - set(request.removed), forgets=False)
        if landed:
            self.on_landing(request, base)
        return landed

    def _would_land(self, table: MemoryTable, request: Request) -> bool:
        head = None if table.head is None else table.snapshots.get(table.head)
        is_same = head is not None and request.identity in (None, head.identity)
        return is_same and (table.uuid, table.head, self.tiered(table)) == (request.uuid, request.head, request.tiered)

    def _place(self, bucket: BucketKey) -> Place:
        """Where a real lake has the rows of a bucket: it knows a partition by its value, not by its id."""
        return None if bucket.partition_id is None else self._partition_names[bucket.partition_id], bucket.bucket_id

    def _received(self, request: Request, table: MemoryTable, emptied: Collection[Place]) -> bool:
        """Receives a request like `receive`, which replaces all rows in the places of `emptied`."""
        head = table.head
        if head is None:
            return super().receive(request)
        all_rows = table.rows[head]
        table.rows[head] = tuple(row for row in all_rows if self._place(row[0]) not in emptied)
        try:
            return super().receive(request)
        finally:
            table.rows[head] = all_rows

    def _fault_of_request(self) -> str:
        """Draws the fault of a commit request."""
        self.during_commits()
        for fault, happens in (("commit-request-lost", "lost"), ("commit-answer-lost", "answer lost"), ("commit-request-late", "late")):
            if self.chance.strikes(fault, COMMIT_SHARE):
                return happens
        return "ok"

    # --- upkeep

    def files_of(self, committable: Committable) -> set[str]:
        """Returns the files that a commit of it will name."""
        return super().files_of(committable) | {upkeep.rewrite_in(rewrite).file for rewrite in committable.rewrites}

    def merge_small_files(
        self,
        table: TableInfo,
        view: LakeView,
        buckets: Mapping[BucketKey, str | None],
        round_id: str,
        new_nonce: Callable[[], str],
        budget_bytes: int,
        is_over: Callable[[], bool] = never,
    ) -> Sequence[FileRewrite]:
        """Merges small files, as `FileMerging` describes."""
        rows = self._rows_at(view)
        ranges = upkeep.rows_by_bucket(rows, buckets.keys())
        merged = [rows_of for rows_of in ranges.values() if upkeep.files_in(rows_of) >= upkeep.MERGED_FILES]
        return [self.rewrite_rows(view.table_uuid, rows_of, round_id, new_nonce()) for rows_of in merged]

    def plan_upkeep(self, table: TableInfo, view: LakeView, order: UpkeepOrder, partitions: Mapping[str, int]) -> UpkeepPlan:
        """Plans upkeep, as `TableUpkeep` describes."""
        self.answer("the files to rewrite")
        ids = {None, *partitions.values()}
        rows = self._rows_at(view)
        ranges = upkeep.rows_by_bucket(rows, {row[0] for row in rows if row[0].partition_id in ids})
        tasks = [
            RewriteTask(bucket, None, json.dumps([view.table_uuid, view.head]).encode(), upkeep.files_in(rows_of), len(rows_of))
            for bucket, rows_of in ranges.items()
            if upkeep.files_in(rows_of) > 1
        ]
        return UpkeepPlan(tuple(tasks) if order.rewrite else ())

    def _rows_at(self, view: LakeView) -> Sequence[Range]:
        tables = [table for table in self.tables.values() if table.uuid == view.table_uuid]
        return () if view.head is None or not tables else tables[0].rows[view.head]

    def rewrite_rows(self, uuid: str, rows: Sequence[Range], round_id: str, nonce: str) -> FileRewrite:
        """Writes the file of a rewrite."""
        bucket = rows[0][0]
        name = self.write_in(self.folders[uuid], f"lakeward-{round_id}-{nonce}-{bucket}-merged.parquet".replace("/", "_"))
        first, stop = min(row[1] for row in rows), max(row[2] for row in rows)
        self.contents[name] = FileContent(self.contents[rows[0][3]].table_id, bucket, first, stop)
        return upkeep.rewritten(upkeep.Rewrite(name, tuple(rows)))

    def fitting_rewrites(self, path: TablePath, base: LakeView, rewrites: Sequence[FileRewrite]) -> tuple[upkeep.Rewrite, ...]:
        """Returns the rewrites that may be committed on `base`."""
        decoded = [upkeep.rewrite_in(rewrite) for rewrite in rewrites]
        head = self._rows_at(base)
        return tuple(rewrite for rewrite in decoded if self.fits(rewrite, head) and rewrite.file in self.files)

    def fits(self, rewrite: upkeep.Rewrite, head: Sequence[Range]) -> bool:
        """Whether a rewrite may be committed on a head with these rows."""
        return upkeep.fits(rewrite, head)

    def removed_with(self, path: TablePath, base: LakeView) -> tuple[int, ...]:
        """The snapshots that expire with a commit on `base`, of a lake whose commits can do that."""
        table = self.tables.get(path)
        if not self.expires or not self.tag_moves_in_the_commit or table is None or table.head != base.head:
            return ()
        return upkeep.removable(table, self.tiered(table))

    def delete_old_metadata(self, base: LakeView, confirmed: LakeView) -> Sequence[str]:
        """See `OldMetadata`: there is none."""
        return ()

    def may_delete_expired(self, view: LakeView) -> bool:
        return self.expires

    def unnamed_metadata(self, view: LakeView, files: Sequence[StoredFile]) -> Sequence[StoredFile]:
        return ()

    # --- what users do to it

    def compact(self, path: TablePath) -> bool:
        """Rewrites the rows of the head to other files, as a user."""
        table = self.tables.get(path)
        if table is None or table.head is None or not table.rows[table.head]:
            return False
        rows: list[Range] = []
        for bucket, start, stop, file in table.rows[table.head]:
            name = self.write_in(self.folders[table.uuid], f"{self.new_id():05}-compacted.parquet")
            self.contents[name] = replace(self.contents[file], start=start, stop=stop, snapshot_offset=None, replaces=False)
            rows.append((bucket, start, stop, name))
        self._add(table, tuple(rows), None, ())
        return True

    def roll_back(self, path: TablePath) -> bool:
        """Sets the main branch to the snapshot before the head, as a user."""
        table = self.tables.get(path)
        parent = None if table is None or table.head is None else table.snapshots[table.head].parent_id
        if table is None or parent is None or parent not in table.snapshots:
            return False
        table.head = parent
        return True

    def set_back(self, path: TablePath) -> bool:
        """Makes the tiering commit before the newest one the newest again, as a user: with its tag, or like Paimon's `rollback_to`, which
        deletes later snapshots."""
        table = self.tables.get(path)
        newest = None if table is None else self.tiered(table)
        current = None if table is None or newest not in table.snapshots else table.snapshots[newest].parent_id
        while table is not None and current in table.snapshots and current not in table.markers:
            current = table.snapshots[current].parent_id
        if table is None or current is None or current not in table.snapshots:
            return False
        table.head, sequence = current, table.snapshots[current].sequence_number
        newer = {number for number, row in table.snapshots.items() if row.sequence_number > sequence}
        self.on_set_back({marker.round_id for number, marker in table.markers.items() if number in newer})
        if self.tag_moves_in_the_commit:
            table.tag = current
        else:
            table.snapshots = {number: row for number, row in table.snapshots.items() if row.sequence_number <= sequence}
        return True

    def untag(self, path: TablePath) -> bool:
        table = self.tables.get(path)
        if table is None or table.tag is None:
            return False
        table.tag = None
        return True

    def drop(self, path: TablePath) -> bool:
        """Drops a table; its files stay until a user sweeps the storage."""
        return self.tables.pop(path, None) is not None

    def expire_parents(self, path: TablePath) -> bool:
        """Expires everything but the head and the tagged snapshot, as a user."""
        table = self.tables.get(path)
        kept = set() if table is None else {table.head, self.tiered(table)}
        if table is None or len(table.snapshots) <= len(kept):
            return False
        table.expire_all_but(kept, forgets=self.forgets(table))
        return True

    def forgets(self, table: MemoryTable) -> bool:
        """Whether the former metadata of a table is deleted when its snapshots expire: of every other one."""
        return int(table.uuid.removeprefix("lake-")) % 2 == 0

    # --- maintenance

    def survey(self, path: TablePath) -> LakeSurvey | None:
        self.meanwhile()
        view = self.view(path)
        if view is None:
            return None
        table = self.tables[path]
        markers = [number for number in table.snapshots if number in table.markers]
        newest = table.markers[max(markers)] if markers else None
        return LakeSurvey(view, newest, self._head_marker(table))

    def _head_marker(self, table: MemoryTable) -> Marker | None:
        at, known = table.head, {**(table.expired if self.tag_moves_in_the_commit else {}), **table.snapshots}
        while at is not None and at in known:
            if at in table.markers:
                return table.markers[at] if at in table.snapshots else None
            at = known[at].parent_id
        return None

    def _answer_repair(self, question: str) -> None:
        if self.fails_in_repairs:
            self.answer(question)

    def stored_files(self, view: LakeView) -> Sequence[StoredFile]:
        self._answer_repair("the files")
        self.meanwhile()
        folder = self.folders[view.table_uuid]
        return [StoredFile(name, name, 1, written) for name, written in sorted(self.files.items()) if self.folder_of_file[name] == folder]

    def live_files(self, view: LakeView) -> Collection[str]:
        self._answer_repair("the files of all snapshots")
        self.meanwhile()
        named = self.named_by[view.table_uuid]  # metadata in hand, also of a table that was dropped since
        return frozenset().union(*(named[snapshot] for snapshot in view.snapshots))

    def delete_file(self, view: LakeView, location: str) -> None:
        self._answer_repair("a deletion")
        self.meanwhile()
        if location in self.files:
            self.remove(location)
            self.swept.append(location)

    def row_offsets(self, table: TableInfo, view: LakeView, partitions: Collection[str]) -> RowOffsets:
        self._answer_repair("the rows' offsets")
        held = RowOffsets()
        current = self.tables.get(view.path)
        if view.head is None or current is None or current.uuid != view.table_uuid:
            return held
        for bucket, start, stop, _ in current.rows[view.head]:
            place = self._place(bucket)
            if table.table_type is TableType.PRIMARY_KEY:
                held.add_place(place)
            elif place[0] is None or place[0] in partitions:
                held.add(place, np.arange(start, stop))
        return held


class SimulatedFactory(MemoryFactory):
    """Makes writers that keep what they were given."""

    _lake: SimulatedLake

    def create_writer(self, context: WriterInitContext) -> SimulatedWriter:  # type: ignore[override]
        if self._uuid != context.lake_table_uuid:
            raise LakeTableReplaced(
                f"the lake table {self._path} is {self._uuid}, not {context.lake_table_uuid}", hint=replaced_hint(self._path)
            )
        return SimulatedWriter(self._lake, self._path, context)

    def rewrite(self, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
        """See `FileRewriter`. Others go on meanwhile."""
        self._lake.during_commits()
        if is_stopped(1):
            raise Cancelled("the rewriting of files was stopped")
        if self._lake.chance.strikes("lake-disk-full", 0.01):
            raise OSError(errno.ENOSPC, "No space left on device")
        uuid, head = json.loads(task.payload)
        [table] = [table for table in self._lake.tables.values() if table.uuid == uuid] or [None]
        if table is None:
            raise LakeUnavailable("the files of a table that was dropped cannot be read")
        rows = upkeep.rows_by_bucket(table.rows[head], {task.bucket})[task.bucket]
        return self._lake.rewrite_rows(uuid, rows, round_id, nonce)

    def create_committer(self) -> SimulatedCommitter:
        return SimulatedCommitter(self._lake, self._path)


class SimulatedWriter:
    """A `LakeWriter` that notes which rows it was given."""

    def __init__(self, lake: SimulatedLake, path: TablePath, context: WriterInitContext) -> None:
        self._lake, self._context = lake, context
        replacing = "-replacing" if context.replaces else ""
        name = f"lakeward-{context.round_id}-{context.attempt_nonce}-{context.bucket}{replacing}.parquet".replace("/", "_")
        self._file = lake.write_in(path, name)
        self._snapshot_offset: int | None = None
        self._start: int | None = None
        self._stop: int | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._lake.chance.strikes("lake-disk-full", 0.004):
            raise OSError(errno.ENOSPC, "No space left on device")
        if self._lake.chance.strikes("library-panic", 0.004):
            raise PanicException("in a library that writes")
        offsets = batch.column(batch.schema.get_field_index("__offset"))
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        if first == SNAPSHOT_OFFSET:
            self._snapshot_offset = batch.column(0)[0].as_py()
            return
        assert last - first + 1 == batch.num_rows
        assert self._stop in (None, first), f"offset {first} is written behind {self._stop}"
        self._start = first if self._start is None else self._start
        self._stop = last + 1

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        start = starting_offset if self._start is None else self._start
        stop = start if self._stop is None else self._stop
        bucket = self._context.bucket
        self._lake.contents[self._file] = FileContent(
            self._context.table.table_id, bucket, start, stop, self._snapshot_offset, self._context.replaces
        )
        return WriteResult(bucket, starting_offset, reached_offset, reached_offset - starting_offset, 1, 1, self._file.encode())

    def abort(self) -> None:
        self._lake.remove(self._file)


class SimulatedCommitter(MemoryCommitter):
    """A `LakeCommitter` that sends one request, about the rows that its files really have."""

    _lake: SimulatedLake

    def commit(self, committable: Committable, base: LakeView, marker: Marker, properties: Mapping[str, str] = NO_PROPERTIES) -> int:
        check_committable(committable, base, marker)
        if self._lake.chance.strikes("library-panic", 0.01):
            raise PanicException("in a library that commits, before it sent anything")
        manifest = self._lake.write_in(self._path, f"lakeward-{marker.round_id}-m{self._lake.new_id()}.avro")
        ranges = tuple(row for result in committable.results for row in self._rows_of(result.payload.decode()))
        rewrites = self._lake.fitting_rewrites(self._path, base, committable.rewrites)
        if rewrites and self._lake.chance.strikes("rewrite-overtaken", OVERTAKEN_SHARE):
            self._lake.compact(self._path)
        removed = () if marker.round_id in self._lake.sent_rounds else self._lake.removed_with(self._path, base)
        self._lake.sent_rounds.add(marker.round_id)
        request = Request(self._path, base.table_uuid, base.head, base.tiered, marker, ranges, manifest, base.head_identity)
        self._lake.send(replace(request, rewrites=rewrites, removed=removed, is_upkeep=committable.order is not None))
        head = self._lake.tables[self._path].head
        assert head is not None
        return head

    def _rows_of(self, file: str) -> list[Range]:
        content = self._lake.contents[file]
        log = (content.bucket, content.start, content.stop, file)
        return [log] if content.snapshot_offset is None else [(content.bucket, 0, content.snapshot_offset, file), log]

    def abort(self, committable: Committable) -> None:
        for result in committable.results:
            self._lake.remove(result.payload.decode())
        for rewrite in committable.rewrites:
            self._lake.remove(upkeep.rewrite_in(rewrite).file)
