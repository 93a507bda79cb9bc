"""The `Lake` of Paimon tables below a warehouse. Their catalog is its folders: `<warehouse>/<database>.db/<table>`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import cast

import pyarrow as pa

from tiering.clock import Clock, SystemClock
from tiering.errors import LakeTableReplaced, LakeUnavailable
from tiering.instants import to_milliseconds
from tiering.lake.base import FileRewrite, LakeView, WriteResult
from tiering.lake.file_lists import FileLists
from tiering.lake.foreign import CleanRows, ForeignSnapshot
from tiering.lake.health.measure import LakeMeasure
from tiering.lake.log_begins import NO_BEGINS, LogBegins
from tiering.lake.maintenance import ExpiryOutlook, ForeignOffsets, LakeSurvey, Removal, StoredFile, UpkeepPlan, never
from tiering.lake.marker import Marker
from tiering.lake.paimon.commit.committer import PaimonCommitter
from tiering.lake.paimon.commit.expiry import expiry_outlook
from tiering.lake.paimon.commit.manifests import Manifests, Place
from tiering.lake.paimon.commit.row_removal import remove_rows
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.factory import PaimonTieringFactory
from tiering.lake.paimon.reading.added_rows import foreign_offsets, foreign_snapshot
from tiering.lake.paimon.reading.clean_rows import clean_rows, standing_rows
from tiering.lake.paimon.reading.file_lists import columns, file_lists, marker_at
from tiering.lake.paimon.reading.health import measure, target_file_bytes
from tiering.lake.paimon.reading.loading import DATABASE_SUFFIX, LoadedTable, load_table, opened_table, table_root
from tiering.lake.paimon.reading.partition_rows import partition_rows
from tiering.lake.paimon.reading.sizes import SizeReader
from tiering.lake.paimon.reading.snapshots import SnapshotReader
from tiering.lake.paimon.reading.survey import delete_file, live_files, row_offsets, stored_files, survey_of
from tiering.lake.paimon.reading.view import view_of
from tiering.lake.paimon.schema.drift import check_drift
from tiering.lake.paimon.schema.layout import BUCKET, CHANGELOG_PRODUCER, INPUT, UNAWARE, new_table_options, table_layout
from tiering.lake.paimon.schema.partitions import partition_texts, partition_values
from tiering.lake.paimon.schema.stored_schema import first_schema, with_columns
from tiering.lake.paimon.schema.types import written_type
from tiering.lake.paimon.storage.base import MANIFEST, SCHEMA, SNAPSHOT, Storage
from tiering.lake.paimon.storage.local import LOCAL
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.planning import plan_upkeep
from tiering.lake.paimon.upkeep.small_files import merge_small_files
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.hints import absent_hint, absent_table
from tiering.lake.writing.sent_rounds import SentRounds
from tiering.model.tables import BUCKET_COLUMN, BucketKey, TableInfo, TablePath
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder

FORMAT = "paimon"
EVOLVE_ATTEMPTS = 5
"""How often new columns are sent when other changes of the table come between."""


class PaimonLake:
    """Paimon tables of one warehouse. `clock` tells when snapshots are committed. Safe to use from several threads."""

    def __init__(self, warehouse: PurePath, storage: Storage = LOCAL, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._warehouse = warehouse
        self._storage = storage
        self._snapshots = SnapshotReader()
        self._sizes = SizeReader()
        self._states: dict[TablePath, TableState] = {}
        self._sent = SentRounds()

    @property
    def format(self) -> str:
        return FORMAT

    def databases(self) -> Sequence[str]:
        """See `Lake.databases`."""
        with lake_errors(f"read the warehouse {self._place}"):
            folders = self._storage.folders_in(self._warehouse)
        return sorted(name.removesuffix(DATABASE_SUFFIX) for name in folders if name.endswith(DATABASE_SUFFIX))

    def view(self, path: TablePath) -> LakeView | None:
        """A fresh read; None if there is no such lake table. Raises MarkerCorrupt, LakeUnavailable."""
        loaded = self._load(path)
        return None if loaded is None else replace(_view(loaded), **vars(self._sizes.size_of(loaded)))

    def survey(self, path: TablePath) -> LakeSurvey | None:
        """See `LakeMaintenance.survey`."""
        loaded = self._load(path)
        return None if loaded is None else survey_of(loaded)

    def row_offsets(self, table: TableInfo, view: LakeView, partitions: Mapping[str, int], begins: LogBegins = NO_BEGINS) -> RowOffsets:
        """See `LakeMaintenance.row_offsets`."""
        return row_offsets(table, view, partitions, begins)

    def drop_table(self, path: TablePath) -> bool:
        """See `TableRemoval.drop_table`. The schemas go last: without them there is no table, whatever else is left."""
        root = table_root(self._warehouse, path)
        with lake_errors(f"drop the lake table {path} in {self._place}", table_path=path):
            files = [self._storage.path_of(file.location) for file in self._storage.files_below(root)]
            schemas = root / SCHEMA
            for file in sorted(files, key=lambda file: file.parent == schemas):
                self._storage.delete(file)
        return bool(files)

    def partition_rows(self, table: TableInfo, view: LakeView) -> Mapping[str | None, int]:
        """See `PartitionRows.partition_rows`."""
        with lake_errors(f"read the manifests of {view.path}", table_path=view.path):
            return partition_rows(table, cast(LoadedTable, view.handle))

    def measure(self, table: TableInfo, view: LakeView) -> LakeMeasure:
        """See `MeasuredLake.measure`."""
        with lake_errors(f"read the metadata of {view.path}", table_path=view.path):
            return measure(table, cast(LoadedTable, view.handle))

    def standing_rows(self, table: TableInfo, view: LakeView, partitions: Mapping[str, int]) -> Sequence[CleanRows]:
        """See `StandingRows.standing_rows`."""
        return standing_rows(table, view, partitions)

    def foreign_offsets(self, view: LakeView, snapshot_id: int) -> ForeignOffsets:
        """See `LakeMaintenance.foreign_offsets`."""
        return foreign_offsets(view, snapshot_id)

    def remove_rows(self, table: TableInfo, view: LakeView, round_id: str, removal: Removal) -> Sequence[WriteResult]:
        """See `RowRemoval.remove_rows`."""
        state = _state(table, cast(LoadedTable, view.handle))
        return remove_rows(table, view, round_id, removal, state.columns, state.total_buckets)

    def foreign_snapshot(self, table: TableInfo, view: LakeView, snapshot_id: int, partitions: Mapping[str, int]) -> ForeignSnapshot:
        """See `ForeignCommits.foreign_snapshot`."""
        return foreign_snapshot(table, view, snapshot_id, partitions)

    def clean_rows(
        self, table: TableInfo, view: LakeView, snapshot_ids: Sequence[int], partitions: Mapping[str, int]
    ) -> Sequence[CleanRows]:
        """See `CleanForeignCommits.clean_rows`."""
        return clean_rows(table, view, snapshot_ids, partitions)

    def stored_files(self, view: LakeView) -> Sequence[StoredFile]:
        """See `LakeMaintenance.stored_files`."""
        return stored_files(view)

    def live_files(self, view: LakeView) -> Collection[str]:
        """See `LakeMaintenance.live_files`."""
        return live_files(view)

    def delete_file(self, view: LakeView, location: str) -> None:
        """See `LakeMaintenance.delete_file`."""
        delete_file(view, location)

    def delete_old_metadata(self, base: LakeView, confirmed: LakeView) -> Sequence[str]:
        """See `OldMetadata.delete_old_metadata`. Nothing: files of expired snapshots are deleted by the sweep alone."""
        return ()

    def may_delete_expired(self, view: LakeView) -> bool:
        """See `OldMetadata.may_delete_expired`. Paimon has no option that keeps such files."""
        return True

    def unnamed_metadata(self, view: LakeView, files: Sequence[StoredFile]) -> Sequence[StoredFile]:
        """See `OldMetadata.unnamed_metadata`. None: manifests are judged by the rounds in their names."""
        return ()

    def columns(self, view: LakeView) -> pa.Schema:
        """See `ReadableLake.columns`."""
        return columns(view)

    def new_columns(self, table: TableInfo, view: LakeView) -> Sequence[str]:
        """See `ColumnCheck.new_columns`."""
        return [column.name for column in check_drift(table, cast(LoadedTable, view.handle).schema)]

    @property
    def has_follow_up_commits(self) -> bool:
        """See `FollowUpCommits.has_follow_up_commits`: merged files come with a snapshot of their own (`commit.compaction`)."""
        return True

    @property
    def renames_tables(self) -> bool:
        """See `DriftCheck.renames_tables`. Spark has no catalog with these tables, and a table's name is that of its folder."""
        return False

    def check_fit(self, table: TableInfo) -> None:
        """See `DriftCheck.check_fit`."""
        if (loaded := self._load(table.path)) is not None:
            check_drift(table, loaded.schema)

    def file_lists(self, view: LakeView, snapshot_id: int | None, copies_in: Path | None = None) -> FileLists:
        """See `ReadableLake.file_lists`."""
        return file_lists(view, snapshot_id, copies_in)

    def marker_at(self, view: LakeView, snapshot_id: int) -> Marker | None:
        """See `ReadableLake.marker_at`."""
        return marker_at(view, snapshot_id)

    def check_schema(self, table: TableInfo) -> None:
        """Raises UnsupportedType, InvalidArgument or InvalidName, naming column and type. No I/O."""
        table_layout(table)

    def ensure_table(self, table: TableInfo, *, may_create: bool = True) -> LakeView:
        """Creates the lake table if need be, and if it may be; of two processes that create it at once, both get the first one's.

        Adds columns that are new at the source, nullable, before the system columns if there are any; the snapshots stay as they are.
        Raises SchemaDrift, UnsupportedType, InvalidArgument, InvalidName, LakeTableReplaced, MarkerCorrupt, LakeUnavailable.
        """
        with lake_errors(f"look whether commits to {self._place} can be made", table_path=table.path):
            self._storage.check_commits(self._warehouse)
        there = self._load(table.path)
        if there is None and not may_create:
            raise absent_table(table.path)
        loaded = self._with_new_columns(table, there or self._create(table))
        self._states[table.path] = _state(table, loaded)
        return _view(loaded)

    def bucket_files(self, table: TableInfo, view: LakeView, buckets: Mapping[BucketKey, str | None]) -> Mapping[BucketKey, bytes]:
        """See `Lake.bucket_files`: the highest sequence number of each bucket, by which its new rows are told to be newer."""
        loaded = cast(LoadedTable, view.handle)
        keys, columns = loaded.schema.table.partition_keys, loaded.schema.columns
        places: dict[Place, BucketKey] = {}
        for bucket, name in buckets.items():
            places[partition_values(keys, columns, partition_texts(table, name)), bucket.bucket_id] = bucket
        with lake_errors(f"read the manifests of {table.path}", table_path=table.path):
            standing = Manifests(loaded).buckets(places.keys())
        return {places[place]: str(state.sequence).encode() for place, state in standing.items()}

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
        """See `FileMerging.merge_small_files`."""
        with lake_errors(f"merge small files of {view.path}", table_path=view.path):
            state = _state(table, cast(LoadedTable, view.handle))
            return merge_small_files(state, table, view, buckets, round_id, new_nonce, budget_bytes, is_over)

    def expiry_outlook(self, table: TableInfo, view: LakeView, order: ExpiryOrder) -> ExpiryOutlook:
        """See `SnapshotExpiry.expiry_outlook`. Reads the files of consumers."""
        with lake_errors(f"read the consumers of {view.path}", table_path=view.path):
            return expiry_outlook(cast(LoadedTable, view.handle), table, to_milliseconds(self._clock.now()), order)

    def plan_upkeep(self, table: TableInfo, view: LakeView, order: UpkeepOrder, partitions: Mapping[str, int]) -> UpkeepPlan:
        """See `TableUpkeep.plan_upkeep`."""
        with lake_errors(f"plan the upkeep of {view.path}", table_path=view.path):
            return plan_upkeep(_state(table, cast(LoadedTable, view.handle)), table, view, order, partitions)

    def tiering_factory(self, table: TableInfo) -> PaimonTieringFactory:
        """For the lake table as `ensure_table` found it last; raises LakeTableReplaced if there is none."""
        state = self._states.get(table.path)
        if state is None:
            loaded = self._load(table.path)
            if loaded is None:
                raise absent_table(table.path)
            state = _state(table, loaded)
        committer = partial(PaimonCommitter, sent=self._sent, storage=self._storage, clock=self._clock, table=table)
        return PaimonTieringFactory(state, committer)

    def _load(self, path: TablePath) -> LoadedTable | None:
        with lake_errors(f"read the lake table {path} in {self._place}", table_path=path):
            return load_table(self._storage, self._warehouse, path, self._snapshots)

    @property
    def _place(self) -> str:
        return self._storage.location(self._warehouse)

    def _create(self, table: TableInfo) -> LoadedTable:
        layout, root = table_layout(table), table_root(self._warehouse, table.path)
        content = first_schema(layout, new_table_options(table, layout))
        with lake_errors(f"create the lake table {table.path} in {self._place}", table_path=table.path):
            for name in (SCHEMA, SNAPSHOT, MANIFEST):
                self._storage.make_folder(root / name)
            with self._storage.opened_table(root) as folder, suppress(FileExistsError):  # another process made it at once
                if folder is not None:
                    folder.create(SCHEMA, "schema-0", content)
        return self._loaded_again(table.path)

    def _with_new_columns(self, table: TableInfo, loaded: LoadedTable) -> LoadedTable:
        """`loaded` with the columns that are new at the source. It is read again after each request: others send theirs, too."""
        for _ in range(EVOLVE_ATTEMPTS):
            new_columns = check_drift(table, loaded.schema)
            if not new_columns or _is_of_another(table, _view(loaded)):
                return loaded
            with lake_errors(f"add columns to the lake table {table.path}", table_path=table.path), opened_table(loaded) as folder:
                content = with_columns(loaded.schema, new_columns, BUCKET_COLUMN)
                with suppress(FileExistsError):
                    folder.create(SCHEMA, f"schema-{loaded.schema.schema_id + 1}", content)
            loaded = self._loaded_again(table.path)
        raise LakeUnavailable(
            f"cannot add columns to the lake table {table.path}: others change it at the same time",
            hint="The next round tries again.",
            table_path=table.path,
        )

    def _loaded_again(self, path: TablePath) -> LoadedTable:
        loaded = self._load(path)
        if loaded is None:
            raise LakeTableReplaced(
                f"the lake table {path} was dropped while it was made or changed", hint=absent_hint(path), table_path=path
            )
        return loaded


def _view(loaded: LoadedTable) -> LakeView:
    with lake_errors(f"read the lake table {loaded.path}", table_path=loaded.path):
        return view_of(loaded)


def _state(table: TableInfo, loaded: LoadedTable) -> TableState:
    schema, options = loaded.schema, loaded.schema.options
    return TableState(
        table_uuid=loaded.uuid,
        root=loaded.root,
        storage=loaded.storage,
        schema_id=schema.schema_id,
        columns=pa.schema([column.with_type(written_type(column.type)) for column in schema.columns]),
        partition_keys=tuple(schema.table.partition_keys),
        bucket_keys=tuple(schema.table.bucket_keys),
        total_buckets=int(options.get(BUCKET, UNAWARE)),
        primary_key=tuple(name for name in schema.table.primary_keys if name not in schema.table.partition_keys),
        layout=schema.layout,
        is_followed=options.get(CHANGELOG_PRODUCER, "none").lower() == INPUT,
        target_bytes=target_file_bytes(table, loaded),
    )


def _is_of_another(table: TableInfo, view: LakeView) -> bool:
    """Whether the base check refuses this lake table anyway: then nothing of it is changed."""
    return bool(view.snapshots) if view.marker is None else view.marker.table_id != table.table_id
