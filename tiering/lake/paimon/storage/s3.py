"""A Paimon warehouse in S3, or in a store with the S3 protocol that supports `If-None-Match: *` in a PUT."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import PurePath, PurePosixPath
from typing import Any

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from tiering.errors import InvalidArgument
from tiering.lake.maintenance import StoredFile
from tiering.lake.paimon.storage.base import SCHEMA, TAG, numbered
from tiering.lake.paimon.storage.s3_objects import NEVER_DONE, S3Objects, StoreError
from tiering.redaction.redact import redact, remember_secrets

SCHEME = "s3"
PROBE = ".lakeward/conditional-put"
"""Path below the warehouse of the object that shows whether the store creates objects under a condition. It is never deleted."""
_PROBE_CONTENT = b"Lakeward looks here whether this store honours If-None-Match of a PUT. This object may be deleted.\n"
_LISTED = (SCHEMA, TAG)
"""Folders whose files never change once they are listed."""
READING_THREADS = 16
"""Number of threads that read the snapshots of a table when a process reads it for the first time."""
Properties = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class S3Storage:
    """Implements `Storage` for S3. `properties` are those of the lake's storage, including keys; they are sent to executors."""

    properties: Properties = field(repr=False)
    is_local = False

    @staticmethod
    def of(properties: Mapping[str, str]) -> S3Storage:
        """Creates the storage from these properties, which have pyiceberg's names."""
        return S3Storage(tuple(sorted(properties.items())))

    def location(self, path: PurePath) -> str:
        return f"{SCHEME}://{path}"

    def path_of(self, location: str) -> PurePath:
        if not location.startswith(f"{SCHEME}://"):
            raise ValueError(f"{redact(location)!r} is no location in S3")
        return PurePosixPath(location.removeprefix(f"{SCHEME}://"))

    def check_commits(self, warehouse: PurePath) -> None:
        """Checks the store once in the life of this process. Raises InvalidArgument, OSError."""
        check_conditional_put(self._objects, warehouse)

    @contextmanager
    def opened_table(self, root: PurePath) -> Iterator[S3TableFolder | None]:
        yield S3TableFolder(root, self._objects)

    def folders_in(self, folder: PurePath) -> list[str]:
        selector = FileSelector(str(folder), allow_not_found=True)
        return [info.base_name for info in self._files.get_file_info(selector) if info.type is FileType.Directory]

    def make_folder(self, folder: PurePath) -> None:
        """Does nothing, because S3 has no folders."""

    def create_file(self, path: PurePath) -> Any:
        """Opens a stream to a new object, which appears when the stream is closed."""
        return self._files.open_output_stream(str(path))

    def sync_file(self, stream: Any) -> None:
        """Does nothing, because closing the stream stores the object."""

    def sync_written(self, path: PurePath) -> None:
        """Does nothing, because a stored object is durable."""

    def sync_folder(self, folder: PurePath) -> None:
        """Does nothing, because a stored object is durable."""

    @contextmanager
    def opened_file(self, path: PurePath) -> Iterator[Any]:
        with self._files.open_input_file(str(path)) as file:
            yield file

    def read(self, path: PurePath) -> bytes:
        with self._files.open_input_file(str(path)) as file:
            return bytes(file.read())

    def sizes(self, paths: Sequence[PurePath]) -> list[int | None]:
        """Returns the sizes of the files. PyArrow requests several of them concurrently."""
        infos = self._files.get_file_info([str(path) for path in paths])
        return [info.size if info.type is FileType.File else None for info in infos]

    def delete(self, path: PurePath) -> None:
        with suppress(FileNotFoundError):
            self._files.delete_file(str(path))

    def files_below(self, folder: PurePath) -> Iterator[StoredFile]:
        for info in self._files.get_file_info(FileSelector(str(folder), recursive=True, allow_not_found=True)):
            if info.type is FileType.File:
                modified = datetime.fromtimestamp(0, UTC) if info.mtime is None else info.mtime.astimezone(UTC)
                yield StoredFile(self.location(PurePosixPath(info.path)), info.base_name, info.size or 0, modified)

    def manifest_access(self) -> Any:
        from tiering.lake.paimon.storage.manifest_access import ManifestAccess  # executors have no pypaimon

        return ManifestAccess(self._files)

    @property
    def _files(self) -> FileSystem:
        return _file_system(self.properties)

    @property
    def _objects(self) -> S3Objects:
        return _objects(self.properties)


class S3TableFolder:
    """Implements `TableFolder` for S3. A folder is listed once, on first use; files that are not in the listing are requested
    separately.
    """

    def __init__(self, root: PurePath, objects: S3Objects) -> None:
        self.root = root
        self._objects = objects
        self._bucket, _, self._prefix = str(root).partition("/")
        self._listed: dict[str, dict[str, str]] = {}
        self._ahead: dict[str, bytes | None] = {}

    def is_in_place(self) -> bool:
        """Returns whether the first schema file is still the listed one: a recreated table has another one."""
        numbers = self.numbers(SCHEMA)
        name = f"schema-{numbers[0]}" if numbers else ""
        return bool(numbers) and self._objects.etag(self._bucket, self._key(f"{SCHEMA}/{name}")) == self._listing(SCHEMA)[name]

    def numbers(self, folder: str) -> list[int]:
        return numbered(self.names(folder))

    def names(self, folder: str) -> list[str]:
        return list(self._listing(folder))

    def stamp(self, path: str) -> Hashable | None:
        folder, _, name = path.rpartition("/")
        etag = self._listing(folder).get(name) or self._objects.etag(self._bucket, self._key(path))
        return None if etag is None else (self._key(path), etag)

    def read_ahead(self, paths: Iterable[str]) -> None:
        path_list = list(paths)
        with ThreadPoolExecutor(READING_THREADS) as pool:
            contents = pool.map(lambda path: self._objects.read(self._bucket, self._key(path)), path_list)
            self._ahead |= dict(zip(path_list, contents, strict=True))

    def read(self, path: str) -> bytes | None:
        if path in self._ahead:
            return self._ahead.pop(path)
        folder, _, name = path.rpartition("/")
        if folder in _LISTED and (etag := self._listing(folder).get(name)):
            return self._objects.read_immutable(self._bucket, self._key(path), etag)
        return self._objects.read(self._bucket, self._key(path))

    def create(self, folder: str, name: str, content: bytes) -> None:
        """Creates the file with `If-None-Match: *`. Folders are only prefixes here: the request succeeds even if the table was dropped in
        the meantime.
        """
        self._listed.pop(folder, None)
        self._objects.create(self._bucket, self._key(f"{folder}/{name}"), content)

    def replace(self, folder: str, name: str, content: bytes) -> None:
        self._listed.pop(folder, None)
        self._objects.put(self._bucket, self._key(f"{folder}/{name}"), content)

    def remove(self, folder: str, name: str) -> None:
        self._objects.delete(self._bucket, self._key(f"{folder}/{name}"))

    def make(self, folder: str) -> None:
        """Does nothing, because S3 has no folders."""

    def _listing(self, folder: str) -> dict[str, str]:
        if folder not in self._listed:
            self._listed[folder] = self._objects.etags(self._bucket, self._key(f"{folder}/"))
        return self._listed[folder]

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}"


_checked: set[tuple[str, PurePath]] = set()
"""Stores and warehouses that have passed the check."""


def check_conditional_put(objects: S3Objects, warehouse: PurePath) -> None:
    """Checks that the store refuses to create an object that exists. Raises InvalidArgument, OSError.

    Whether the store does so even for two simultaneous requests cannot be tested from outside: Lakeward relies on the store's promise.
    """
    bucket, _, prefix = str(warehouse).partition("/")
    key = f"{prefix}/{PROBE}" if prefix else PROBE
    if (objects.name, warehouse) in _checked:
        return
    for _ in range(2):  # the first request creates the object unless it exists already
        try:
            objects.create(bucket, key, _PROBE_CONTENT)
        except FileExistsError:
            _checked.add((objects.name, warehouse))
            return
        except StoreError as error:
            if error.status in NEVER_DONE:
                raise _refused(objects, warehouse, f"it answers {error.status} to a PUT with If-None-Match") from error
            raise
    raise _refused(objects, warehouse, "it ignores If-None-Match of a PUT, and replaced an object that was there")


def _refused(objects: S3Objects, warehouse: PurePath, reason: str) -> InvalidArgument:
    return InvalidArgument(
        f"Paimon tables in s3://{warehouse} at {redact(objects.name)} are not supported: {reason}",
        hint="A commit to a Paimon table is such a PUT: without it, one of two concurrent rounds would be lost. Use a store with "
        "conditional writes, such as Amazon S3, or Iceberg tables with a catalog.",
        lake_format="paimon",
    )


@lru_cache(8)
def _file_system(properties: Properties) -> FileSystem:
    """Opens the file system in the way in which Iceberg's files are opened, with the same properties."""
    remember_secrets(dict(properties))
    return PyArrowFileIO(dict(properties)).fs_by_scheme(SCHEME, None)


@lru_cache(8)
def _objects(properties: Properties) -> S3Objects:
    remember_secrets(dict(properties))
    return S3Objects(dict(properties))
