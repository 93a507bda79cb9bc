"""Packs the Python packages that executors need into one archive, for a Spark cluster whose machines lack them.

`python -m tiering.round.tasks.executor_archive FILE.tar.gz` packs the packages of this environment that Lakeward needs, in their installed
versions. PySpark is left out, because a cluster has it. Executors must run the same minor version of Python, on the same kind of
machine.
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from tiering.errors import InvalidArgument, LakewardError

PACKAGE = "lakeward"
OWN = ("tiering", "sys_tables")
"""The packages of the wheel. They are packed from where they are imported, which may be a checkout."""
EXTRAS = ("paimon", "hdfs", "fluss", "postgres")
"""Extras whose packages are included if they are installed."""
LEFT_OUT = frozenset({"pyspark", "py4j"})
ENDING = ".tar.gz"
QUICK = 1
"""Compression level. The archive is a third larger than with the best level, but takes a tenth of the time."""


def pack(archive: Path) -> int:
    """Writes the archive and returns the number of its files. Raises InvalidArgument for a name that Spark would not unpack."""
    if not archive.name.endswith(ENDING):
        raise InvalidArgument(
            f"Spark recognizes archives by their file ending, and {archive.name} does not end in {ENDING}",
            hint=f"Name it lakeward{ENDING}.",
        )
    count = 0
    with tarfile.open(archive, "w:gz", compresslevel=QUICK) as tar:
        for path, name in sorted(_files()):
            tar.add(path, name, recursive=False)
            count += 1
    return count


def _files() -> Iterator[tuple[Path, str]]:
    """Yields each file with its name in the archive."""
    for package in _needed().values():
        for file in package.files or ():
            path, name = Path(str(package.locate_file(file))), str(file)
            # Left out: programs, which lie beside the packages, and the .pth file that points to a checkout.
            is_wanted = ".." not in name and "__pycache__" not in name and not name.endswith(".pth")
            if is_wanted and name.split("/")[0] not in OWN and path.is_file():
                yield path, name
    for own in OWN:
        spec = find_spec(own)
        assert spec is not None
        assert spec.origin is not None
        root = Path(spec.origin).parent
        for path in root.rglob("*.py"):
            yield path, f"{own}/{path.relative_to(root)}"


def _needed() -> dict[str, Distribution]:
    """Returns the needed distributions by their normalized names."""
    needed: dict[str, Distribution] = {}
    waiting = [PACKAGE]
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in needed or key in LEFT_OUT:
            continue
        try:
            needed[key] = distribution(name)
        except PackageNotFoundError:
            continue  # a package of an extra that is not installed
        extras = EXTRAS if key == PACKAGE else ()
        for requirement in map(Requirement, needed[key].requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras, *extras)):
                waiting.append(requirement.name)
    return needed


def main(archive: str) -> None:
    """Packs the archive and prints the result."""
    try:
        print(f"{archive}: {pack(Path(archive))} files")
    except LakewardError as error:
        sys.exit(f"{error.message}. {error.hint or ''}".strip())
    except OSError as error:
        sys.exit(f"{archive} cannot be written: {error.strerror or error}. Name a file in a writable folder with 300 MB free.")


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["lakeward.tar.gz"])
