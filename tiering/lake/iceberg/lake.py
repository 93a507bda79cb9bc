"""The `Lake` of Iceberg tables, through pyiceberg. The catalog's name is always `lake`, because catalogs store it in their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import Lock
from typing import cast

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from sqlalchemy.exc import SQLAlchemyError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from tiering.clock import Clock, SystemClock
from tiering.errors import AlreadyExists, LakeTableReplaced, LakeUnavailable
from tiering.instants import to_milliseconds
from tiering.lake.base import FileRewrite, LakeFormat, LakeView
from tiering.lake.file_lists import SourceFields
from tiering.lake.health.measure import LakeMeasure
from tiering.lake.iceberg.catalogs.bounded import WHOM
from tiering.lake.iceberg.catalogs.locations import new_location
from tiering.lake.iceberg.catalogs.opening import open_catalog, opening_seconds
from tiering.lake.iceberg.commit.old_metadata import OldMetadataFiles, unnamed_metadata
from tiering.lake.iceberg.commit.row_removal import remove_rows
from tiering.lake.iceberg.commit.upkeep import UpkeepPauses, expiry_outlook
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.factory import IcebergTieringFactory
from tiering.lake.iceberg.primary_key.bucket_files import check_live_files, encode_bucket_files, live_bucket_files
from tiering.lake.iceberg.reading.added_rows import foreign_snapshot
from tiering.lake.iceberg.reading.bucket_scan import bucket_readers
from tiering.lake.iceberg.reading.clean_rows import adoptable_row_sums, clean_rows, live_row_sums
from tiering.lake.iceberg.reading.expired_snapshots import ExpiredSnapshots, expired_ancestors
from tiering.lake.iceberg.reading.file_lists import file_lists, marker_at
from tiering.lake.iceberg.reading.health import measure, partition_rows, values_of
from tiering.lake.iceberg.reading.lake_parquet import FileBuckets
from tiering.lake.iceberg.reading.row_count import count_rows
from tiering.lake.iceberg.reading.row_scan import row_readers
from tiering.lake.iceberg.reading.stored_files import NamedFiles, delete_file, stored_files
from tiering.lake.iceberg.reading.survey import foreign_offsets, row_offsets, survey_of
from tiering.lake.iceberg.reading.view import view_of
from tiering.lake.iceberg.schema.columns import fields_of_source, has_other_columns, recorded_ids
from tiering.lake.iceberg.schema.evolution import send_update
from tiering.lake.iceberg.schema.following import check_drift
from tiering.lake.iceberg.schema.layout import GC_ENABLED, TableLayout, table_layout
from tiering.lake.iceberg.schema.partition_values import file_place
from tiering.lake.iceberg.schema.spec import unnamed_entries
from tiering.lake.iceberg.upkeep.planning import SmallLogFiles, plan_upkeep
from tiering.lake.iceberg.writing.writer import TableState
from tiering.lake.maintenance import ExpiryOutlook, LakeSurvey, StoredFile, UpkeepPlan, never
from tiering.lake.rules.base_check import is_of_another
from tiering.lake.rules.hints import absent_hint, absent_table
from tiering.lake.user_settings import CATALOG_NAME as CATALOG_NAME
from tiering.lake.user_settings import own_settings
from tiering.lake.writing.sent_rounds import SentRounds
from tiering.library_guards.answer_deadlines import AnswerDeadlines
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder
from tiering.redaction.redact import redact, remember_secrets

FORMAT = "iceberg"

EVOLVE_ATTEMPTS = 5
"""Upper bound of the attempts to change columns while other changes of the table come in between."""


class IcebergLake:
    """The Iceberg tables of one catalog. `properties` are pyiceberg's; its environment variables and the user's configuration file add to
    them. `clock` gives the commit times of snapshots.

    The catalog is opened at the first call. Safe to use from several threads.

    Implements `Lake`, `LakeMaintenance`, `OldMetadata`, `ReadableLake`, `FollowingLake`, `RowScan`, `ColumnCheck`, `DriftCheck`,
    `MeasuredLake`, `SnapshotExpiry` and `TableUpkeep`.
    """

    format = FORMAT

    def __init__(self, properties: Mapping[str, str], clock: Clock | None = None) -> None:
        self._properties = dict(properties)
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._catalog: Catalog | None = None
        self._states: dict[TablePath, TableState] = {}
        self._sent = SentRounds()
        self._pauses = UpkeepPauses(self._clock)
        self._old_metadata = OldMetadataFiles(self._clock)
        self._file_buckets = FileBuckets()
        self._named_files = NamedFiles()
        self._expired = ExpiredSnapshots()
        self._opening = AnswerDeadlines(WHOM)

    # These parts of the interface need only what their arguments hold.
    row_offsets = staticmethod(row_offsets)
    foreign_offsets = staticmethod(foreign_offsets)
    foreign_snapshot = staticmethod(foreign_snapshot)
    clean_rows = staticmethod(clean_rows)
    live_row_sums = staticmethod(live_row_sums)
    adoptable_row_sums = staticmethod(adoptable_row_sums)
    file_lists = staticmethod(file_lists)
    marker_at = staticmethod(marker_at)
    count_rows = staticmethod(count_rows)
    delete_file = staticmethod(delete_file)
    unnamed_metadata = staticmethod(unnamed_metadata)
    expired_ancestors = staticmethod(expired_ancestors)
    remove_rows = staticmethod(remove_rows)
    row_readers = staticmethod(row_readers)
    bucket_readers = staticmethod(bucket_readers)

    def databases(self) -> Sequence[str]:
        with self._errors("read the lake's catalog"):
            return [".".join(name) for name in self._open().list_namespaces()]

    def view(self, path: TablePath) -> LakeView | None:
        """Reads the lake table's metadata; None if there is no such lake table. Raises MarkerCorrupt, LakeUnavailable."""
        table = self._load(path)
        return None if table is None else self._view_of(path, table)

    def survey(self, path: TablePath) -> LakeSurvey | None:
        """Reads the lake table and its markers, whatever is wrong with it (`LakeMaintenance.survey`)."""
        table = self._load(path)
        return None if table is None else survey_of(path, table, self._expired)

    def stored_files(self, view: LakeView) -> Sequence[StoredFile]:
        return stored_files(view, self._open().properties.get("warehouse"))

    def live_files(self, view: LakeView) -> Collection[str]:
        return self._named_files.of(view)

    def delete_old_metadata(self, base: LakeView, confirmed: LakeView) -> Sequence[str]:
        return self._old_metadata.delete_after(base, confirmed)

    def may_delete_expired(self, view: LakeView) -> bool:
        return cast(Table, view.handle).metadata.properties.get(GC_ENABLED, "").lower() != "false"

    def drop_table(self, path: TablePath) -> bool:
        """Drops the lake table with its files (`TableRemoval.drop_table`)."""
        with self._errors(f"drop the lake table {path}", path):
            try:
                self._open().purge_table((path.database_name, path.table_name))
            except (NoSuchTableError, NoSuchNamespaceError):
                return False
        return True

    def rename_table(self, path: TablePath, new_path: TablePath) -> None:
        """Renames the lake table (`TableRename.rename_table`)."""
        with self._errors(f"rename the lake table {path} to {new_path}", path):
            catalog = self._open()
            self._create_namespace(catalog, new_path.database_name)
            try:
                catalog.rename_table((path.database_name, path.table_name), (new_path.database_name, new_path.table_name))
            except TableAlreadyExistsError:
                raise AlreadyExists(f"there is a lake table {new_path} already", table_path=new_path) from None
            except NoSuchTableError:
                raise absent_table(path) from None

    def columns(self, view: LakeView) -> pa.Schema:
        return schema_to_pyarrow(cast(Table, view.handle).schema())

    def source_fields(self, table: TableInfo, view: LakeView) -> SourceFields | None:
        """Returns the source's columns with the lake's field ids (`FollowingLake.source_fields`)."""
        metadata = cast(Table, view.handle).metadata
        recorded = recorded_ids(metadata.properties)
        return None if recorded is None else SourceFields(fields_of_source(table.schema, metadata.schema(), recorded), recorded)

    def has_other_columns(self, table: TableInfo, view: LakeView, snapshot_id: int) -> bool:
        """Compares the source's columns with those of the snapshot (`FollowingLake.has_other_columns`)."""
        metadata = cast(Table, view.handle).metadata
        snapshot = metadata.snapshot_by_id(snapshot_id)
        schemas = {schema.schema_id: schema for schema in metadata.schemas}
        schema = schemas.get(metadata.current_schema_id if snapshot is None or snapshot.schema_id is None else snapshot.schema_id)
        return schema is None or has_other_columns(table.schema, schema, recorded_ids(metadata.properties))

    def column_changes(self, table: TableInfo, view: LakeView) -> Sequence[str]:
        update = check_drift(table, cast(Table, view.handle).metadata)
        return update.changes if update else ()

    def unnamed_partitions(self, table: TableInfo, view: LakeView) -> Sequence[str]:
        """Returns the partition fields that rounds would remove (`AdoptableRows.unnamed_partitions`)."""
        return unnamed_entries(table, cast(Table, view.handle).metadata)

    def ensure_table(self, table: TableInfo, *, may_create: bool = True) -> LakeView:
        """Creates the lake table if it does not exist and may be created. If two processes create it at once, both get the first one.

        Changes its columns after those of the source (`schema.following`). Head and tag stay unchanged.
        Raises SchemaDrift, SourceChanged, UnsupportedType, InvalidArgument, InvalidName, LakeTableReplaced, MarkerCorrupt, LakeUnavailable.
        """
        existing = self._load(table.path)
        if existing is None and not may_create:
            raise absent_table(table.path)
        loaded = self._with_source_columns(table, existing or self._create(table))
        self._states[table.path] = TableState.of(loaded)
        return self._view_of(table.path, loaded)

    def _view_of(self, path: TablePath, loaded: Table) -> LakeView:
        return self._expired.added_to(view_of(path, loaded), loaded)

    def _with_source_columns(self, table: TableInfo, loaded: Table) -> Table:
        """Returns `loaded` with the columns of the source. Reads it after each request, because others change columns too."""
        why: str | None = None
        for _ in range(EVOLVE_ATTEMPTS):
            update = check_drift(table, loaded.metadata)
            if not update or is_of_another(table, view_of(table.path, loaded)):
                return loaded
            with self._errors("open the lake's catalog"):
                why = send_update(self._open(), loaded, update)
            reloaded = self._load(table.path)
            if reloaded is None:
                raise LakeTableReplaced(
                    f"the lake table {table.path} was dropped while its columns were changed",
                    hint=absent_hint(table.path),
                    table_path=table.path,
                )
            loaded = reloaded
        if not check_drift(table, loaded.metadata):
            return loaded
        raise LakeUnavailable(
            f"cannot change the columns of the lake table {table.path}: {why}", hint="The next round retries.", table_path=table.path
        )

    @property
    def renames_tables(self) -> bool:
        """Whether the catalog can rename a table (`DriftCheck`). In a hadoop catalog a table's name is that of its folder."""
        return self._properties.get("type", "sql").lower() != "hadoop"

    def check_fit(self, table: TableInfo) -> None:
        if (loaded := self._load(table.path)) is None:
            return
        check_drift(table, loaded.metadata)
        if table.table_type is TableType.PRIMARY_KEY:
            check_live_files(loaded, table.path)

    def values_of(self, path: TablePath, column: str) -> int | None:
        """Returns the number of rows with a value in the column (`ColumnValues.values_of`)."""
        loaded = self._load(path)
        with lake_errors(f"the metadata of {path} cannot be read"):
            return 0 if loaded is None else values_of(loaded, column)

    def partition_rows(self, table: TableInfo, view: LakeView) -> Mapping[str | None, int]:
        """Returns the number of rows by partition name (`PartitionRows.partition_rows`)."""
        with lake_errors(f"the manifests of {view.path} cannot be read"):
            return {} if view.head is None else partition_rows(table, cast(Table, view.handle), view.head)

    def measure(self, table: TableInfo, view: LakeView) -> LakeMeasure:
        with self._errors(f"read the metadata of {view.path}", view.path):
            return measure(table, cast(Table, view.handle), view.head)

    def expiry_outlook(self, table: TableInfo, view: LakeView, order: ExpiryOrder) -> ExpiryOutlook:
        return expiry_outlook(self._open(), table, cast(Table, view.handle), view, order, to_milliseconds(self._clock.now()))

    def check_schema(self, table: TableInfo) -> None:
        """Raises UnsupportedType, InvalidArgument or InvalidName that names column and type. No I/O."""
        table_layout(table)

    def bucket_files(self, table: TableInfo, view: LakeView, buckets: Mapping[BucketKey, str | None]) -> Mapping[BucketKey, bytes]:
        """Returns the buckets' files (`Lake.bucket_files`). Raises SchemaDrift for an unreadable file, InvalidData, LakeUnavailable."""
        loaded = cast(Table, view.handle)
        if view.head is None:
            return {}
        places = {file_place(table, bucket, name, loaded.schema()): bucket for bucket, name in buckets.items()}
        live_files = live_bucket_files(loaded, view.path, view.head, places.keys(), self._file_buckets)
        return {places[place]: encode_bucket_files(base) for place, base in live_files.items()}

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
        """Merges small files of log tables (`FileMerging.merge_small_files`). Rounds of primary-key tables merge as they write
        (`primary_key.bucket_files.is_to_be_rewritten`)."""
        if table.table_type is not TableType.LOG:
            return ()
        return SmallLogFiles(self.tiering_factory(table), table, view, round_id).merged(buckets, new_nonce, budget_bytes, is_over)

    def plan_upkeep(self, table: TableInfo, view: LakeView, order: UpkeepOrder, partitions: Mapping[str, int]) -> UpkeepPlan:
        with self._errors(f"read the manifests of {view.path}", view.path):
            return plan_upkeep(table, view, order, partitions, self.tiering_factory(table).target_bytes)

    def tiering_factory(self, table: TableInfo) -> IcebergTieringFactory:
        """Returns the factory for the lake table as the last `ensure_table` found it. Raises LakeTableReplaced if there is none."""
        state = self._states.get(table.path)
        if state is None:
            loaded = self._load(table.path)
            if loaded is None:
                raise absent_table(table.path)
            state = TableState.of(loaded)
        with self._errors("open the lake's catalog"):
            return IcebergTieringFactory(state, table, self._open(), self._sent, self._clock, self._pauses)

    def _load(self, path: TablePath) -> Table | None:
        with self._errors(f"read the lake table {path}", path):
            try:
                return self._open().load_table((path.database_name, path.table_name))
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def _create(self, table: TableInfo) -> Table:
        layout, path = table_layout(table), table.path
        with self._errors(f"create the lake table {path}", path):
            catalog = self._open()
            self._create_namespace(catalog, path.database_name)
            try:
                return _create_in_own_folder(catalog, path, layout)
            except TableAlreadyExistsError:
                return catalog.load_table((path.database_name, path.table_name))

    @retry(retry=retry_if_exception_type(SQLAlchemyError), stop=stop_after_attempt(2), wait=wait_random(0, 0.05), reraise=True)
    def _create_namespace(self, catalog: Catalog, name: str) -> None:
        """Creates the namespace if it does not exist. Tries twice, because the database refuses the second of two concurrent rows."""
        catalog.create_namespace_if_not_exists(name)

    def _open(self) -> Catalog:
        with self._lock:
            if self._catalog is None:
                load = partial(_load_catalog, self._properties)
                self._catalog = self._opening.within(opening_seconds(self._properties), "open", load)
            return self._catalog

    def _errors(self, action: str, path: TablePath | None = None) -> AbstractContextManager[None]:
        warehouse = self._properties.get("warehouse")
        where = "" if warehouse is None else f" in {redact(warehouse)}"
        return lake_errors(f"{action}{where}", table_path=path)


def _create_in_own_folder(catalog: Catalog, path: TablePath, layout: TableLayout) -> Table:
    """Creates the table in its own folder (`new_location`), or in the folder of the catalog's server if that allows no choice."""
    create = partial(
        catalog.create_table,
        (path.database_name, path.table_name),
        layout.schema,
        partition_spec=layout.spec,
        sort_order=layout.sort_order,
        properties=layout.properties,
    )
    location = new_location(catalog, path)
    try:
        return create(location=location)
    except (BadRequestError, ForbiddenError):
        if location is None:
            raise
        return create()


@retry(retry=retry_if_exception_type(SQLAlchemyError), stop=stop_after_attempt(3), wait=wait_random(0, 0.1), reraise=True)
def _load_catalog(properties: Mapping[str, str]) -> Catalog:
    """Opens the catalog. Retries after a database error: processes that create the catalog's tables at once block each other."""
    remember_secrets(properties)
    return open_catalog(properties)


LAKE_FORMAT = LakeFormat(IcebergLake, own_settings)
"""The format that the registry finds as `iceberg`."""
