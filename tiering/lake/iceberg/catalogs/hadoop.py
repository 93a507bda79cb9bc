"""Tables by files alone, in the layout of Iceberg's HadoopCatalog: `<warehouse>/<database>/<table>/metadata/vN.metadata.json`, and a
`version-hint.text` with the newest N that may be behind (Iceberg specification, "File System Tables").

A commit is a new name: the metadata is written under a name of its own, synced, and linked to `v<N+1>.metadata.json`. A link to a name
that is there fails, so of two commits on one version one wins, and no version is ever replaced. Both are done in the folder that the
base was read from, held open: in the folder of a table that was dropped nothing can be linked, whoever made the table anew. Local paths
alone have that: object stores have no such link, and PyArrow's move on HDFS deletes what is at its destination.

Iceberg's own JVM classes keep to it on HDFS. On a local path they look whether the name is free and then rename, which replaces a name
that came in between (Hadoop's RawLocalFileSystem): a JVM that writes to the same table at the same moment is not fenced by them.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pyiceberg.catalog import WAREHOUSE_LOCATION, MetastoreCatalog, PropertiesUpdateSummary
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
from pyiceberg.view import View

from tiering.errors import InvalidArgument
from tiering.files.durable_files import sync_folder
from tiering.files.private_files import make_folders_like_their_parent, open_like_folder
from tiering.lake.iceberg.catalogs.locations import FixedLocations, is_local

if TYPE_CHECKING:
    import pyarrow as pa

VERSION_HINT = "version-hint.text"
ENDING = ".metadata.json"
_METADATA = re.compile(r"v(?P<version>[0-9]+)(?:\.gz\.metadata\.json|\.metadata\.json(?:\.gz)?)")
"""Metadata files of all writers: gzip is named before the ending, or behind it by old ones (Iceberg, HadoopTableOperations)."""
_NAME = re.compile(r"(?!\.)[^/\0]+")


class HadoopCatalog(FixedLocations, MetastoreCatalog):
    """A HadoopCatalog on a local path. Namespaces have one level, as Fluss's databases do; tables cannot be moved or registered."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._warehouse = _local_folder(properties.get(WAREHOUSE_LOCATION, ""))

    def load_table(self, identifier: str | Identifier) -> Table:
        """The table by its newest version. Raises NoSuchTableError."""
        database, name = self.identifier_to_database_and_table(identifier, NoSuchTableError)
        with self._opened(database, name) as folder:
            version = max(folder.versions(), default=None)
            if version is None:
                raise _no_table(database, name)
            return self._read(database, name, folder.file(version))

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Makes version 1 of a table. Raises NoSuchNamespaceError, TableAlreadyExistsError, ValueError for a location of its own."""
        database, name = self.identifier_to_database_and_table(identifier)
        if not self.namespace_exists(database):
            raise NoSuchNamespaceError(f"Namespace does not exist: {database}")
        if location is not None:
            raise ValueError("a hadoop catalog's tables lie where their names say")
        metadata = new_table_metadata(
            location=f"{self.properties[WAREHOUSE_LOCATION].rstrip('/')}/{database}/{name}",
            schema=self._convert_schema_if_needed(schema, 2),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        make_folders_like_their_parent(self._metadata_folder(database, name))
        try:
            with self._opened(database, name) as folder:
                self._publish(folder, metadata, 1)
        except FileExistsError as error:
            raise TableAlreadyExistsError(f"Table {database}.{name} already exists") from error
        return self.load_table(identifier)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Makes the version after the newest one. Raises CommitFailedException if somebody else made it, NoSuchTableError."""
        database, name = self.identifier_to_database_and_table(table.name(), NoSuchTableError)
        with self._opened(database, name) as folder:
            version = max(folder.versions(), default=None)
            if version is None:
                raise _no_table(database, name)
            base = self._read(database, name, folder.file(version))
            folder.check_in_place()
            for requirement in requirements:
                requirement.validate(base.metadata)
            metadata = update_table_metadata(base.metadata, updates, metadata_location=base.metadata_location)
            if metadata == base.metadata:
                return _response(base.metadata, base.metadata_location)
            if metadata.location != base.metadata.location:
                raise ValueError("a hadoop catalog's tables lie where their names say")
            try:
                self._publish(folder, metadata, version + 1)
            except FileExistsError as error:
                raise CommitFailedException(f"Table has been updated by another process: {database}.{name}") from error
            return _response(metadata, self._location(database, name, f"v{version + 1}{ENDING}"))

    def drop_table(self, identifier: str | Identifier) -> None:
        """Deletes the table's folder, as HadoopCatalog does. Raises NoSuchTableError."""
        database, name = self.identifier_to_database_and_table(identifier, NoSuchTableError)
        folder = self._metadata_folder(database, name)
        if not _is_table(folder.parent):
            raise _no_table(database, name)
        shutil.rmtree(folder.parent)
        sync_folder(folder.parent.parent)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Names of folders with a version in them. Raises NoSuchNamespaceError."""
        database = self._database(namespace)
        return [(database.name, name) for name in _folders(database) if _is_table(database / name)]

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Folders of the warehouse that are no tables."""
        if namespace or not self._warehouse.is_dir():
            return []
        return [(name,) for name in _folders(self._warehouse) if not _is_table(self._warehouse / name)]

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """None: a folder has no properties. Raises NoSuchNamespaceError."""
        self._database(namespace)
        return {}

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Makes its folder. Raises NamespaceAlreadyExistsError; NotImplementedError for properties."""
        if properties:
            raise NotImplementedError("namespaces of a hadoop catalog have no properties")
        folder = self._warehouse / _name(self.namespace_to_string(namespace))
        if folder.is_dir():
            raise NamespaceAlreadyExistsError(f"Namespace {folder.name} already exists")
        make_folders_like_their_parent(folder)

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Removes its empty folder. Raises NoSuchNamespaceError, NamespaceNotEmptyError."""
        folder = self._database(namespace)
        try:
            folder.rmdir()
        except OSError as error:
            raise NamespaceNotEmptyError(f"Namespace {folder.name} is not empty") from error

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        """Not here."""
        _not_here()

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Not here."""
        _not_here()

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        """Not here."""
        _not_here()

    def view_exists(self, identifier: str | Identifier) -> bool:
        """There are none."""
        return False

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """There are none."""
        return []

    def load_view(self, identifier: str | Identifier) -> View:
        """Not here."""
        _not_here()

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        """Not here."""
        _not_here()

    def drop_view(self, identifier: str | Identifier) -> None:
        """Not here."""
        _not_here()

    def _read(self, database: str, name: str, file: str) -> Table:
        location = self._location(database, name, file)
        io = self._load_file_io()
        return Table((database, name), FromInputFile.table_metadata(io.new_input(location)), location, io, self)

    def _publish(self, folder: _OpenFolder, metadata: TableMetadata, version: int) -> None:
        """Makes `version` of the table, whole and durable. Raises FileExistsError if it is there."""
        temporary = f"{uuid.uuid4()}.metadata.json"
        try:
            # Synced by LakeFileIO.
            ToOutputFile.table_metadata(metadata, self._load_file_io().new_output(str(folder.path / temporary)))
            folder.link(temporary, version)
        finally:
            with suppress(OSError):
                folder.remove(temporary)
        folder.write_hint(version)

    def _location(self, database: str, name: str, file: str) -> str:
        """As the warehouse is named: a JVM that opens the same warehouse names its files so, too."""
        return f"{self.properties[WAREHOUSE_LOCATION].rstrip('/')}/{database}/{name}/metadata/{file}"

    @contextmanager
    def _opened(self, database: str, name: str) -> Iterator[_OpenFolder]:
        path = self._metadata_folder(database, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _no_table(database, name) from error
        try:
            yield _OpenFolder(path, descriptor)
        finally:
            os.close(descriptor)

    def _metadata_folder(self, database: str, name: str) -> Path:
        return self._warehouse / _name(database) / _name(name) / "metadata"

    def _database(self, namespace: str | Identifier) -> Path:
        folder = self._warehouse / _name(self.namespace_to_string(namespace))
        if not folder.is_dir():
            raise NoSuchNamespaceError(f"Namespace does not exist: {folder.name}")
        return folder


class _OpenFolder:
    """A table's metadata folder, held open: what is linked is linked there and nowhere else, even if the name leads elsewhere by then."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def versions(self) -> list[int]:
        """All that are there. The hint is not asked: one that is behind older versions that were cleaned up would lead back to them."""
        return [version for version, _ in self._files()]

    def file(self, version: int) -> str:
        """Name of a version's file. Raises FileNotFoundError."""
        for number, name in self._files():
            if number == version:
                return name
        raise FileNotFoundError(self.path / f"v{version}{ENDING}")

    def check_in_place(self) -> None:
        """Raises CommitFailedException if the path leads to another folder by now: the table was dropped, and perhaps made anew."""
        try:
            same = os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))
        except FileNotFoundError:
            same = False
        if not same:
            raise CommitFailedException(f"The table in {self.path} was dropped")

    def link(self, temporary: str, version: int) -> None:
        """Gives a file the name of a version, durably. Raises FileExistsError if that version is there, under whichever name.

        Of versions that were cleaned up the oldest went first, so a base that is still there proves that the name was never taken.
        Without it the outcome is unknown: CommitFailedException.
        """
        if version in self.versions():
            raise FileExistsError(self.path / f"v{version}{ENDING}")
        os.link(temporary, f"v{version}{ENDING}", src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        os.fsync(self._descriptor)
        if version > 1 and version - 1 not in self.versions():
            raise CommitFailedException(f"Version {version - 1} in {self.path} was cleaned up while the next one was written")

    def write_hint(self, version: int) -> None:
        """Never back, and best effort: the version is committed, and readers go on from an older hint by themselves."""
        hint = self._hint()
        if hint is not None and hint >= version:
            return
        temporary = f"{uuid.uuid4()}-version-hint.temp"
        with suppress(OSError):
            with os.fdopen(open_like_folder(self.path / temporary, overwrite=False), "w") as file:
                file.write(str(version))
            with suppress(FileNotFoundError):  # Hadoop's checksum of the hint that a JVM wrote would not fit ours
                self.remove(f".{VERSION_HINT}.crc")
            os.rename(temporary, VERSION_HINT, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Removes a file. Raises OSError."""
        os.unlink(name, dir_fd=self._descriptor)

    def _hint(self) -> int | None:
        try:
            text = (self.path / VERSION_HINT).read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            return None
        return int(text) if text.isascii() and text.isdigit() else None

    def _files(self) -> Iterator[tuple[int, str]]:
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                if match := _METADATA.fullmatch(entry.name):
                    yield int(match["version"]), entry.name


def _is_table(folder: Path) -> bool:
    metadata = folder / "metadata"
    return metadata.is_dir() and any(_METADATA.fullmatch(name) for name in os.listdir(metadata))


def _response(metadata: TableMetadata, location: str) -> CommitTableResponse:
    return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": location})


def _no_table(database: str, name: str) -> NoSuchTableError:
    return NoSuchTableError(f"Table does not exist: {database}.{name}")


def _folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _local_folder(warehouse: str) -> Path:
    path = warehouse.removeprefix("file://") if warehouse.startswith("file://") else warehouse
    if not is_local(warehouse) or not path.startswith("/"):
        raise InvalidArgument(
            "a lake of type hadoop is on an absolute local path alone: elsewhere no commit to it is atomic",
            hint="Take a catalog of type sql, rest, hive or glue for this warehouse.",
        )
    return Path(path)


def _name(text: str) -> str:
    """A name that is one folder below another. Raises ValueError."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no name in a hadoop catalog")
    return text


def _not_here() -> NoReturn:
    raise NotImplementedError("a hadoop catalog has folders alone")
