"""The user's own configuration of pyiceberg for the catalog `lake`: its environment, and `.pyiceberg.yaml` (never the current folder's).

Paimon lakes go by it, too: a process has the keys of a store from one place, whatever the format.
"""

from __future__ import annotations

from pyiceberg.typedef import RecursiveDict
from pyiceberg.utils.config import Config

CATALOG_NAME = "lake"
"""It is stored in the rows of SQL catalogs, so it is the same everywhere; `lakeward.catalog-name` is for one that others named."""


def user_settings() -> RecursiveDict:
    """Its properties."""
    return Config().get_catalog_config(CATALOG_NAME) or {}


def own_settings() -> frozenset[str]:
    """Names of the properties that it has."""
    return frozenset(user_settings())
