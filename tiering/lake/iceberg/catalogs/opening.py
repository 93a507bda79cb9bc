"""Opens catalogs, and tables through them. No other module here requests a catalog, a table's file access or its location provider from
pyiceberg (tests/lake/iceberg/test_one_way_in.py).

pyiceberg merges the properties of a table, and the answers of a REST catalog, into the properties with which it opens files. It imports
the classes that these name, and lets a location provider that a table names choose where to write. This module prevents all of that. Files
are opened with the catalog's own properties (`LakeFileIO`). New files go below the table's location (`locations_of`). Of a catalog's answer
it uses only credentials, and the two properties that its protocol needs.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from importlib import import_module
from threading import Lock
from typing import Any, cast

from pyarrow.fs import FileType
from pyiceberg.catalog import METADATA_LOCATION, TYPE, URI, Catalog, MetastoreCatalog, infer_catalog_type
from pyiceberg.catalog.rest import NAMESPACE_SEPARATOR_PROPERTY, TableResponse
from pyiceberg.catalog.rest import PREFIX as REST_PREFIX
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, ValidationError
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.locations import LocationProvider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    TableRequirement,
    TableUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
    _update_table_metadata_log,
    update_table_metadata,
)
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties, RecursiveDict
from pyiceberg.utils.config import merge_config
from pyiceberg.utils.datetime import datetime_to_millis
from requests import Session

from tiering.errors import InvalidArgument, SetupError
from tiering.extras import extra_of, install_hint
from tiering.files.sqlite_files import harden
from tiering.lake.catalog_properties import CATALOG_NAME as NAME_PROPERTY
from tiering.lake.catalog_properties import KINDS, check_catalog_properties, check_local_path
from tiering.lake.catalog_timeouts import READ_DEADLINE
from tiering.lake.catalog_timeouts import STORE_TIMEOUTS as STORE_TIMEOUTS
from tiering.lake.iceberg.catalogs.bounded import BoundedCatalog, BoundedRestCatalog
from tiering.lake.iceberg.catalogs.file_io import CLASS_NAME, LakeFileIO, locations_of
from tiering.lake.iceberg.commit.marker_files import marker_path
from tiering.lake.iceberg_options import check_text
from tiering.lake.user_settings import CATALOG_NAME, user_settings
from tiering.library_guards.avro_readers import share_readers
from tiering.library_guards.sql_timeouts import bound_waits

TOKEN = "token"
"""The only used entry of a table's own `config`: the catalog's token for requests about that table, which is sent only to the catalog."""
VENDED = (
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "gcs.oauth2.token",
    "gcs.oauth2.token-expires-at",
    "adls.sas-token",
)
"""Credentials that a REST catalog may return for a table's files."""
_PATH_PREFIX = re.compile(r"[A-Za-z0-9_.~%-]+(?:/[A-Za-z0-9_.~%-]+)*")
_SEPARATOR = re.compile(r"(?:%[0-9A-Fa-f]{2}|[.~_-])")

_OTHERS: Mapping[str, tuple[str, str]] = {
    "hive": ("pyiceberg.catalog.hive", "HiveCatalog"),
    "glue": ("pyiceberg.catalog.glue", "GlueCatalog"),
    "dynamodb": ("pyiceberg.catalog.dynamodb", "DynamoDbCatalog"),
    "bigquery": ("pyiceberg.catalog.bigquery_metastore", "BigQueryMetastoreCatalog"),
    "hadoop": ("tiering.lake.iceberg.catalogs.hadoop", "HadoopCatalog"),
}
"""Kinds of catalogs whose class is imported when it is used, because most need an extra of pyiceberg."""


@contextmanager
def parsing() -> Iterator[None]:
    """Raises pyiceberg's ValidationError for the errors of its parsers over metadata that they do not expect and do not check."""
    try:
        yield
    except (AttributeError, TypeError, LookupError, ArithmeticError, AssertionError, RecursionError) as error:
        raise ValidationError(f"{type(error).__name__}: {error}") from error


class LakeTable(Table):
    """A table whose properties choose neither how its files are opened nor where new files go."""

    def location_provider(self) -> LocationProvider:
        """Returns the provider of locations below the table's location."""
        return locations_of(self.metadata.location, self.metadata.properties)


class _LakeCatalog(BoundedCatalog):
    """The common part of all catalogs here. It comes before pyiceberg's class."""

    def load_table(self, identifier: str | Identifier) -> Table:
        """Loads a table. Raises pyiceberg's errors, ForbiddenLocation, TimeoutError."""
        with parsing():
            return self._of_lake(super().load_table(identifier))

    def _of_lake(self, table: Table) -> LakeTable:
        """Returns the table with the lake's file access. Raises ForbiddenLocation if the table is outside of the allowed locations."""
        io = cast(LakeFileIO, table.io)
        folder = marker_path(table, self.properties.get("warehouse"), "any").rsplit("/", 1)[0]
        io.places.check(table.metadata_location)
        own = LakeFileIO(io.properties, io.places.of_table(table.metadata.location, folder))
        return LakeTable(table.name(), table.metadata, table.metadata_location, own, self, table.config)

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> LakeFileIO:
        """Returns the lake's file access. `properties` are the table's, and are ignored."""
        return LakeFileIO(self.properties)


class _LakeMetastoreCatalog(_LakeCatalog, MetastoreCatalog):
    """The common part of catalogs that only store where a table's metadata file is, so that the client does all other work."""

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        """Stages an update like pyiceberg's method, but chooses the metadata file's location and file access itself."""
        base = None if current_table is None else current_table.metadata
        for requirement in requirements:
            requirement.validate(base)
        location = None if current_table is None else current_table.metadata_location
        if base is None:
            metadata = update_table_metadata(self._empty_table_metadata(), updates, enforce_validation=True)
        else:
            metadata = _updated(base, updates, location)
        version = 0 if location is None else self._parse_metadata_version(location) + 1
        return StagedTable(
            identifier=table_identifier,
            metadata=metadata,
            metadata_location=locations_of(metadata.location, metadata.properties).new_table_metadata_file_location(version),
            io=self._load_file_io(),
            catalog=self,
        )


def _updated(base: TableMetadata, updates: tuple[TableUpdate, ...], location: str | None) -> TableMetadata:
    """Returns the updated metadata, like pyiceberg's `update_table_metadata`, but does not copy all snapshots at the end: with a hundred
    snapshots the copy takes 4 ms.

    No update changes the metadata to which it is applied.
    """
    context, metadata = _TableMetadataUpdateContext(), base
    for update in updates:
        metadata = _apply_table_update(update, metadata, context)
    if context.has_changes():
        if location is not None:
            metadata = _update_table_metadata_log(metadata, location, base.last_updated_ms)
        if base.last_updated_ms == metadata.last_updated_ms:
            metadata = metadata.model_copy(update={"last_updated_ms": datetime_to_millis(datetime.now().astimezone())})
    metadata.spec().check_compatible(metadata.schema())
    metadata.sort_order().check_compatible(metadata.schema())
    return metadata


class SqlLakeCatalog(_LakeMetastoreCatalog, SqlCatalog):
    """A catalog in the rows of a database."""

    @cached_property
    def _metadata_files(self) -> MetadataFiles:
        return MetadataFiles()

    def _init_catalog(self) -> None:
        bound_waits(self.engine)  # before the engine's first connection
        harden(self.engine)
        super()._init_catalog()

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        """Returns the table of a row, like pyiceberg's method, but parses a metadata file only once."""
        location, namespace, name = orm_table.metadata_location, orm_table.table_namespace, orm_table.table_name
        if not (location and namespace and name):
            raise NoSuchTableError(
                f"a row of the catalog's table {IcebergTables.__tablename__} has no {METADATA_LOCATION}, namespace or name"
            )
        io = self._load_file_io()
        identifier = (*Catalog.identifier_to_tuple(namespace), name)
        return Table(identifier, self._metadata_files.read(io.new_input(location)), location, io, self)


class RestLakeCatalog(_LakeCatalog, BoundedRestCatalog):
    """A catalog behind a server. It uses only credentials of the server's answers."""

    def _create_session(self) -> Session:
        """Returns a session that follows no redirection: a redirection could send requests with credentials to any server."""
        session = super()._create_session()
        session.max_redirects = 0
        return session

    def _fetch_config(self) -> None:
        """Reads the server's `defaults` and `overrides`, but takes over only the two properties of its protocol, for request paths."""
        own = dict(self.properties)
        super()._fetch_config()
        answered = self.properties
        self.properties = {
            **own,
            **_checked(answered, REST_PREFIX, _PATH_PREFIX, own),
            **_checked(answered, NAMESPACE_SEPARATOR_PROPERTY, _SEPARATOR, own),
        }
        self.uri = own[URI]

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        # pyiceberg calls this also for the answer of `create_table`, which does not use `load_table`.
        return self._of_lake(self._answered(Table, identifier_tuple, table_response))

    def _response_to_staged_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> StagedTable:
        return cast(StagedTable, self._answered(StagedTable, identifier_tuple, table_response))

    def _answered(self, kind: type[Table], identifier: tuple[str, ...], response: TableResponse) -> Table:
        location = cast(str, response.metadata_location)
        vended = {**response.config, **self._resolve_storage_credentials(response.storage_credentials, location)}
        token = {TOKEN: vended[TOKEN]} if _is_text(vended.get(TOKEN)) else {}
        return kind(identifier, response.metadata, location, LakeFileIO({**self.properties, **_credentials(vended)}), self, token)


def open_catalog(properties: Mapping[str, str], catalog_name: str = CATALOG_NAME, part: type[Catalog] | None = None) -> Catalog:
    """Opens a catalog with its properties and the user's own pyiceberg settings of `catalog_name` (never those of the current folder).

    `part`: a class that comes before the catalog's own class if the catalog only stores where a table's metadata file is.
    Raises InvalidArgument for a kind or a property that no catalog here has, SetupError for a package that is not installed, and the errors
    of pyiceberg.
    """
    share_readers()
    merged = merge_config(
        merge_config(cast(RecursiveDict, dict(STORE_TIMEOUTS)), user_settings(catalog_name)), cast(RecursiveDict, dict(properties))
    )
    merged.pop(PY_IO_IMPL, None)
    check_catalog_properties(merged)
    check_local_path(str(merged.get("warehouse") or ""))
    kind = str(merged.get(TYPE) or "").lower()
    if not kind:
        inferred = infer_catalog_type(catalog_name, merged)
        kind = "" if inferred is None else inferred.value
    name = str(merged.get(NAME_PROPERTY) or catalog_name)
    try:
        catalog_class = _class_of(kind)
        if part is not None and issubclass(catalog_class, MetastoreCatalog):
            catalog_class = type(f"{part.__name__}{catalog_class.__name__}", (part, catalog_class), {})
        return catalog_class(name, **cast(dict[str, Any], {**merged, PY_IO_IMPL: CLASS_NAME}))
    except ModuleNotFoundError as error:
        raise SetupError(f"a lake catalog of type {kind} needs the Python package {error.name}", hint=_package_hint(error, kind)) from error


def opening_seconds(properties: Mapping[str, str], catalog_name: str = CATALOG_NAME) -> float:
    """Returns the time limit of `open_catalog` in seconds. Raises ValueError for a property that is not a positive number."""
    return READ_DEADLINE.milliseconds({**user_settings(catalog_name), **properties}) / 1_000


def _package_hint(error: ModuleNotFoundError, kind: str) -> str:
    if (extra := extra_of(error.name)) is not None:
        return f"{install_hint(extra)} Every machine that runs rounds needs it."
    return f"Install it on every machine that runs rounds: pip install 'pyiceberg[{kind}]'."


def _class_of(kind: str) -> type[Catalog]:
    if kind == "sql":
        return SqlLakeCatalog
    if kind == "rest":
        return RestLakeCatalog
    if kind not in _OTHERS:
        raise InvalidArgument("the lake has no catalog", hint=f"Set the lake property `type` to one of: {', '.join(KINDS)}.")
    module, name = _OTHERS[kind]
    base = getattr(import_module(module), name)
    return type(f"Lake{name}", (_LakeMetastoreCatalog, base), {})


def _checked(answered: Mapping[str, Any], name: str, pattern: re.Pattern[str], own: Mapping[str, Any]) -> dict[str, str]:
    """Returns the server's value of one property, unless the operator sets it. Raises InvalidArgument for a value that it may not have."""
    value = answered.get(name)
    if name in own or value is None:
        return {}
    if not isinstance(value, str) or not pattern.fullmatch(value) or ".." in value:
        raise InvalidArgument(f"the lake's catalog at {own[URI]} returned an invalid {name}: {str(value)[:60]!r}")
    return {name: value}


def _credentials(config: Mapping[str, Any]) -> dict[str, str]:
    """Returns those properties of an answer that are credentials for a store."""
    return {name: value for name, value in config.items() if (name in VENDED or name.startswith("adls.sas-token.")) and _is_text(value)}


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    check_text("credentials", value)
    return True


REMEMBERED_BYTES = 8 << 20
"""Upper bound of the size of the cached files. Parsed files take several times as much memory."""

_State = tuple[int, int]
"""Size and modification time in ns of a file."""


# A round loads its table five times, and parsing takes longer with each further snapshot. A file is parsed again if its size or
# modification time has changed, because a recreated table can have a metadata file of the same name.
class MetadataFiles:
    """Reads metadata files and keeps the latest ones. Safe to use from several threads, because a parsed file is never changed."""

    def __init__(self, remembered_bytes: int = REMEMBERED_BYTES) -> None:
        self._limit = remembered_bytes
        self._lock = Lock()
        self._parsed: OrderedDict[str, tuple[_State, TableMetadata]] = OrderedDict()
        self._bytes = 0

    def read(self, file: PyArrowFile) -> TableMetadata:
        """Returns the metadata in the file. Raises the errors of opening and parsing."""
        state = _state_of(file)
        if state is None:
            return FromInputFile.table_metadata(file)
        with self._lock:
            cached = self._parsed.get(file.location)
            if cached is not None and cached[0] == state:
                self._parsed.move_to_end(file.location)
                return cached[1]
        metadata = FromInputFile.table_metadata(file)
        self._remember(file.location, state, metadata)
        return metadata

    def _remember(self, location: str, state: _State, metadata: TableMetadata) -> None:
        if state[0] > self._limit:
            return
        with self._lock:
            former = self._parsed.pop(location, None)
            self._parsed[location] = (state, metadata)
            self._bytes += state[0] - (0 if former is None else former[0][0])
            while self._bytes > self._limit:
                _, ((size, _), _) = self._parsed.popitem(last=False)
                self._bytes -= size


def _state_of(file: PyArrowFile) -> _State | None:
    """Returns size and time of a file; None for a file that does not exist, and for a store without times."""
    info = file._filesystem.get_file_info(file._path)
    return (info.size, info.mtime_ns) if info.type == FileType.File and info.size is not None and info.mtime_ns else None
