"""Where a new lake table goes: to a folder that no other one has, or had.

Catalogs choose `<database>/<table>` by themselves, which a table that was renamed or dropped may still fill. Readers find a table by its
catalog, so its folder may have any name.
"""

from __future__ import annotations

import uuid

from pyiceberg.catalog import Catalog, MetastoreCatalog

from tiering.lake.iceberg.catalogs.durable_io import is_location
from tiering.model.tables import TablePath

LOCATION = "location"
"""Property of a namespace (Iceberg REST specification, and the metastores)."""
NONCE_DIGITS = 12


def new_location(catalog: Catalog, path: TablePath) -> str | None:
    """`<folder of the database>/<table>-<nonce>`; None = only the catalog's server knows where the database's tables are."""
    parent = catalog.load_namespace_properties(path.database_name).get(LOCATION)
    warehouse = catalog.properties.get("warehouse")
    if not parent and isinstance(catalog, MetastoreCatalog) and warehouse is not None and is_location(warehouse):
        parent = f"{warehouse.rstrip('/')}/{path.database_name}"
    if not parent:
        return None
    return f"{parent.rstrip('/')}/{path.table_name}-{uuid.uuid4().hex[:NONCE_DIGITS]}"
