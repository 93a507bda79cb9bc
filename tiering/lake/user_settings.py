"""The user's own pyiceberg settings of a catalog: environment variables, and `.pyiceberg.yaml` (never the current folder's).

Paimon lakes use them too, so that a process has the keys of a store in one place for all formats.
"""

from __future__ import annotations

from pyiceberg.typedef import RecursiveDict
from pyiceberg.utils.config import Config

CATALOG_NAME = "lake"
"""SQL catalogs store the name in their rows, so it is the same everywhere. `lakeward.catalog-name` is for a catalog with another name."""


def user_settings(name: str = CATALOG_NAME) -> RecursiveDict:
    """Returns the properties that the user's settings define for the catalog `name`."""
    return Config().get_catalog_config(name) or {}


def own_settings() -> frozenset[str]:
    """Returns the names of the properties that the user's settings define."""
    return frozenset(user_settings())
