"""The lake plugin of tests, which creates no lake tables: compiled at set-up, and again when its source is newer."""

from __future__ import annotations

import sys
from pathlib import Path

from support.java_sources import compiled_jar
from support.repository import ROOT
from tiering.cli.fluss_server.jars import server_class_path

HOME = ROOT / "tests" / "support" / "fluss_plugin"
PLUGINS_FOLDER = HOME / "target" / "plugins"
"""Value of FLUSS_PLUGINS_DIR."""


def no_tables_plugins() -> Path:
    """The folder for FLUSS_PLUGINS_DIR, with the jar in it. Raises SetupError if the server's jars were not fetched."""
    compiled_jar(HOME / "src", server_class_path(), PLUGINS_FOLDER / "no-tables" / "no-tables.jar")
    return PLUGINS_FOLDER


if __name__ == "__main__":
    no_tables_plugins()
    sys.exit(0)
