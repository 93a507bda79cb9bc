"""The allowed locations of a lake's files, and the location of a new table.

Every file of a lake is checked against `AllowedLocations` before it is opened, written, listed or deleted.

Metadata of a lake table names files: a snapshot names its manifest list, the list its manifests, these the data and delete files, and a
summary the marker's file. The writer of the metadata chose these names, and may have chosen `/etc/passwd` or another tenant's bucket.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from urllib.parse import unquote, urlparse

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

from tiering.errors import ForbiddenLocation
from tiering.lake.catalog_properties import ALLOWED_LOCATIONS
from tiering.model.tables import TablePath
from tiering.redaction.redact import redact

LOCATION = "location"
"""Property of a namespace (Iceberg REST specification, and the metastores)."""
NONCE_DIGITS = 12

LOCAL = "file"
STORES = ("s3", "gs", "abfs", "abfss", "wasb", "wasbs", "oss")
"""Schemes of object stores: a bucket's name, at an endpoint that the operator chose."""
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_RELATIVE = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)


class FixedLocations:
    """Base of a catalog that derives the locations of tables from their names."""


def is_location(warehouse: str) -> bool:
    """Whether a warehouse is a path or a URI. For some catalogs it is only a name."""
    return warehouse.startswith("/") or "://" in warehouse


def is_local(location: str) -> bool:
    """Whether a location is a local path."""
    return urlparse(location).scheme in ("", "file")


@dataclass(frozen=True)
class AllowedLocations:
    """The locations in which files may be. `roots` are canonical locations; files may be in or below them.

    `any_store`: the lake has no known root, because only its catalog knows the tables' locations. Then any object store's location is
    allowed until a table's own location is known (`of_table`)."""

    roots: tuple[str, ...]
    any_store: bool = False

    @staticmethod
    def of(properties: Mapping[str, object]) -> AllowedLocations:
        """Returns the locations of a catalog's properties: its warehouse, unless that is only a name, and what the operator allowed."""
        named = [location.strip() for location in str(properties.get(ALLOWED_LOCATIONS) or "").split(",") if location.strip()]
        warehouse = str(properties.get("warehouse") or "")
        if is_location(warehouse):
            named.append(warehouse)
        return AllowedLocations(tuple(_canonical(*_parsed(location)) for location in named), any_store=not named)

    def of_table(self, location: str, marker_folder: str) -> AllowedLocations:
        """Returns the locations of one table: without a known root, its own location and the folder of its markers. Raises
        ForbiddenLocation."""
        self.check(location)
        if not self.any_store:
            return self
        return AllowedLocations(tuple(_canonical(*_parsed(location)) for location in (location, marker_folder)))

    def check(self, location: str) -> None:
        """Raises ForbiddenLocation for a location outside. The location is parsed as PyArrow's file access does."""
        scheme, netloc, path = _parsed(location)
        self.check_path(scheme, netloc, path, location)

    def check_path(self, scheme: str, netloc: str, path: str, location: str | None = None) -> None:
        """Raises ForbiddenLocation for a location in parts. Symbolic links in local paths are resolved first."""
        if not self.has(scheme, netloc, path):
            raise ForbiddenLocation(
                f"a file of the lake is at {redact(location or path)!r}, outside of where its files may lie: {self._text()}"
            )

    def local_path(self, location: str) -> str:
        """Returns the path of a local file, decoded as other readers do. Raises ForbiddenLocation, also for a storage that is not local."""
        scheme, netloc, path = _parsed(location)
        decoded = unquote(path) if "://" in location or location.startswith("file:") else path
        self.check_path(scheme, netloc, decoded, location)
        return decoded

    def has(self, scheme: str, netloc: str, path: str) -> bool:
        """Whether a location in parts is allowed. For an object store the path begins with the bucket."""
        if scheme != LOCAL and any(_RELATIVE.fullmatch(part) for part in path.split("/")):
            return False
        canonical = _canonical(scheme, netloc, path)
        if self.any_store:
            return _SAME.get(scheme, scheme) in STORES
        return any(canonical == root or canonical.startswith(root if root.endswith("/") else f"{root}/") for root in self.roots)

    def checker(self, scheme: str, netloc: str) -> Callable[[str], bool]:
        """Returns a function like `has` for many paths of one storage. It resolves a local folder once for all of its files that are no
        links.
        """
        has_folder = cache(lambda folder: self.has(scheme, netloc, folder))

        def has(path: str) -> bool:
            is_file_of_folder = scheme == LOCAL and not os.path.islink(path)
            return (is_file_of_folder and has_folder(os.path.dirname(path))) or self.has(scheme, netloc, path)

        return has

    def _text(self) -> str:
        return ", ".join(redact(root) for root in self.roots) or "the object store of its catalog"


def _parsed(location: str) -> tuple[str, str, str]:
    try:
        scheme, netloc, path = PyArrowFileIO.parse_location(location)
    except ValueError as error:
        raise ForbiddenLocation(f"{redact(location)!r} is not the location of a file: {error}") from error
    if "\0" in path:
        raise ForbiddenLocation(f"{redact(location)!r} is not the location of a file")
    return scheme, netloc, path


def _canonical(scheme: str, netloc: str, path: str) -> str:
    """Returns the one spelling of a location that is used for comparison."""
    if scheme == LOCAL:
        return f"{LOCAL}://{os.path.realpath(path)}"
    whole = path if path.startswith(netloc) else netloc + path
    return f"{_SAME.get(scheme, scheme)}://{whole.rstrip('/')}"


def new_location(catalog: Catalog, path: TablePath) -> str | None:
    """Returns `<folder of the database>/<table>-<nonce>`, a folder that no other table has or had.

    Catalogs would choose `<database>/<table>`, which may still have files of a renamed or dropped table. Readers find a table by its
    catalog, so its folder may have any name. None = only the catalog knows where the database's tables are.
    """
    if isinstance(catalog, FixedLocations):
        return None
    parent = catalog.load_namespace_properties(path.database_name).get(LOCATION)
    warehouse = catalog.properties.get("warehouse")
    if not parent and isinstance(catalog, MetastoreCatalog) and warehouse is not None and is_location(warehouse):
        parent = f"{warehouse.rstrip('/')}/{path.database_name}"
    if not parent:
        return None
    return f"{parent.rstrip('/')}/{path.table_name}-{uuid.uuid4().hex[:NONCE_DIGITS]}"
