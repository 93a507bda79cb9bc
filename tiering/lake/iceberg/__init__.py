"""Iceberg tables through pyiceberg. `lake` is for the driver, `factory` travels to executors, `writing` and `primary_key` write there, and
`commit` publishes.

pyiceberg reads settings when it is imported and whenever it opens a catalog: from `.pyiceberg.yaml` in PYICEBERG_HOME, in the home folder,
or else in the current folder. This module removes the current folder before anything of pyiceberg is imported. Otherwise a folder from an
untrusted source could choose the lake's catalog, its storage and its credentials.
"""

from __future__ import annotations

import os

from pyiceberg.typedef import RecursiveDict
from pyiceberg.utils import config


def _from_configuration_files() -> RecursiveDict | None:
    """Returns the first non-empty settings of the two files that belong to the user."""
    for folder in (os.environ.get(config.PYICEBERG_HOME), os.path.expanduser("~")):
        path = os.path.join(folder, config.PYICEBERG_YML) if folder else ""
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                settings: RecursiveDict = config.strictyaml.load(file.read()).data  # type: ignore[attr-defined]
            if settings:
                return config._lowercase_dictionary_keys(settings)
    return None


config.Config._from_configuration_files = staticmethod(_from_configuration_files)  # type: ignore[method-assign]
