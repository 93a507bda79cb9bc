"""The `Lake` of Paimon tables below a warehouse. Its catalog is the folder structure: `<warehouse>/<database>.db/<table>`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import cast

import pyarrow as pa

from tiering.clock import Clock, SystemClock
from tiering.errors import LakeTableReplaced, LakeUnavailable
from tiering.instants import to_milliseconds
from tiering.lake.base import FileRewrite, LakeView, WriteResult
from tiering.lake.maintenance import ExpiryOutlook, LakeSurvey, Removal, StoredFile, UpkeepPlan, never
from tiering.lake.paimon.commit.committer import PaimonCommitter
from tiering.lake.paimon.commit.expiry import expiry_outlook
from tiering.lake.paimon.commit.manifests import Manifests, Place
from tiering.lake.paimon.commit.row_removal import remove_rows
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.factory import PaimonTieringFactory
from tiering.lake.paimon.reading.added_rows import foreign_offsets, foreign_snapshot
from tiering.lake.paimon.reading.clean_rows import adoptable_row_sums, clean_rows, live_row_sums
from tiering.lake.paimon.reading.file_lists import columns, file_lists, has_other_columns, marker_at, source_fields
from tiering.lake.paimon.reading.health import SizeReader, measure, partition_rows, target_file_bytes
from tiering.lake.paimon.reading.loading import DATABASE_SUFFIX, LoadedTable, load_table, opened_table, table_root
from tiering.lake.paimon.reading.row_count import count_rows
from tiering.lake.paimon.reading.row_scan import bucket_readers, row_readers
from tiering.lake.paimon.reading.snapshots import SnapshotReader
from tiering.lake.paimon.reading.survey import delete_file, live_files, row_offsets, stored_files, survey_of
from tiering.lake.paimon.reading.view import view_of
from tiering.lake.paimon.schema.drift import check_drift
from tiering.lake.paimon.schema.layout import BUCKET, CHANGELOG_PRODUCER, INPUT, UNAWARE, new_table_options, table_layout
from tiering.lake.paimon.schema.partitions import partition_texts, partition_values
from tiering.lake.paimon.schema.stored_schema import first_schema, next_schema
from tiering.lake.paimon.schema.types import written_type
from tiering.lake.paimon.storage.base import MANIFEST, SCHEMA, SNAPSHOT, Storage
from tiering.lake.paimon.storage.local import LOCAL
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.upkeep.planning import merge_small_files, plan_upkeep
from tiering.lake.rules.base_check import is_of_another
from tiering.lake.rules.hints import absent_hint, absent_table
from tiering.lake.schema.column_ids import ids_of_table, lake_columns_of_source
from tiering.lake.writing.sent_rounds import SentRounds
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder

FORMAT = "paimon"
EVOLVE_ATTEMPTS = 5
"""Number of times that a change of columns is sent if other changes of the table come in between."""


class PaimonLake:
    """Paimon tables of one warehouse. `clock` gives the commit times. Safe to use from several threads.

    Implements `Lake`, `LakeMaintenance`, `PartitionRows`, `MeasuredLake`, `ColumnCheck`, `DriftCheck`, `FileMerging`, `RowScan` and
    `TableUpkeep`.
    """

    format = FORMAT
    has_follow_up_commits = True
    """Merged files come with a separate snapshot (`publish_compaction`)."""
    renames_tables = False
    """Spark has no catalog with these tables, and a table's name is that of its folder."""

    def __init__(self, warehouse: PurePath, storage: Storage = LOCAL, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._warehouse = warehouse
        self._storage = storage
        self._snapshots = SnapshotReader()
        self._sizes = SizeReader()
        self._states: dict[TablePath, TableState] = {}
        self._sent = SentRounds()

    # These parts of the interface need only what their arguments hold.
    row_offsets = staticmethod(row_offsets)
    live_row_sums = staticmethod(live_row_sums)
    adoptable_row_sums = staticmethod(adoptable_row_sums)
    foreign_offsets = staticmethod(foreign_offsets)
    foreign_snapshot = staticmethod(foreign_snapshot)
    clean_rows = staticmethod(clean_rows)
    stored_files = staticmethod(stored_files)
    live_files = staticmethod(live_files)
    delete_file = staticmethod(delete_file)
    columns = staticmethod(columns)
    file_lists = staticmethod(file_lists)
    source_fields = staticmethod(source_fields)
    has_other_columns = staticmethod(has_other_columns)
    marker_at = staticmethod(marker_at)
    count_rows = staticmethod(count_rows)
    partition_rows = staticmethod(partition_rows)
    row_readers = staticmethod(row_readers)
    bucket_readers = staticmethod(bucket_readers)
    measure = staticmethod(measure)

    def databases(self) -> Sequence[str]:
        with lake_errors(f"read the warehouse {self._place}"):
            folders = self._storage.folders_in(self._warehouse)
        return sorted(name.removesuffix(DATABASE_SUFFIX) for name in folders if name.endswith(DATABASE_SUFFIX))

    def view(self, path: TablePath) -> LakeView | None:
        """Reads the lake table; returns None if it does not exist. Raises MarkerCorrupt, LakeUnavailable."""
        loaded = self._load(path)
        return None if loaded is None else replace(view_of(loaded), **vars(self._sizes.size_of(loaded)))

    def survey(self, path: TablePath) -> LakeSurvey | None:
        loaded = self._load(path)
        return None if loaded is None else survey_of(loaded)

    def drop_table(self, path: TablePath) -> bool:
        """Drops the lake table with its files; returns False if it does not exist. Implements `TableRemoval.drop_table`.

        The schemas are deleted last: without them the table does not exist, even if other files are left.
        """
        root = table_root(self._warehouse, path)
        with lake_errors(f"drop the lake table {path} in {self._place}", table_path=path):
            files = [self._storage.path_of(file.location) for file in self._storage.files_below(root)]
            schemas = root / SCHEMA
            for file in sorted(files, key=lambda file: file.parent == schemas):
                self._storage.delete(file)
        return bool(files)

    def remove_rows(self, table: TableInfo, view: LakeView, round_id: str, removal: Removal) -> Sequence[WriteResult]:
        """Writes files without the rows to remove. Implements `RowRemoval.remove_rows`."""
        state = _state(table, cast(LoadedTable, view.handle))
        return remove_rows(table, view, round_id, removal, state)

    def delete_old_metadata(self, base: LakeView, confirmed: LakeView) -> Sequence[str]:
        """Deletes nothing, because only the sweep deletes files of expired snapshots. Implements `OldMetadata.delete_old_metadata`."""
        return ()

    def may_delete_expired(self, view: LakeView) -> bool:
        """Returns True, because Paimon has no option that keeps such files. Implements `OldMetadata.may_delete_expired`."""
        return True

    def unnamed_metadata(self, view: LakeView, files: Sequence[StoredFile]) -> Sequence[StoredFile]:
        """Returns nothing, because manifests are judged by the rounds in their names. Implements `OldMetadata.unnamed_metadata`."""
        return ()

    def column_changes(self, table: TableInfo, view: LakeView) -> Sequence[str]:
        return check_drift(table, cast(LoadedTable, view.handle).schema).changes

    def unnamed_partitions(self, table: TableInfo, view: LakeView) -> Sequence[str]:
        """Returns none: a table with other partitions than its source does not fit (`AdoptableRows.unnamed_partitions`)."""
        return ()

    def check_fit(self, table: TableInfo) -> None:
        if (loaded := self._load(table.path)) is not None:
            check_drift(table, loaded.schema)

    def check_schema(self, table: TableInfo) -> None:
        """Raises UnsupportedType, InvalidArgument or InvalidName, naming column and type. No I/O."""
        table_layout(table)

    def ensure_table(self, table: TableInfo, *, may_create: bool = True) -> LakeView:
        """Creates the lake table if it does not exist and `may_create` is True. If two processes create it
        at once, both get the table of the first one.

        Lets the columns follow those of the source (`tiering.lake.schema.column_ids`), before the system columns if the table has them;
        the snapshots stay unchanged. Raises SourceChanged (the lake follows a newer schema of the source already), SchemaDrift,
        UnsupportedType, InvalidArgument, InvalidName, LakeTableReplaced, MarkerCorrupt, LakeUnavailable.
        """
        with lake_errors(f"check whether commits to {self._place} are possible", table_path=table.path):
            self._storage.check_commits(self._warehouse)
        existing = self._load(table.path)
        if existing is None and not may_create:
            raise absent_table(table.path)
        loaded = self._following(table, existing or self._create(table))
        self._states[table.path] = _state(table, loaded)
        return view_of(loaded)

    def bucket_files(self, table: TableInfo, view: LakeView, buckets: Mapping[BucketKey, str | None]) -> Mapping[BucketKey, bytes]:
        """Returns the highest sequence number of each bucket, so that writers give new rows higher numbers. Implements
        `Lake.bucket_files`.
        """
        loaded = cast(LoadedTable, view.handle)
        keys, columns = loaded.schema.table.partition_keys, loaded.schema.columns
        places: dict[Place, BucketKey] = {}
        for bucket, name in buckets.items():
            places[partition_values(keys, columns, partition_texts(table, name)), bucket.bucket_id] = bucket
        with lake_errors(f"read the manifests of {table.path}", table_path=table.path):
            bucket_states = Manifests(loaded).buckets(places.keys())
        return {places[place]: str(state.sequence).encode() for place, state in bucket_states.items()}

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
        with lake_errors(f"merge small files of {view.path}", table_path=view.path):
            state = _state(table, cast(LoadedTable, view.handle))
            return merge_small_files(state, table, view, buckets, round_id, new_nonce, budget_bytes, is_over)

    def expiry_outlook(self, table: TableInfo, view: LakeView, order: ExpiryOrder) -> ExpiryOutlook:
        """Returns which snapshots a commit would remove and keep. Reads the files of consumers. Implements
        `SnapshotExpiry.expiry_outlook`.
        """
        with lake_errors(f"read the consumers of {view.path}", table_path=view.path):
            return expiry_outlook(cast(LoadedTable, view.handle), table, to_milliseconds(self._clock.now()), order)

    def plan_upkeep(self, table: TableInfo, view: LakeView, order: UpkeepOrder, partitions: Mapping[str, int]) -> UpkeepPlan:
        with lake_errors(f"plan the upkeep of {view.path}", table_path=view.path):
            return plan_upkeep(_state(table, cast(LoadedTable, view.handle)), table, view, order, partitions)

    def tiering_factory(self, table: TableInfo) -> PaimonTieringFactory:
        """Returns the factory for the lake table as `ensure_table` found it last. Raises LakeTableReplaced if it does not exist."""
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
        content = first_schema(table, layout, new_table_options(table, layout))
        with lake_errors(f"create the lake table {table.path} in {self._place}", table_path=table.path):
            for name in (SCHEMA, SNAPSHOT, MANIFEST):
                self._storage.make_folder(root / name)
            with self._storage.opened_table(root) as folder, suppress(FileExistsError):  # another process created it at the same time
                if folder is not None:
                    folder.create(SCHEMA, "schema-0", content)
        return self._loaded_again(table.path)

    def _following(self, table: TableInfo, loaded: LoadedTable) -> LoadedTable:
        """Returns `loaded` with columns that follow the source. The table is read again after each request, because other processes change
        columns too.
        """
        for _ in range(EVOLVE_ATTEMPTS):
            followed = check_drift(table, loaded.schema)
            is_recorded = ids_of_table(loaded.schema.column_ids, table) is not None or not followed.pairs
            if (is_recorded and not followed.changes) or is_of_another(table, view_of(loaded)):
                return loaded
            with lake_errors(f"change the columns of the lake table {table.path}", table_path=table.path), opened_table(loaded) as folder:
                content = next_schema(table, loaded.schema, followed)
                with suppress(FileExistsError):
                    folder.create(SCHEMA, f"schema-{loaded.schema.schema_id + 1}", content)
            loaded = self._loaded_again(table.path)
        raise LakeUnavailable(
            f"cannot change the columns of the lake table {table.path}: other processes change it at the same time",
            hint="The next round retries.",
            table_path=table.path,
        )

    def _loaded_again(self, path: TablePath) -> LoadedTable:
        loaded = self._load(path)
        if loaded is None:
            raise LakeTableReplaced(
                f"the lake table {path} was dropped while it was created or changed", hint=absent_hint(path), table_path=path
            )
        return loaded


def _state(table: TableInfo, loaded: LoadedTable) -> TableState:
    schema, options = loaded.schema, loaded.schema.options
    return TableState(
        table_uuid=loaded.uuid,
        root=loaded.root,
        storage=loaded.storage,
        schema_id=schema.schema_id,
        columns=pa.schema([column.with_type(written_type(column.type)) for column in schema.columns]),
        of_source=lake_columns_of_source(table.schema, schema.numbered, schema.column_ids),
        recorded=schema.column_ids,
        numbered=pa.schema([column.with_type(written_type(column.type)) for column in schema.numbered_all]),
        partition_keys=tuple(schema.table.partition_keys),
        bucket_keys=tuple(schema.table.bucket_keys),
        total_buckets=int(options.get(BUCKET, UNAWARE)),
        primary_key=tuple(name for name in schema.table.primary_keys if name not in schema.table.partition_keys),
        layout=schema.layout,
        is_followed=options.get(CHANGELOG_PRODUCER, "none").lower() == INPUT,
        target_bytes=target_file_bytes(table, loaded),
    )
