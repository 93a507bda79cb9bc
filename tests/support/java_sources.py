"""Java sources of tests, compiled into a jar at set-up, and again when a source is newer."""

from __future__ import annotations

import fcntl
import subprocess
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from tiering.cli.spark.java import require_java


def compiled_jar(sources: Path, class_path: str, jar: Path) -> Path:
    """The jar of all classes and other files of the folder `sources`. Of two that compile, the second waits."""
    files = sorted(path for path in sources.rglob("*") if path.is_file())
    jar.parent.mkdir(parents=True, exist_ok=True)
    with files[0].open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not jar.is_file() or jar.stat().st_mtime < max(path.stat().st_mtime for path in files):
            _build(sources, [str(path) for path in files if path.suffix == ".java"], class_path, jar)
    return jar


def _build(sources: Path, java: list[str], class_path: str, jar: Path) -> None:
    with TemporaryDirectory() as name:
        classes = Path(name) / "classes"
        compiler = require_java().with_name("javac")
        subprocess.run([str(compiler), "--release", "11", "-nowarn", "-cp", class_path, "-d", str(classes), *java], check=True)
        fresh = jar.with_suffix(".new")
        with zipfile.ZipFile(fresh, "w") as archive:
            for root in (classes, sources):
                for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".java"):
                    archive.write(path, path.relative_to(root))
        fresh.replace(jar)
