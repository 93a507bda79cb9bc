"""Checks of a data folder that another user may have prepared: it must not have links that lead out of it, or a special file as VERSION."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tiering.errors import SetupError

VERSION_BYTES = 100
_INSIDE = ("cluster/log", "cluster/kv", "cluster/kv-snapshots")
_PARTS = (".", "cluster", *_INSIDE)


def read_version(file: Path) -> str:
    """Returns the beginning of a VERSION file. Raises OSError, and SetupError for a pipe or device, which might never end."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SetupError(f"{file} is not a regular file", hint="Name a data folder that Lakeward created.")
        content = os.read(descriptor, VERSION_BYTES).decode("ascii", errors="replace").strip()
    finally:
        os.close(descriptor)
    return content if content.isprintable() else repr(content)


def check_links(root: Path, *, of_others: bool) -> None:
    """Raises SetupError for a link in the folder that leads out of it.

    With `of_others`, this includes links in the place of parts such as `lake`, with which operators put a part on another disk.
    """
    real = os.path.realpath(root)
    for link in _links(root, _PARTS if of_others else _INSIDE):
        target = os.path.realpath(link)
        if target != real and not target.startswith(f"{real}/"):
            raise SetupError(
                f"{link} is a link to {target}, outside of the data folder",
                hint="Nothing was read. If you trust the link, move the files into the folder, or mount their disk there.",
            )


def _links(root: Path, parts: tuple[str, ...]) -> Iterator[Path]:
    for part in parts:
        folder = root / part
        if folder.is_dir():
            with os.scandir(folder) as entries:
                yield from (Path(entry.path) for entry in entries if entry.is_symlink())
