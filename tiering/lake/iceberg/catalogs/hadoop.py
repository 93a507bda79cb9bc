"""Tables without a catalog service, in the layout of Iceberg's HadoopCatalog: `<warehouse>/<database>/<table>/metadata/vN.metadata.json`,
and a `version-hint.text` with the newest N, which may be behind (Iceberg specification, "File System Tables").

A commit adds a name: the metadata is written under a temporary name, and gets the name `v<N+1>.metadata.json` in one step that fails if
that name exists. So of two commits on one version only one succeeds, and no version is ever replaced. Local paths and HDFS have such a step
(`hadoop_local`, `hadoop_hdfs`). Object stores have none.
"""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from pyiceberg.catalog import WAREHOUSE_LOCATION, MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from tiering.errors import InvalidArgument
from tiering.files.hdfs import open_hdfs
from tiering.lake.iceberg.catalogs.hadoop_hdfs import HdfsWarehouse
from tiering.lake.iceberg.catalogs.hadoop_layout import ENDING, TableFolder, Warehouse, no_table, versions
from tiering.lake.iceberg.catalogs.hadoop_local import LocalWarehouse
from tiering.lake.iceberg.catalogs.locations import FixedLocations, is_local

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = re.compile(r"(?!\.)[^/\0]+")


class HadoopCatalog(FixedLocations, MetastoreCatalog):
    """A HadoopCatalog on a local path or HDFS. Namespaces have one level, like Fluss's databases. Tables cannot be moved or registered."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._warehouse = self._opened_warehouse(properties.get(WAREHOUSE_LOCATION, ""))

    def load_table(self, identifier: str | Identifier) -> Table:
        """Loads the newest version of the table. Raises NoSuchTableError."""
        database, name = self.identifier_to_database_and_table(identifier, NoSuchTableError)
        with self._warehouse.opened(_name(database), _name(name)) as folder:
            return self._newest(database, name, folder)[1]

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Creates version 1 of a table. Raises NoSuchNamespaceError, TableAlreadyExistsError, and ValueError if `location` is given."""
        database, name = self.identifier_to_database_and_table(identifier)
        if not self.namespace_exists(database):
            raise NoSuchNamespaceError(f"Namespace does not exist: {database}")
        if location is not None:
            raise ValueError("a hadoop catalog derives the location of a table from its name")
        metadata = new_table_metadata(
            location=f"{self.properties[WAREHOUSE_LOCATION].rstrip('/')}/{database}/{name}",
            schema=self._convert_schema_if_needed(schema, 2),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        self._warehouse.make_folder(_name(database), _name(name), "metadata")
        try:
            with self._warehouse.opened(database, name) as folder:
                self._publish(folder, metadata, 1, None)
        except FileExistsError as error:
            raise TableAlreadyExistsError(f"Table {database}.{name} already exists") from error
        return self.load_table(identifier)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Creates the next version. Raises CommitFailedException if another process created it, and NoSuchTableError."""
        database, name = self.identifier_to_database_and_table(table.name(), NoSuchTableError)
        with self._warehouse.opened(_name(database), _name(name)) as folder:
            version, base = self._newest(database, name, folder)
            folder.check_in_place(base.metadata)
            for requirement in requirements:
                requirement.validate(base.metadata)
            metadata = update_table_metadata(base.metadata, updates, metadata_location=base.metadata_location)
            if metadata == base.metadata:
                return _response(base.metadata, base.metadata_location)
            if metadata.location != base.metadata.location:
                raise ValueError("a hadoop catalog derives the location of a table from its name")
            try:
                self._publish(folder, metadata, version + 1, base.metadata)
            except FileExistsError as error:
                raise CommitFailedException(f"Table has been updated by another process: {database}.{name}") from error
            return _response(metadata, self._location(database, name, f"v{version + 1}{ENDING}"))

    def drop_table(self, identifier: str | Identifier) -> None:
        """Deletes the table's folder, as HadoopCatalog does. Raises NoSuchTableError."""
        database, name = self.identifier_to_database_and_table(identifier, NoSuchTableError)
        if not self._warehouse.is_table(_name(database), _name(name)):
            raise no_table(database, name)
        self._warehouse.remove_table(database, name)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Returns the names of the folders that have a table version. Raises NoSuchNamespaceError."""
        database = self._database(namespace)
        return [(database, name) for name in self._warehouse.folders(database) if self._warehouse.is_table(database, name)]

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Returns the folders of the warehouse that are not tables."""
        if namespace:
            return []
        return [(name,) for name in self._warehouse.folders() if not self._warehouse.is_table(".", name)]

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Returns no properties, because a folder has none. Raises NoSuchNamespaceError."""
        self._database(namespace)
        return {}

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Creates the namespace's folder. Raises NamespaceAlreadyExistsError, and NotImplementedError for properties."""
        if properties:
            raise NotImplementedError("namespaces of a hadoop catalog have no properties")
        name = _name(self.namespace_to_string(namespace))
        if self._warehouse.is_folder(name):
            raise NamespaceAlreadyExistsError(f"Namespace {name} already exists")
        self._warehouse.make_folder(name)

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Removes the namespace's empty folder. Raises NoSuchNamespaceError, NamespaceNotEmptyError."""
        name = self._database(namespace)
        try:
            self._warehouse.remove_empty_folder(name)
        except PermissionError:
            raise
        except OSError as error:
            raise NamespaceNotEmptyError(f"Namespace {name} is not empty") from error

    def _not_supported(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("a hadoop catalog has only folders and does not support this operation")

    update_namespace_properties = register_table = rename_table = load_view = register_view = drop_view = _not_supported

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Returns False: the catalog has no views."""
        return False

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """Returns an empty list: the catalog has no views."""
        return []

    def _newest(self, database: str, name: str, folder: TableFolder) -> tuple[int, Table]:
        by_version = versions(folder.names())
        if not by_version:
            raise no_table(database, name)
        version = max(by_version)
        location = self._location(database, name, by_version[version])
        io = self._load_file_io()
        return version, Table((database, name), FromInputFile.table_metadata(io.new_input(location)), location, io, self)

    def _publish(self, folder: TableFolder, metadata: TableMetadata, version: int, base: TableMetadata | None) -> None:
        """Creates `version` of the table, complete and durable. Raises FileExistsError if it exists."""
        temporary = f"{uuid.uuid4()}.metadata.json"
        try:
            ToOutputFile.table_metadata(metadata, self._load_file_io().new_output(folder.location(temporary)))
            folder.publish(temporary, version, metadata, base)
        finally:
            with suppress(OSError):
                folder.remove(temporary)
        folder.write_hint(version)

    def _opened_warehouse(self, location: str) -> Warehouse:
        """Opens the warehouse's folder. Raises InvalidArgument, SetupError."""
        parts = urlsplit(location)
        if parts.scheme == "hdfs":
            read = lambda file: FromInputFile.table_metadata(self._load_file_io().new_input(file))  # noqa: E731
            return HdfsWarehouse(open_hdfs(parts.netloc), f"hdfs://{parts.netloc}", parts.path, read)
        return LocalWarehouse(_local_folder(location))

    def _location(self, database: str, name: str, file: str) -> str:
        """Returns a file's location in the spelling of the warehouse. A JVM that opens the same warehouse spells it equally."""
        return f"{self.properties[WAREHOUSE_LOCATION].rstrip('/')}/{database}/{name}/metadata/{file}"

    def _database(self, namespace: str | Identifier) -> str:
        name = _name(self.namespace_to_string(namespace))
        if not self._warehouse.is_folder(name):
            raise NoSuchNamespaceError(f"Namespace does not exist: {name}")
        return name


def _response(metadata: TableMetadata, location: str) -> CommitTableResponse:
    return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": location})


def _local_folder(warehouse: str) -> Path:
    path = warehouse.removeprefix("file://") if warehouse.startswith("file://") else warehouse
    if not is_local(warehouse) or not path.startswith("/"):
        raise InvalidArgument(
            "a lake of type hadoop must be on an absolute local path or on hdfs://: on other storages no commit is atomic",
            hint="Use a catalog of type sql, rest, hive or glue for this warehouse.",
        )
    return Path(path)


def _name(text: str) -> str:
    """Returns a name that is one folder below another. Raises ValueError."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is not a valid name in a hadoop catalog")
    return text
