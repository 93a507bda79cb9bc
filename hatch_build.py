"""Build hooks: one generates the gRPC stubs from proto/ and puts the plugin's jars and the console's libraries into the package,
one completes the metadata.

Runs for the editable install of `make setup` and for wheels alike. Stubs land where their package says
(`tiering/rpc/v1`, `tiering/rpc/fluss`, `sys_tables/rpc/v1`), the jars in `tiering/jars/`, the libraries in
`sys_tables/console/static/vendor/`; all are git-ignored.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

JARS = {
    "lakeward-spark-plugin.jar": ("lakeward-spark-plugin.jar", ()),
    "lakeward-spark-plugin-3.5.jar": ("spark-3.5/lakeward-spark-plugin-3.5.jar", ("-Dspark3.5",)),
}
"""The plugin for Spark 4 and the one for Spark 3.5: each with its path below `catalog/target`, and with Maven's options for it."""
QUICK_MAVEN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Maven's JVM: a build is too short for the second compiler, which takes half of its time."""
LIBRARIES_FOLDER = "sys_tables/console/static/vendor"
LIBRARIES = {
    "htmx.min.js": ("htmx.jar", "dist/htmx.min.js"),
    "htmx.LICENSE": ("htmx.jar", "LICENSE"),
    "uPlot.iife.min.js": ("uPlot.jar", "dist/uPlot.iife.min.js"),
    "uPlot.min.css": ("uPlot.jar", "dist/uPlot.min.css"),
    "uPlot.LICENSE": ("uPlot.jar", "LICENSE"),
}
"""Files that the console loads, with their licences: the WebJar that catalog/pom.xml fetches, and the file's path in it."""
SHIPPED_FOLDERS = ("docs", "sql_examples")
"""Folders that the console of a wheel shows. An editable installation has them in the repository."""
STUB_PACKAGES = ("tiering/rpc", "tiering/rpc/v1", "tiering/rpc/fluss", "sys_tables/rpc", "sys_tables/rpc/v1")


def generate_stubs(root: Path) -> list[str]:
    """Runs protoc over every .proto; returns the generated files, relative to `root`."""
    from grpc_tools import protoc  # a build requirement, absent at run time

    sources = sorted(path.relative_to(root / "proto").as_posix() for path in (root / "proto").rglob("*.proto"))
    google = Path(protoc.__file__).parent / "_proto"
    for package in STUB_PACKAGES:
        folder = root / package
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob("*_pb2*"):
            stale.unlink()
        (folder / "__init__.py").write_text('"""Generated from proto/; do not edit."""\n')
    plugins = Path(sys.executable).parent
    outcome = protoc.main(
        [
            "protoc",
            f"-I{root / 'proto'}",
            f"-I{google}",
            f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
            f"--python_out={root}",
            f"--grpc_python_out={root}",
            f"--mypy_out=quiet:{root}",
            f"--mypy_grpc_out=quiet:{root}",
            *sources,
        ]
    )
    if outcome != 0:
        raise RuntimeError("protoc failed: see its message above")
    return [path.relative_to(root).as_posix() for package in STUB_PACKAGES for path in (root / package).glob("*.py*")]


def build_jars_and_fetch_libraries(root: Path) -> list[str]:
    """Builds the plugin's jars and fetches the console's libraries with Maven unless they are newer than their sources.

    Returns the paths of jars and libraries relative to `root`. Of two that build at once, the second waits and finds them done.
    """
    jars, libraries, target = root / "tiering" / "jars", root / LIBRARIES_FOLDER, root / "catalog" / "target"
    files = [*(jars / name for name in JARS), *(libraries / name for name in LIBRARIES)]
    with _alone(root / "catalog" / "pom.xml"):
        if not all(file.exists() and file.stat().st_mtime >= newest_source(root) for file in files):
            for name, (built, options) in JARS.items():
                _package(root, options)
                _put(jars / name, (target / built).read_bytes())
            for name, (archive, member) in LIBRARIES.items():
                _put(libraries / name, _member(target / "console" / archive, member))
    return [file.relative_to(root).as_posix() for file in files]


def _put(file: Path, content: bytes) -> None:
    """Writes a file in one step: a JVM that has an earlier jar open keeps it whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.with_name(f"{file.name}.new")
    written.write_bytes(content)
    written.replace(file)


def _member(archive: Path, member: str) -> bytes:
    """Returns a file of a WebJar, below the folder that its version names."""
    with zipfile.ZipFile(archive) as jar:
        [name] = [name for name in jar.namelist() if re.fullmatch(rf"META-INF/resources/webjars/[^/]+/[^/]+/{re.escape(member)}", name)]
        return jar.read(name)


def _package(root: Path, further: Sequence[str]) -> None:
    """Runs Maven. `-C`: a download whose checksum is wrong or missing ends the build."""
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("building the Spark plugin needs Maven and a JDK 17+: install them, or run `make setup`")
    options = ["-C", "-q", "-B", "-f", str(root / "catalog" / "pom.xml"), f"-Dpython={sys.executable}", *further]
    environment = {**os.environ, "MAVEN_OPTS": f"{QUICK_MAVEN} {os.environ.get('MAVEN_OPTS', '')}".strip()}
    if subprocess.run([maven, *options, "package"], env=environment, check=False).returncode != 0:
        raise RuntimeError("the Spark plugin was not built: see Maven's message above")


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Holds a lock on `file`, which stays as it is; other processes wait."""
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def newest_source(root: Path) -> float:
    """Modification time of the newest file that the jars are built from."""
    catalog = root / "catalog"
    sources = [catalog / "pom.xml", *catalog.glob("*.py"), *(catalog / "src").rglob("*"), *(root / "proto").rglob("*.proto")]
    return max(path.stat().st_mtime for path in sources if path.is_file())


class LakewardBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling before it packs a wheel or an editable install."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds stubs, jars and libraries to what is packed."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        build_data["artifacts"] += [*generate_stubs(root), *build_jars_and_fetch_libraries(root)]
        if version != "editable":
            build_data["force_include"] |= {str(root / folder): f"sys_tables/console/shipped/{folder}" for folder in SHIPPED_FOLDERS}


NO_ADDRESS = ".example"
"""Address with a reserved host name (RFC 2606): the project has no public address yet."""
RELATIVE_LINK = re.compile(r"\]\((?!https?://|#)([^)]+)\)")
RELATIVE_IMAGE = re.compile(r"(!\[[^\]]*\])\((?!https?://)([^)]+)\)")


def repository_address(root: Path) -> str | None:
    """Where the repository is to be found; None as long as it has no public address."""
    address = re.findall(r"<lakeward\.repository>([^<]+)<", (root / "catalog" / "pom.xml").read_text(encoding="utf-8"))[0].rstrip("/")
    return None if (urlsplit(address).hostname or "").endswith(NO_ADDRESS) else address


def with_absolute_links(readme: str, address: str, version: str) -> str:
    """Returns the README for a package index, where relative links lead nowhere. An image needs the file itself, and not its page."""
    readme = RELATIVE_IMAGE.sub(lambda image: f"{image[1]}({address}/raw/v{version}/{image[2]})", readme)
    return RELATIVE_LINK.sub(lambda link: f"]({address}/blob/v{version}/{link[1]})", readme)


class LakewardMetadataHook(MetadataHookInterface):
    """Called by hatchling for the metadata of wheel and source distribution."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds the README and, where the repository has a public address, the URLs."""
        root = Path(self.root)
        readme = (root / "README.md").read_text(encoding="utf-8")
        address = repository_address(root)
        metadata["urls"] = {}
        if address is not None:
            version = metadata["version"]
            readme = with_absolute_links(readme, address, version)
            pages = f"{address}/blob/v{version}"
            metadata["urls"] = {
                "Homepage": address,
                "Source": address,
                "Issues": f"{address}/issues",
                "Documentation": f"{pages}/docs/index.md",
                "Changelog": f"{pages}/CHANGELOG.md",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
