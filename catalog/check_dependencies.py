"""Checks that every jar the plugin is built from is the file whose SHA-256 is committed. Run by Maven, before it compiles.

`check_dependencies.py LIST SUMS`: LIST has the paths of all dependencies, separated by `|`, as Maven resolved them; SUMS has
a line `<sha256>  <file name>` for each, as `sha256sum` writes it. After a change of a version: `sha256sum` the new file into SUMS.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def committed_sums(text: str) -> dict[str, str]:
    """SHA-256 by file name."""
    pairs = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: checksum for checksum, name in pairs}


def complaints(jars: Sequence[Path], sums: Mapping[str, str]) -> list[str]:
    """A line for each jar that is unknown or is another file than the one that was committed."""
    lines = []
    for jar in jars:
        checksum = hashlib.sha256(jar.read_bytes()).hexdigest()
        if jar.name not in sums:
            lines.append(f"{jar.name} is not in catalog/dependencies.sha256; its SHA-256 is {checksum}")
        elif checksum != sums[jar.name]:
            lines.append(
                f"{jar} was damaged or exchanged: its SHA-256 is {checksum}, catalog/dependencies.sha256 has {sums[jar.name]}. "
                "Delete its folder and build again."
            )
    return lines


if __name__ == "__main__":
    _, listed, committed = sys.argv
    paths = [Path(path) for path in Path(listed).read_text(encoding="utf-8").strip().split("|") if path]
    wrong = complaints(paths, committed_sums(Path(committed).read_text(encoding="utf-8")))
    if wrong:
        sys.exit("\n".join(["the plugin is not built:", *wrong]))
