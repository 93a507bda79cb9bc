"""Fluss's own lake plugin for Paimon: its jars, fetched by `make test-setup`, and a cluster that has it."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from support.clusters.fluss_server import PROPERTIES
from support.java_sources import compiled_jar
from support.repository import ROOT
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.jars import FLUSS_VERSION, ICEBERG_PLUGIN_JARS, plugins_folder, server_class_path
from tiering.cli.maven_jars import MavenJar, fetch_jars

JARS = (
    MavenJar(
        "org.apache.fluss", "fluss-lake-paimon", FLUSS_VERSION, sha256="b14ba33929f3c2e15d7d2220d1f5337217c74971f3c7e59d33625047ca68192b"
    ),
    MavenJar(
        "org.apache.paimon", "paimon-bundle", "1.3.1", sha256="ec0a91c0cf6c1da46c7175b7778e3207395eca10272d891fa49770ec7a780162"
    ),  # the version that the plugin was built with; it brings none
)
HOME = ROOT / "tests" / "support" / "fluss_paimon"
PLUGINS_FOLDER = HOME / "target" / "plugins"
"""Value of FLUSS_PLUGINS_DIR."""
_FOLDER = PLUGINS_FOLDER / "paimon"


def paimon_plugins() -> Path:
    """The folder for FLUSS_PLUGINS_DIR. Fetches the jars that are not there; of two that do, the second waits. Raises SetupError."""
    if not all((_FOLDER / jar.file_name).is_file() for jar in JARS):
        fetch_jars(_FOLDER, JARS)
    for jar in _hadoop_jars():
        link = _FOLDER / jar.name
        if not link.exists():
            link.unlink(missing_ok=True)
            with suppress(FileExistsError):  # another process was faster
                link.symlink_to(jar)
    return PLUGINS_FOLDER


def paimon_settings(warehouse: Path) -> ClusterSettings:
    """A cluster whose coordinator makes Paimon tables in a folder."""
    lake = {"metastore": "filesystem", "warehouse": str(warehouse)}
    return ClusterSettings(paimon_plugins(), lake, lake_format="paimon", server_properties=PROPERTIES)


def java_class_path() -> str:
    """For `java -cp`: Paimon's Java library, Fluss's plugin and server, and what they need. Fetches what is missing. Raises SetupError."""
    paimon_plugins()
    return ":".join([server_class_path(), *(str(_FOLDER / jar.file_name) for jar in JARS), *map(str, _hadoop_jars())])


def tiering_class_path() -> str:
    """Returns the class path with FlussPaimonTiering, which is compiled if need be. Raises SetupError."""
    libraries = java_class_path()
    return f"{libraries}:{compiled_jar(HOME / 'src', libraries, HOME / 'target' / 'fluss-paimon-tiering.jar')}"


def _hadoop_jars() -> list[Path]:
    """Paimon needs Hadoop's classes also for a local folder; the plugin for Iceberg has them."""
    return [plugins_folder() / "iceberg" / jar.file_name for jar in ICEBERG_PLUGIN_JARS if jar.group != "org.apache.fluss"]


if __name__ == "__main__":
    tiering_class_path()
    sys.exit(0)
