"""The one place that opens a lake's catalog: with time-outs on every request, and on those to an object store."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType, load_catalog
from pyiceberg.typedef import Properties

from tiering.lake.iceberg.durable_io import CLASS_NAME, is_local, is_location

CATALOG_NAME = "lake"
"""The catalog's name is stored in its rows: it is this one everywhere."""

STORE_TIMEOUTS: Mapping[str, str] = {"s3.connect-timeout": "10", "s3.request-timeout": "30"}
"""Seconds. Of one attempt; the store's client makes several."""


def open_catalog(properties: Mapping[str, str]) -> Catalog:
    """The catalog; `properties` are pyiceberg's, its environment and its configuration file add to them. Raises what pyiceberg raises."""
    warehouse = properties.get("warehouse")
    durable = {"py-io-impl": CLASS_NAME} if warehouse is not None and is_location(warehouse) and is_local(warehouse) else {}
    return load_catalog(CATALOG_NAME, **{**STORE_TIMEOUTS, **durable, **properties})


def _open_rest(name: str, properties: Properties) -> Catalog:
    from tiering.lake.iceberg.bounded_catalogs import BoundedRestCatalog

    return BoundedRestCatalog(name, **properties)


def _open_sql(name: str, properties: Properties) -> Catalog:
    from tiering.lake.iceberg.bounded_catalogs import BoundedSqlCatalog

    return BoundedSqlCatalog(name, **properties)


# Not by `py-catalog-impl`: with it pyiceberg leaves its environment and its configuration file out.
AVAILABLE_CATALOGS[CatalogType.REST] = _open_rest
AVAILABLE_CATALOGS[CatalogType.SQL] = _open_sql
