"""File access for lakes, made from the catalog's own properties alone: no table's properties reach it, and it opens no file but
where the lake's files may lie (`places`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import LocationProvider, ObjectStoreLocationProvider, SimpleLocationProvider
from pyiceberg.typedef import EMPTY_DICT, Properties

from tiering.lake.catalog_properties import storage_properties
from tiering.lake.iceberg.catalogs.durable_io import DurableFileIO
from tiering.lake.iceberg.catalogs.locations import Places
from tiering.lake_table_options import allowed_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table

CLASS_NAME = "tiering.lake.iceberg.catalogs.file_io.LakeFileIO"
"""What the catalog property `py-io-impl` names, so that pyiceberg takes this class wherever it opens files by itself."""


class LakeFileIO(DurableFileIO):
    """Opens, writes and deletes files in `places`. Raises ForbiddenLocation for all others."""

    def __init__(self, properties: Properties = EMPTY_DICT, places: Places | None = None) -> None:
        super().__init__(storage_properties(properties))
        self.places = Places.of(properties) if places is None else places

    def new_input(self, location: str) -> PyArrowFile:
        """As PyArrowFileIO."""
        self.places.check(location)
        return super().new_input(location)

    def new_output(self, location: str) -> PyArrowFile:
        """As DurableFileIO."""
        self.places.check(location)
        return super().new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """As PyArrowFileIO."""
        self.places.check(location if isinstance(location, str) else location.location)
        super().delete(location)


def io_of(table: Table) -> LakeFileIO:
    """The file access of a table that `catalogs.LakeCatalog` loaded; there is no other kind."""
    if not isinstance(table.io, LakeFileIO):
        raise TypeError(f"the table {table.name()} was not loaded by a catalog of Lakeward's")
    return table.io


def locations_of(table_location: str, properties: Mapping[str, str]) -> LocationProvider:
    """Where new files of a table go: always under its own location, whatever its properties say."""
    own = allowed_properties(properties)
    if own.get(TableProperties.OBJECT_STORE_ENABLED, "").lower() == "true":
        spread = {name: own[name] for name in (TableProperties.WRITE_OBJECT_STORE_PARTITIONED_PATHS,) if name in own}
        return ObjectStoreLocationProvider(table_location.rstrip("/"), spread)
    return SimpleLocationProvider(table_location.rstrip("/"), {})
