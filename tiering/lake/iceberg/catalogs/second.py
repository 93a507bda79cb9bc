"""Publishes Iceberg tables in a second catalog, which gets the location of the lake table's newest metadata file and writes no file itself.

A REST catalog registers the metadata file with `overwrite`, which its server does in one step (Iceberg REST specification,
`registerTable`). A server that cannot overwrite needs the property `lakeward.publish-by-drop`: the table is then dropped without purge and
registered again. A metastore (SQL, Hive, Glue) compares and swaps the location in its own commit.

A table is never moved back: its present metadata file has to be one that the lake table's metadata names as an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError, ServerError, TableAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier

from tiering.errors import AlreadyExists, ForbiddenLocation, InvalidArgument, LakeUnavailable
from tiering.lake.base import LakeView
from tiering.lake.catalog_properties import ALLOWED_LOCATIONS, check_catalog_properties, storage_properties
from tiering.lake.catalog_properties import CATALOG_NAME as NAME_PROPERTY
from tiering.lake.iceberg.catalogs.bounded import BoundedCatalog
from tiering.lake.iceberg.catalogs.opening import open_catalog, opening_seconds
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.user_settings import CATALOG_NAME, user_settings
from tiering.library_guards.answer_deadlines import AnswerDeadlines
from tiering.model.tables import TablePath
from tiering.redaction.redact import remember_secrets

PUBLISH_BY_DROP = "lakeward.publish-by-drop"
"""Property of a second catalog whose server cannot overwrite a registered table. `true`: drop without purge, then register."""

KINDS = ("rest", "sql", "hive", "glue")
"""Kinds of catalogs in which tables can be published."""


@dataclass(frozen=True)
class _Move:
    """A change of a metastore's table from the metadata file `former` to that of `table`. It takes the place of an update."""

    former: str
    table: Table


class _MovedPointers(Catalog):
    """Comes before a metastore's class. Its commits store the location of an existing metadata file, and write none."""

    def _update_and_stage_table(
        self, current_table: Table | None, table_identifier: Identifier, requirements: Any, updates: Any
    ) -> StagedTable:
        """Stages the move, which is the only update. Raises CommitFailedException if the table has changed."""
        [move] = updates
        if current_table is None or current_table.metadata_location != move.former:
            raise CommitFailedException(f"The table {'.'.join(table_identifier)} was changed by another process")
        table = move.table
        return StagedTable(table_identifier, table.metadata, table.metadata_location, table.io, self)

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        """Does nothing, because the file exists."""

    _write_metadata_no_exist_check = _write_metadata


class IcebergSecondCatalog:
    """Implements `SecondCatalog`. `properties` are those of the second catalog, `lake_properties` those of the lake's own."""

    lake_format = "iceberg"

    def __init__(self, name: str, properties: Mapping[str, str], lake_properties: Mapping[str, str]) -> None:
        if name == CATALOG_NAME:
            raise InvalidArgument(f"--publish cannot be {name!r}, which is the lake's own catalog", hint="Choose another name.")
        own = {**cast(Mapping[str, str], user_settings(name)), **properties}
        kind = str(own.get("type") or "rest").lower()
        if kind not in KINDS:
            raise InvalidArgument(f"tables cannot be published in a catalog of type {kind!r}", hint=f"The type may be: {', '.join(KINDS)}.")
        self.name = name
        self._by_drop = str(own.get(PUBLISH_BY_DROP, "")).lower() == "true"
        lake = {**cast(Mapping[str, str], user_settings()), **lake_properties}
        self._properties = {**storage_properties(lake), "type": kind, **properties, ALLOWED_LOCATIONS: _locations(own, lake)}
        self._properties.pop(PUBLISH_BY_DROP, None)
        check_catalog_properties({**self._properties, NAME_PROPERTY: self._properties.get(NAME_PROPERTY, name)})
        remember_secrets({**own, **self._properties})
        self._opening = AnswerDeadlines(f"the catalog {name!r}")
        self._catalog: BoundedCatalog | None = None
        self._published: dict[TablePath, str] = {}
        """The uuid of each table that this process published, for a catalog whose version has no metadata file any more."""

    def publish(self, view: LakeView, check_lead: Callable[[], None]) -> None:
        """Publishes the table of `view` (`SecondCatalog.publish`)."""
        path, table = view.path, cast(Table, view.handle)
        with lake_errors(f"publish {path} in the catalog {self.name!r}", table_path=path):
            self._publish(self._open(), path, table, check_lead)
        self._published[path] = view.table_uuid

    def _publish(self, catalog: BoundedCatalog, path: TablePath, table: Table, check_lead: Callable[[], None]) -> None:
        identifier = (path.database_name, path.table_name)
        is_own = self._published.get(path) == str(table.metadata.table_uuid)
        try:
            published = catalog.load_table(identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            check_lead()
            catalog.create_namespace_if_not_exists(path.database_name)
            try:
                catalog.register_table(identifier, table.metadata_location)
            except TableAlreadyExistsError:
                if not is_own:
                    raise
                self._replace(catalog, identifier, table)
        except ForbiddenLocation as error:
            raise AlreadyExists(
                f"the catalog {self.name!r} has another table {path}, outside of the lake's locations; it is not replaced",
                hint="Drop or rename that table there. Lakeward then publishes the lake table.",
                table_path=path,
            ) from error
        except (FileNotFoundError, ServerError):
            # After a long outage, the lake has deleted the metadata file that the catalog names, so that no client can load its table.
            if not is_own:
                raise
            check_lead()
            self._replace(catalog, identifier, table)
        else:
            if is_behind(self.name, path, published, table):
                check_lead()
                self._move(catalog, published, table)

    def _move(self, catalog: BoundedCatalog, published: Table, table: Table) -> None:
        if isinstance(catalog, MetastoreCatalog):
            catalog.commit_table(published, (), cast(Any, (_Move(published.metadata_location, table),)))
        else:
            self._replace(catalog, published.name(), table)

    def _replace(self, catalog: BoundedCatalog, identifier: Identifier, table: Table) -> None:
        if self._by_drop or isinstance(catalog, MetastoreCatalog):
            catalog.drop_table(identifier)  # never with purge: the files are those of the lake table
            catalog.register_table(identifier, table.metadata_location)
            return
        try:
            answer = catalog.register_table(identifier, table.metadata_location, overwrite=True)
        except Exception as error:
            if isinstance(error, OSError):
                raise
            raise LakeUnavailable(
                f"the catalog {self.name!r} did not overwrite its table {'.'.join(identifier)}: {type(error).__name__}: {error}",
                hint=f"If its server cannot overwrite a registered table, set --publish-property {PUBLISH_BY_DROP}=true, but only if a "
                "drop without purge keeps all files there.",
            ) from error
        if _file_name(answer) != _file_name(table):
            raise LakeUnavailable(f"the catalog {self.name!r} registered another metadata file than it was asked to")

    def _open(self) -> BoundedCatalog:
        if self._catalog is None:
            load = partial(open_catalog, self._properties, self.name, _MovedPointers)
            opened = self._opening.within(opening_seconds(self._properties, self.name), "open", load)
            self._catalog = cast(BoundedCatalog, opened)
        return self._catalog


def is_behind(name: str, path: TablePath, published: Table, table: Table) -> bool:
    """Returns whether the published table has an earlier version of the lake table; False if both have the same one.

    Raises AlreadyExists if it is another table, or has a version that is none of the lake table.
    """
    if published.metadata.table_uuid != table.metadata.table_uuid:
        raise AlreadyExists(
            f"the catalog {name!r} has another table {path}, with the uuid {published.metadata.table_uuid}; it is not replaced",
            hint="If it is a former lake table of this name, drop it there without purge. Lakeward then publishes the present one.",
            table_path=path,
        )
    if _file_name(published) == _file_name(table):
        return False
    log = table.metadata.metadata_log
    if any(_name_of(entry.metadata_file) == _file_name(published) for entry in log):
        return True
    if log and published.metadata.last_updated_ms < log[0].timestamp_ms:
        return True  # so old that the lake table's metadata no longer names it
    raise AlreadyExists(
        f"the catalog {name!r} has a version of {path} that the lake table never had, {_file_name(published)}; it is not replaced",
        hint="Another writer committed through that catalog, or the lake's own catalog was set back. Save what is needed of it, then "
        "drop the table there without purge. Lakeward then publishes the lake table.",
        table_path=path,
    )


def _locations(own: Mapping[str, Any], lake: Mapping[str, Any]) -> str:
    """Returns where published metadata may be: where the lake's files may be, and what the operator allowed for the second catalog."""
    named = (own.get(ALLOWED_LOCATIONS), lake.get(ALLOWED_LOCATIONS), lake.get("warehouse"))
    return ",".join(str(location) for location in named if location and ("/" in str(location)))


def _file_name(table: Table) -> str:
    return _name_of(table.metadata_location)


def _name_of(location: str) -> str:
    """Returns the name of a metadata file. It has a number and a uuid, and servers spell the folder before it differently."""
    return location.rsplit("/", 1)[-1]
