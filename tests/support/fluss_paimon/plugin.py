"""Fluss's own lake plugin for Paimon: its jars, fetched at set-up, and a cluster that has it."""

from __future__ import annotations

import sys
from pathlib import Path

from support.clusters.fluss_server import PROPERTIES
from support.java_sources import compiled_jar
from support.repository import ROOT
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.jars import FLUSS_VERSION, ICEBERG_PLUGIN_JARS, plugins_folder, server_class_path
from tiering.cli.maven_jars import MavenJar, fetch_jars
from tiering.errors import SetupError

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
"""What FLUSS_PLUGINS_DIR names."""
_FOLDER = PLUGINS_FOLDER / "paimon"


def paimon_plugins() -> Path:
    """The folder for FLUSS_PLUGINS_DIR. Raises SetupError if a jar was not fetched."""
    for path in (_FOLDER / jar.file_name for jar in JARS):
        if not path.is_file():
            raise SetupError(f"{path.name}, which a Fluss cluster of tests needs, is not in {path.parent}", hint="Run ./setup.sh.")
    for jar in _hadoop_jars():
        link = _FOLDER / jar.name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(jar)
    return PLUGINS_FOLDER


def paimon_settings(warehouse: Path) -> ClusterSettings:
    """A cluster whose coordinator makes Paimon tables in a folder."""
    lake = {"metastore": "filesystem", "warehouse": str(warehouse)}
    return ClusterSettings(paimon_plugins(), lake, lake_format="paimon", server_properties=PROPERTIES)


def tiering_class_path() -> str:
    """For `java -cp`: FlussPaimonTiering and all that it calls. Compiles it if need be. Raises SetupError if a jar was not fetched."""
    paths = [*(_FOLDER / jar.file_name for jar in JARS), *_hadoop_jars()]
    libraries = ":".join([server_class_path(), *map(str, paths)])
    return f"{libraries}:{compiled_jar(HOME / 'src', libraries, HOME / 'target' / 'fluss-paimon-tiering.jar')}"


def _hadoop_jars() -> list[Path]:
    """Paimon needs Hadoop's classes also for a local folder; the plugin for Iceberg has them."""
    return [plugins_folder() / "iceberg" / jar.file_name for jar in ICEBERG_PLUGIN_JARS if jar.group != "org.apache.fluss"]


if __name__ == "__main__":
    fetch_jars(_FOLDER, JARS)
    paimon_plugins()
    tiering_class_path()
    sys.exit(0)
