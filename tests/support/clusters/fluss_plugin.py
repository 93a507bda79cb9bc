"""The lake plugin of tests, which creates no lake tables: compiled at set-up, and again when its source is newer."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from support.repository import ROOT
from tiering.cli.fluss_server.jars import server_class_path
from tiering.cli.spark.java import require_java

HOME = ROOT / "tests" / "support" / "fluss_plugin"
PLUGINS_FOLDER = HOME / "target" / "plugins"
"""What FLUSS_PLUGINS_DIR names."""
JAR = PLUGINS_FOLDER / "no-tables" / "no-tables.jar"


def no_tables_plugins() -> Path:
    """The folder for FLUSS_PLUGINS_DIR, with the jar in it. Raises SetupError if the server's jars were not fetched."""
    sources = [path for path in (HOME / "src").rglob("*") if path.is_file()]
    JAR.parent.mkdir(parents=True, exist_ok=True)
    with (HOME / "src" / "META-INF").joinpath("services", "org.apache.fluss.lake.lakestorage.LakeStoragePlugin").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not JAR.is_file() or JAR.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            _build(sources)
    return PLUGINS_FOLDER


def _build(sources: list[Path]) -> None:
    with TemporaryDirectory() as name:
        classes = Path(name) / "classes"
        compiler = require_java().with_name("javac")
        java = [str(path) for path in sources if path.suffix == ".java"]
        subprocess.run([str(compiler), "--release", "11", "-nowarn", "-cp", server_class_path(), "-d", str(classes), *java], check=True)
        fresh = JAR.with_suffix(".new")
        with zipfile.ZipFile(fresh, "w") as jar:
            for root in (classes, HOME / "src"):
                for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".java"):
                    jar.write(path, path.relative_to(root))
        fresh.replace(JAR)


if __name__ == "__main__":
    no_tables_plugins()
    sys.exit(0)
