"""Jars of Maven Central that are fetched once, checked, and then only named as paths: how they are fetched and where they lie."""

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

from tiering.errors import SetupError
from tiering.files.folder_lock import take_lock

FOLDER_VARIABLE = "LAKEWARD_JARS"
"""Names the folder of the jars, where the package's own cannot be written or they are there already."""
MAVEN_PLUGIN = "org.apache.maven.plugins", "maven-dependency-plugin", "3.9.0"
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class MavenJar:
    """One jar of Maven Central. `sha256`: of the file that was looked at when its version was chosen."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """As `spark.jars.packages` takes them."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


Fetch = Callable[[Sequence[MavenJar], Path], None]
"""Puts jars into a folder, under their file names. Raises SetupError."""


def jars_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the jars lie: beside the plugin in the package, unless the environment names another folder."""
    import sys_tables

    named = environment.get(FOLDER_VARIABLE)
    return Path(named).expanduser().absolute() if named else Path(sys_tables.__file__).parent / "plugin"


def fetch_jars(folder: Path, jars: Sequence[MavenJar], fetch: Fetch | None = None) -> list[MavenJar]:
    """Fetches the `jars` that are not in `folder`, or are damaged there; returns those. Of two who fetch, the second waits.

    A jar appears under its name only once it is whole and checked. Raises SetupError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            missing = [jar for jar in jars if checksum(folder / jar.file_name) != jar.sha256]
            if missing:
                _fetch_all(missing, folder, fetch or fetch_with_maven)
    except OSError as error:
        raise SetupError(
            f"the jars cannot be put into {folder}: {error.strerror or error}", hint=f"Name a folder of yours with {FOLDER_VARIABLE}."
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
            f"{jar.file_name} was fetched, but is not the file that was expected: its SHA-256 is {actual}, not {jar.sha256}",
            hint=f"Delete {jar.group.replace('.', '/')}/{jar.artifact} from the local Maven repository and try again; "
            "if it happens again, somebody exchanged it.",
        )
    fresh.chmod(0o644)
    fresh.replace(folder / jar.file_name)


def fetch_with_maven(jars: Sequence[MavenJar], folder: Path) -> None:
    """`-C`: a download whose checksum is wrong or missing is an error. Settings and mirrors are those of the user's Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError("Maven was not found; it fetches the jars", hint="Install it (Debian: maven), or run `make setup` as root.")
    with TemporaryDirectory() as project:
        # A project of its own: the one of the current folder, if there is one, is not to be built. One start of Maven takes seconds.
        ElementTree(_project(jars, folder)).write(Path(project) / "pom.xml", "utf-8", xml_declaration=True)
        command = [maven, "-C", "-q", "-B", ":".join((*MAVEN_PLUGIN, "copy"))]
        ended = subprocess.run(
            command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
        )
    if ended.returncode != 0:
        raise SetupError(
            f"Maven could not fetch {', '.join(jar.coordinates for jar in jars)}: {ended.stdout.strip()[-1_000:]}",
            hint="Does this machine reach a Maven repository? Mirrors are named in ~/.m2/settings.xml.",
        )


def _project(jars: Sequence[MavenJar], folder: Path) -> Element:
    """A pom.xml that says to Maven's dependency plugin which jars to copy, and where to."""
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
    """SHA-256; None if there is no such file."""
    if not file.is_file():
        return None
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while block := source.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds a lock on the folder itself; what an earlier, interrupted one left in it goes."""
    held = os.open(folder, os.O_RDONLY)
    try:
        take_lock(held, wait=True)
        for leftover in folder.glob(".fetch-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield
    finally:
        os.close(held)
