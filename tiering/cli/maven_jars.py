"""Downloads jars from Maven Central once, checks them, and knows their folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree.ElementTree import Element, ElementTree, SubElement

import tiering
from tiering.errors import SetupError
from tiering.files.folder_lock import take_lock

PACKAGED_JARS = Path(tiering.__file__).parent / "jars"
"""Folder of the jars in the installed package: the Spark plugin, and all jars that are fetched."""
FOLDER_VARIABLE = "LAKEWARD_JARS"
"""Environment variable for another folder of the jars than the one in the package, which may be read-only."""
MAVEN_PLUGIN = "org.apache.maven.plugins", "maven-dependency-plugin", "3.9.0"


@dataclass(frozen=True)
class MavenJar:
    """One jar of Maven Central. `sha256` is the hash of the file that was checked when this version was chosen."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """Returns the coordinates for `spark.jars.packages`."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


Fetch = Callable[[Sequence[MavenJar], Path], None]
"""Downloads jars into a folder, under their file names. Raises SetupError."""


def jars_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder of the jars: beside the plugin in the package, unless the environment names another folder."""
    named = environment.get(FOLDER_VARIABLE)
    return Path(named).expanduser().absolute() if named else PACKAGED_JARS


def fetch_jars(folder: Path, jars: Sequence[MavenJar], fetch: Fetch | None = None) -> list[MavenJar]:
    """Downloads the `jars` that are missing or damaged in `folder`, and returns them. A second process that downloads waits for the first.

    A jar gets its file name only after it is complete and checked. Raises SetupError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            missing = [jar for jar in jars if checksum(folder / jar.file_name) != jar.sha256]
            if missing:
                _fetch_all(missing, folder, fetch or fetch_with_maven)
    except OSError as error:
        raise SetupError(
            f"cannot write the jars to {folder}: {error.strerror or error}",
            hint=f"Name a folder that you can write to with {FOLDER_VARIABLE}.",
        ) from error
    return missing


def _fetch_all(jars: Sequence[MavenJar], folder: Path, fetch: Fetch) -> None:
    with TemporaryDirectory(prefix=".fetch-", dir=folder) as name:
        fetch(jars, Path(name))
        for jar in jars:
            _take(jar, Path(name) / jar.file_name, folder)


def _take(jar: MavenJar, fresh: Path, folder: Path) -> None:
    actual = checksum(fresh)
    if actual != jar.sha256:
        raise SetupError(
            f"the downloaded file {jar.file_name} is not the expected one: its SHA-256 is {actual}, not {jar.sha256}",
            hint=f"Delete {jar.group.replace('.', '/')}/{jar.artifact} from the local Maven repository and try again. "
            "If the error stays, the file in the repository was replaced.",
        )
    fresh.chmod(0o644)
    fresh.replace(folder / jar.file_name)


def fetch_with_maven(jars: Sequence[MavenJar], folder: Path, published_checksums: bool = True) -> None:
    """Downloads the jars with the user's Maven and its settings. `-C` makes a wrong or missing checksum an error. Raises SetupError.

    `published_checksums`: whether the repository has checksums of the jars. The caller compares their SHA-256 in any case.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError(
            "Maven, which downloads the jars, was not found", hint="Install Maven (Debian: maven), or run `make setup` as root."
        )
    with TemporaryDirectory() as project:
        # A temporary project keeps Maven from building a project in the current folder. One call for all jars: Maven starts slowly.
        ElementTree(_project(jars, folder)).write(Path(project) / "pom.xml", "utf-8", xml_declaration=True)
        command = [maven, "-C" if published_checksums else "-c", "-q", "-B", ":".join((*MAVEN_PLUGIN, "copy"))]
        ended = subprocess.run(
            command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
        )
    if ended.returncode != 0:
        raise SetupError(
            f"Maven could not fetch {', '.join(jar.coordinates for jar in jars)}: {ended.stdout.strip()[-1_000:]}",
            hint="Check that this machine reaches a Maven repository. Name mirrors in ~/.m2/settings.xml.",
        )


def _project(jars: Sequence[MavenJar], folder: Path) -> Element:
    """Returns a pom.xml that tells Maven's dependency plugin which jars to copy to which folder."""
    project = Element("project", xmlns="http://maven.apache.org/POM/4.0.0")
    SubElement(project, "modelVersion").text = "4.0.0"
    _add_coordinates(project, "io.lakeward", "jars", "1")
    SubElement(project, "packaging").text = "pom"
    plugin = SubElement(SubElement(SubElement(project, "build"), "plugins"), "plugin")
    _add_coordinates(plugin, *MAVEN_PLUGIN)
    configuration = SubElement(plugin, "configuration")
    SubElement(configuration, "outputDirectory").text = str(folder.absolute())
    items = SubElement(configuration, "artifactItems")
    for jar in jars:
        _add_coordinates(SubElement(items, "artifactItem"), jar.group, jar.artifact, jar.version)
    return project


def _add_coordinates(element: Element, group: str, artifact: str, version: str) -> None:
    for name, value in {"groupId": group, "artifactId": artifact, "version": version}.items():
        SubElement(element, name).text = value


def checksum(file: Path) -> str | None:
    """Returns the SHA-256 of a file, or None if there is no such file."""
    if not file.is_file():
        return None
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds a lock on the folder, and removes what an interrupted download left in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        take_lock(descriptor, wait=True)
        for leftover in folder.glob(".fetch-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)
