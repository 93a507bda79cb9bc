"""Selects the files of an Iceberg table that rounds rewrite.

An upkeep round's rewrites are planned by `rules.upkeep.rewrite_runs` over the live files of the table's head. A round that adds rows to a
log table merges the newest small files of its buckets (`rules.upkeep.small_files`): only files of Lakeward's rounds, and only in partitions
without deleted rows, because such a round has no time to read the deletes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.types import LongType

from tiering.lake.base import Committable, FileRewrite, LakeView
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.factory import IcebergTieringFactory
from tiering.lake.iceberg.primary_key.bucket_files import MANY_DELETE_FILES, LiveFile
from tiering.lake.iceberg.primary_key.position_deletes import deleted_positions
from tiering.lake.iceberg.reading.lake_parquet import THREADS, read_footer
from tiering.lake.iceberg.schema.layout import has_bucket_in_partition, layout_of_schema, own_fields
from tiering.lake.iceberg.schema.partition_values import PartitionValue, file_place
from tiering.lake.iceberg.upkeep.file_rewriter import JOBS, EqualityDelete, RewriteJob
from tiering.lake.iceberg.upkeep.live_files import LiveEntry, PartitionFiles, partition_name, read_live_files
from tiering.lake.iceberg.writing.writer import TableState, sort_order_id
from tiering.lake.maintenance import RewriteTask, UpkeepPlan
from tiering.lake.proof.file_footer import Run
from tiering.lake.rules.upkeep.rewrite_runs import DEAD_SHARE, BucketWork, LiveDataFile, RewriteRun, runs_to_rewrite, worst_first
from tiering.lake.rules.upkeep.small_files import MERGED_FILES, first_to_merge
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.tables import OFFSET_COLUMN, BucketKey, TableInfo, TableType
from tiering.model.upkeep import UpkeepOrder

ROUND_FILES = 5_000
"""Upper bound of the files that one upkeep round rewrites. Concurrent tasks open this many in a few seconds."""


@dataclass(frozen=True)
class OrderedFile:
    """A file and the offsets of its rows, in order. If the table has an offset column, only the first and last one. None = unknown.

    `is_sorted`: the rows of the file are in another order."""

    file: DataFile
    runs: tuple[Run, ...] | None
    is_sorted: bool = False


_Piece = tuple[list[DataFile], RewriteRun, int | None]
"""Files, those of them that are rewritten together, and the sort order of their rows; None = they are in the order of their offsets."""


@dataclass(frozen=True)
class _Bucket:
    """The files of one bucket in one partition. `dirty`: locations of files whose deleted rows must be removed."""

    key: BucketKey
    partition: PartitionFiles
    entries: Sequence[LiveEntry]
    dirty: frozenset[str]


def plan_upkeep(table: TableInfo, view: LakeView, order: UpkeepOrder, living: Mapping[str, int], target_bytes: int) -> UpkeepPlan:
    """Returns the rewrites of the round (`TableUpkeep.plan_upkeep`). Raises the errors of catalog and storage."""
    return _Planning(table, view, order, target_bytes).plan(living) if order.rewrite else UpkeepPlan()


class _Planning:
    def __init__(self, table: TableInfo, view: LakeView, order: UpkeepOrder, target_bytes: int) -> None:
        self._table = table
        self._view = view
        self._loaded = cast(Table, view.handle)
        self._order = order
        self._target_bytes = target_bytes
        self._layout = layout_of_schema(self._loaded.schema())
        self._sort_order_id = sort_order_id(table, TableState.of(self._loaded))
        self._left_alone = 0

    def plan(self, living: Mapping[str, int]) -> UpkeepPlan:
        live_files = read_live_files(self._table, self._loaded, self._view.head, living)
        self._left_alone = live_files.of_former_specs
        works: list[tuple[_Bucket, BucketWork]] = []
        for partition in live_files.partitions.values():
            if self._is_asked_for(partition):
                if live_files.has_global_deletes or not partition.can_be_rewritten:
                    self._left_alone += partition.data_files
                    continue
                self._left_alone += len(partition.unknown)
                works.extend((bucket, self._work(bucket, [entry.file for entry in bucket.entries])) for bucket in self._buckets(partition))
        tasks, bytes_left = self._tasks(worst_first(works))
        return UpkeepPlan(tuple(tasks), bytes_left, self._left_alone)

    def _is_asked_for(self, partition: PartitionFiles) -> bool:
        names = self._order.partitions
        return names is None or partition_name(self._table, partition.partition) in names

    def _buckets(self, partition: PartitionFiles) -> Iterator[_Bucket]:
        dirty = self._dirty_files(partition)
        for key, entries in partition.buckets.items():
            yield _Bucket(key, partition, sorted(entries, key=oldest_first), dirty)

    def _dirty_files(self, partition: PartitionFiles) -> frozenset[str]:
        """Returns the data files whose deleted rows must be removed, because they are many or in too many delete files."""
        is_heavy = partition.deleted_rows > DEAD_SHARE * partition.rows
        delete_files = len(partition.deletes) + len(partition.equality_deletes)
        has_many = delete_files > MANY_DELETE_FILES * max(1, len(partition.buckets))
        if not delete_files or not (is_heavy or has_many or self._order.full):
            return frozenset()
        io = self._loaded.io
        named = {path for delete in partition.deletes for path, _ in deleted_positions(io, LiveFile.of(delete))}
        newest = max((delete.sequence_number for delete in partition.equality_deletes), default=0)
        older = (entry for entries in partition.buckets.values() for entry in entries if entry.sequence_number < newest)
        return frozenset(named | {entry.file.file_path for entry in older})

    def _work(self, bucket: _Bucket, files: Sequence[DataFile], fixed: frozenset[str] = frozenset()) -> BucketWork:
        live_files = [LiveDataFile(file.file_size_in_bytes, file.file_path in bucket.dirty, file.file_path in fixed) for file in files]
        runs = runs_to_rewrite(live_files, self._target_bytes, max(1, self._order.budget_bytes), full=self._order.full)
        return BucketWork(runs, sum(file.is_dirty for file in live_files))

    def _tasks(self, works: Sequence[tuple[_Bucket, BucketWork]]) -> tuple[list[RewriteTask], int]:
        """Returns the tasks within the budget, and the bytes that are left for later rounds. At least one task is taken."""
        tasks: list[RewriteTask] = []
        budget, file_budget, bytes_left = self._order.budget_bytes, ROUND_FILES, 0
        for bucket, rough in works:
            if tasks and (budget <= 0 or file_budget <= 0):
                bytes_left += sum(run.size_bytes for run in rough.runs)
                continue
            pieces, unordered_bytes = self._in_order(bucket, rough)
            bytes_left += unordered_bytes
            for files, run, order in pieces:
                if tasks and (run.size_bytes > budget or run.files > file_budget):
                    bytes_left += run.size_bytes
                    continue
                budget -= run.size_bytes
                file_budget -= run.files
                chosen = files[run.first : run.stop]
                tasks.append(rewrite_task(self._table, self._view, bucket.key, bucket.partition, chosen, run.outputs, order))
        return tasks, bytes_left

    def _in_order(self, bucket: _Bucket, rough: BucketWork) -> tuple[list[_Piece], int]:
        """Returns the pieces of work of the bucket by the order of its rows, and the bytes of work in unordered files. If there are very
        many files, only the oldest ones with work are ordered."""
        files = [entry.file for entry in bucket.entries]
        if self._table.table_type is not TableType.LOG:
            return [(files, run, None) for run in rough.runs], 0
        unordered_bytes = 0
        if not self._layout.has_row_offsets and len(files) > ROUND_FILES:  # the order needs each file's footer
            first = rough.runs[0].first
            unordered_bytes = sum(run.size_bytes for run in rough.runs if run.first >= first + ROUND_FILES)
            files = files[first : first + ROUND_FILES]
        with_offsets = ordered_files(self._table, self._view, bucket.key, files)
        ordered, unknown = in_offset_order([file for file in with_offsets if not file.is_sorted])
        if self._layout.has_row_offsets:  # a column tells the offset of each row, in any order of rows
            unknown = frozenset()
        has_deletes = bool(bucket.partition.deletes or bucket.partition.equality_deletes)
        own_order = [file for file in with_offsets if file.is_sorted and file.file.sort_order_id == self._sort_order_id and not has_deletes]
        sorted_files, overlapping = in_offset_order(own_order)
        self._left_alone += len(files) - len(ordered) - len(sorted_files) + len(unknown) + len(overlapping)
        pieces: list[_Piece] = [(ordered, run, None) for run in self._work(bucket, ordered, unknown).runs]
        merges = self._work(bucket, sorted_files, overlapping).runs
        pieces += [(sorted_files, one_sorted_file(run, sorted_files), self._sort_order_id) for run in merges if run.files > 1]
        return pieces, unordered_bytes


def one_sorted_file(run: RewriteRun, files: Sequence[DataFile]) -> RewriteRun:
    """Returns the piece of work that merges sorted files to one file: at most MERGED_FILES, which are open at once."""
    stop = min(run.stop, run.first + MERGED_FILES)
    return RewriteRun(run.first, stop, sum(file.file_size_in_bytes for file in files[run.first : stop]), 1)


def rewrite_task(
    table: TableInfo,
    view: LakeView,
    key: BucketKey,
    partition: PartitionFiles,
    files: Sequence[DataFile],
    outputs: int = 1,
    order: int | None = None,
) -> RewriteTask:
    """Returns the task that writes the live rows of `files`, in that order, as `outputs` files. `order`: the sort order of all these
    files."""
    is_shared = not has_bucket_in_partition(table, layout_of_schema(cast(Table, view.handle).schema()))
    shared_bucket = key.bucket_id if is_shared else None
    sequence_numbers = {entry.file.file_path: entry.sequence_number for entry in partition.buckets[key]}
    job = RewriteJob(
        base_snapshot_id=view.head,
        partition=partition.partition,
        shared_bucket=shared_bucket,
        files=tuple(map(LiveFile.of, files)),
        deletes=tuple(map(LiveFile.of, partition.deletes)),
        outputs=outputs,
        sequence_numbers=tuple(sequence_numbers[file.file_path] for file in files),
        equality_deletes=tuple(
            EqualityDelete(LiveFile.of(entry.file), entry.sequence_number, tuple(entry.file.equality_ids or ()))
            for entry in partition.equality_deletes
        ),
        sort_order_id=order,
    )
    size, rows = sum(file.file_size_in_bytes for file in files), sum(file.record_count for file in files)
    return RewriteTask(key, partition_name(table, partition.partition), JOBS.encode(job), len(files), size, rows)


def ordered_files(table: TableInfo, view: LakeView, key: BucketKey, files: Sequence[DataFile]) -> list[OrderedFile]:
    """Returns the files of a bucket of a log table with their offsets."""
    with ThreadPoolExecutor(min(THREADS, len(files) or 1)) as pool:
        return list(pool.map(offsets_reader(table, view, key), files))


def offsets_reader(table: TableInfo, view: LakeView, key: BucketKey) -> Callable[[DataFile], OrderedFile]:
    """Returns a function that tells the offsets of a log table's file: by the bounds of the offset column, or by the footer of a file that
    a round wrote for this table and bucket."""
    loaded = cast(Table, view.handle)
    if layout_of_schema(loaded.schema()).has_row_offsets:
        offset_id = loaded.schema().find_field(OFFSET_COLUMN).field_id

        def by_column(file: DataFile) -> OrderedFile:
            low, high = (file.lower_bounds or {}).get(offset_id), (file.upper_bounds or {}).get(offset_id)
            return OrderedFile(file, None if low is None or high is None else ((_offset(low), _offset(high) + 1),))

        return by_column

    def by_footer(file: DataFile) -> OrderedFile:
        footer = read_footer(loaded.io, file)
        if footer is None or (footer.table_id, footer.lake_table_uuid, footer.bucket) != (table.table_id, view.table_uuid, key):
            return OrderedFile(file, None)
        return OrderedFile(file, footer.runs or None, footer.is_sorted)

    return by_footer


def in_offset_order(files: Sequence[OrderedFile]) -> tuple[list[DataFile], frozenset[str]]:
    """Returns the files with known offsets, in order, and the locations of those among them whose offsets overlap."""
    with_offsets = sorted((file for file in files if file.runs), key=lambda file: file.runs or ())
    overlapping = set[str]()
    reached, last = -1, ""
    for entry in with_offsets:
        runs = entry.runs or ()
        if runs[0][0] < reached:
            overlapping |= {last, entry.file.file_path}
        if runs[-1][1] > reached:
            reached, last = runs[-1][1], entry.file.file_path
    return [entry.file for entry in with_offsets], frozenset(overlapping)


def _offset(bound: bytes) -> int:
    return cast(int, from_bytes(LongType(), bound))


def oldest_first(entry: LiveEntry) -> tuple[int, int]:
    """Returns a sort key: oldest first. The larger file of one commit comes first, because it replaced older files."""
    return entry.sequence_number, -entry.file.file_size_in_bytes


class SmallLogFiles:
    """The small files of one log table at one view of it."""

    def __init__(self, factory: IcebergTieringFactory, table: TableInfo, view: LakeView, round_id: str) -> None:
        self._factory = factory
        self._table = table
        self._view = view
        self._loaded = cast(Table, view.handle)
        self._round_id = round_id

    def merged(
        self, buckets: Mapping[BucketKey, str | None], new_nonce: Callable[[], str], budget_bytes: int, is_over: Callable[[], bool]
    ) -> list[FileRewrite]:
        """Merges the files (`FileMerging.merge_small_files`). After an error, all files that were written are deleted."""
        rewrites: list[FileRewrite] = []
        try:
            with lake_errors(f"merge small files of {self._view.path}", table_path=self._view.path):
                for key, partition in self._partitions(buckets):
                    if is_over():
                        break
                    files, order = self._files_to_merge(key, partition, budget_bytes)
                    if files:
                        task = rewrite_task(self._table, self._view, key, partition, files, order=order)
                        budget_bytes -= task.size_bytes
                        rewrites.append(self._factory.rewrite(task, self._round_id, new_nonce(), lambda rows: False))
            return rewrites
        except BaseException:
            self._factory.create_committer().abort(Committable(self._round_id, (), tuple(rewrites)))
            raise

    def _partitions(self, buckets: Mapping[BucketKey, str | None]) -> list[tuple[BucketKey, PartitionFiles]]:
        """Returns the files of each bucket's partition. Partitions with deleted rows are left out."""
        schema = self._loaded.schema()
        places = {key: file_place(self._table, key, name, schema).partition for key, name in buckets.items()}
        files = read_live_files(self._table, self._loaded, self._view.head, {}, set(places.values()))
        if files.has_global_deletes:
            return []
        keys: dict[PartitionValue, list[BucketKey]] = defaultdict(list)
        for key, partition in places.items():
            keys[partition].append(key)
        own = own_fields(self._table, layout_of_schema(schema))
        clean = [
            files_of_value
            for files_of_value in files.partitions.values()
            if not (files_of_value.deletes or files_of_value.equality_deletes)
        ]
        return [(key, partition) for partition in clean for key in keys[partition.partition[:own]]]

    def _files_to_merge(self, key: BucketKey, partition: PartitionFiles, budget_bytes: int) -> tuple[Sequence[DataFile], int | None]:
        """Returns the newest small files of the bucket to merge, in the order of their offsets, and the sort order of their rows. No files
        if their offsets overlap, or if the newest one has another sort order than new files."""
        entries = sorted(partition.buckets.get(key, ()), key=oldest_first)
        files = [entry.file for entry in entries if self._is_ours(entry.file)]
        order = files[-1].sort_order_id if files else None
        files = [file for file in files if file.sort_order_id == order]
        first = first_to_merge([file.file_size_in_bytes for file in files], self._factory.target_bytes, budget_bytes)
        if first is None:
            return (), None
        with_offsets = ordered_files(self._table, self._view, key, files[first:])
        ordered, overlapping = in_offset_order(with_offsets)
        are_sorted = {file.is_sorted for file in with_offsets}
        is_mixed = len(are_sorted) > 1 or (True in are_sorted and order != sort_order_id(self._table, self._factory.state))
        if overlapping or is_mixed or len(ordered) < len(files) - first:
            return (), None
        return ordered, order if True in are_sorted else None

    def _is_ours(self, file: DataFile) -> bool:
        return bucket_of_name(file.file_path.rpartition("/")[2], is_partitioned=bool(self._table.partition_keys)) is not None
