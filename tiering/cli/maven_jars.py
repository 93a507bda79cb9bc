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

from tiering.errors import SetupError
from tiering.files.folder_lock import take_lock

FOLDER_VARIABLE = "LAKEWARD_JARS"
"""Names the folder of the jars, where the package's own cannot be written or they are there already."""
MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy"
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


Fetch = Callable[[MavenJar, Path], None]
"""Puts a jar into a folder, under its file name. Raises SetupError."""


def jars_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the jars lie: beside the plugin in the package, unless the environment names another folder."""
    import sys_tables

    named = environment.get(FOLDER_VARIABLE)
    return Path(named).expanduser().absolute() if named else Path(sys_tables.__file__).parent / "plugin"


def fetch_jars(folder: Path, jars: Sequence[MavenJar], fetch: Fetch | None = None) -> list[MavenJar]:
    """Fetches the `jars` that are not in `folder`, or are damaged there; returns those. Of two who fetch, the second waits.

    A jar appears under its name only once it is whole and checked. Raises SetupError.
    """
    fetched = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            for jar in jars:
                if checksum(folder / jar.file_name) != jar.sha256:
                    _fetch_one(jar, folder, fetch or fetch_with_maven)
                    fetched.append(jar)
    except OSError as error:
        raise SetupError(
            f"the jars cannot be put into {folder}: {error.strerror or error}", hint=f"Name a folder of yours with {FOLDER_VARIABLE}."
        ) from error
    return fetched


def _fetch_one(jar: MavenJar, folder: Path, fetch: Fetch) -> None:
    with TemporaryDirectory(prefix=".fetch-", dir=folder) as name:
        fetch(jar, Path(name))
        fresh = Path(name) / jar.file_name
        actual = checksum(fresh)
        if actual != jar.sha256:
            raise SetupError(
                f"{jar.file_name} was fetched, but is not the file that was expected: its SHA-256 is {actual}, not {jar.sha256}",
                hint=f"Delete {jar.group.replace('.', '/')}/{jar.artifact} from the local Maven repository and try again; "
                "if it happens again, somebody exchanged it.",
            )
        fresh.chmod(0o644)
        fresh.replace(folder / jar.file_name)


def fetch_with_maven(jar: MavenJar, folder: Path) -> None:
    """`-C`: a download whose checksum is wrong or missing is an error. Settings and mirrors are those of the user's Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError("Maven was not found; it fetches the jars", hint="Install it (Debian: maven), or run `make setup` as root.")
    command = [maven, "-C", "-q", "-B", MAVEN_COPY, f"-Dartifact={jar.coordinates}", f"-DoutputDirectory={folder}"]
    # In the empty folder: a project in the current one is not to be built.
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if ended.returncode != 0:
        raise SetupError(
            f"Maven could not fetch {jar.coordinates}: {ended.stdout.strip()[-1_000:]}",
            hint="Does this machine reach a Maven repository? Mirrors are named in ~/.m2/settings.xml.",
        )


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
