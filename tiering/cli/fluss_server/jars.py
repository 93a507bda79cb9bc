"""Jars of a Fluss server and of its plugins for Iceberg and S3, and their folders after `lakeward fetch-jars --fluss-server`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tiering.cli.maven_jars import MavenJar, fetch_jars, jars_folder
from tiering.errors import SetupError

FLUSS_VERSION = "0.9.1-incubating"
SERVER_JARS = (
    MavenJar(
        "org.apache.fluss", "fluss-server", FLUSS_VERSION, sha256="fdda82aa7cc936086c420090920836066d48d741cf7e0aadde3c0e6f0832a169"
    ),  # includes ZooKeeper
    MavenJar("org.slf4j", "slf4j-api", "1.7.36", sha256="d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"),
    MavenJar("org.slf4j", "slf4j-simple", "1.7.36", sha256="2f39bed943d624dfa8f4102d0571283a10870b6aa36f197a8a506f147010c10f"),
    MavenJar("com.google.code.findbugs", "jsr305", "3.0.2", sha256="766ad2a0783f2687962c8ad74ceecc38a28b9f72a2d085ee438b7813e928d0c7"),
)
ICEBERG_PLUGIN_JARS = (
    MavenJar(
        "org.apache.fluss", "fluss-lake-iceberg", FLUSS_VERSION, sha256="b9d8aa37a1a1a1eb14c1a365ae40e8114dcff26367cdc08156ae4f6d0d911d93"
    ),
    MavenJar("org.apache.hadoop", "hadoop-client-api", "3.3.6", sha256="f3d2347a6e1c6885d5bcfd4f60c3ac3810ec11068fc161e04329baabf412d963"),
    MavenJar(
        "org.apache.hadoop", "hadoop-client-runtime", "3.3.6", sha256="15f01bc804294df06d2effc87de363a83cf589f50558bdbf48f72541ad8de854"
    ),
    MavenJar("commons-logging", "commons-logging", "1.2", sha256="daddea1ea0be0f56978ab3006b8ac92834afeefbd9b7e4e6316fca57df0fa636"),
)
S3_PLUGIN_JARS = (
    MavenJar(
        "org.apache.fluss", "fluss-fs-s3", FLUSS_VERSION, sha256="9d85c2d83daa0ad5a7c3980162e96022154467f378b08333faa9d37beab682e3"
    ),  # includes Hadoop's S3A and the AWS SDK
)


def server_folder() -> Path:
    """Returns the folder of the server's jars."""
    return jars_folder() / "fluss-server"


def plugins_folder() -> Path:
    """Returns the value of FLUSS_PLUGINS_DIR: a folder with one folder of jars per plugin, `iceberg` and `s3`."""
    return jars_folder() / "fluss-plugins"


def _jars_by_folder() -> Mapping[Path, tuple[MavenJar, ...]]:
    return {server_folder(): SERVER_JARS, plugins_folder() / "iceberg": ICEBERG_PLUGIN_JARS, plugins_folder() / "s3": S3_PLUGIN_JARS}


def missing_jars() -> list[Path]:
    """Returns the jars that were not downloaded yet. An existing jar was checked after its download."""
    paths = [folder / jar.file_name for folder, jars in _jars_by_folder().items() for jar in jars]
    return [path for path in paths if not path.is_file()]


def fetch_server_jars() -> dict[Path, bool]:
    """Downloads missing and damaged jars. Returns for all paths whether the jar was downloaded now. Raises SetupError."""
    fetched: dict[Path, bool] = {}
    for folder, jars in _jars_by_folder().items():
        fresh = fetch_jars(folder, jars)
        fetched |= {folder / jar.file_name: jar in fresh for jar in jars}
    return fetched


def server_class_path() -> str:
    """Returns the class path for `java -cp`. Raises SetupError if jars are missing."""
    missing = missing_jars()
    if missing:
        raise SetupError(
            f"the jar {missing[0].name}, which a Fluss cluster on this machine needs, is not in {missing[0].parent}",
            hint="Run `lakeward fetch-jars --fluss-server` once, as `./setup.sh` does.",
        )
    return ":".join(str(server_folder() / jar.file_name) for jar in SERVER_JARS)
