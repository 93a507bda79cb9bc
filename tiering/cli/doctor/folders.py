"""Checks of the folders that Lakeward writes to: the data folder, and the folder for temporary files. Creates nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tiering.cli.doctor.findings import Finding, fail, ok, warn
from tiering.cli.processes.data_folder import FORMAT_VERSION, PARTS, check_version

ENOUGH_BYTES = 2 << 30
"""With less free space, a busy table fills the disk within hours."""
TOO_LITTLE_BYTES = 100 << 20
"""With less free space, the next round may fail."""


def data_folder(path: Path) -> Iterator[Finding]:
    """Yields whether the data folder can be used. Raises SetupError for a folder of another program or version."""
    root = path.expanduser().resolve()
    if not root.exists():
        yield _where_it_would_be(root)
        return
    if not root.is_dir():
        yield fail("data folder", f"{root} is not a folder", "Name another folder with --data.")
        return
    check_version(root)
    if root.stat().st_uid != os.geteuid():
        yield fail("data folder", f"{root} belongs to another user", "Run Lakeward as its owner, or name another folder with --data.")
        return
    locked = [str(part) for part in (root, *(root / name for name in PARTS)) if part.exists() and not _writable(part)]
    if locked:
        yield fail(
            "data folder", f"cannot be written: {', '.join(locked)}", "Give this user write permission, or name another folder with --data."
        )
    else:
        content = f"format version {FORMAT_VERSION}" if (root / "VERSION").exists() else "empty"
        yield ok("data folder", f"{root}, {content}")
    yield space("data folder", root)


def temporary_folder() -> Iterator[Finding]:
    """Yields the free space for `lakeward ingest` and for Spark's spilled data. Raises FileNotFoundError without a writable folder."""
    folder = Path(tempfile.gettempdir())
    yield space("temporary files", folder)


def space(check: str, folder: Path, enough: int = ENOUGH_BYTES, too_little: int = TOO_LITTLE_BYTES) -> Finding:
    """Returns the free space on the disk of `folder`."""
    free = shutil.disk_usage(folder).free
    room = f"{free / (1 << 30):.1f} GiB free in {folder}"
    if free < too_little:
        return fail(check, room, "Free some space, or use another disk.")
    return warn(check, room, "Free some space soon.") if free < enough else ok(check, room)


def _where_it_would_be(root: Path) -> Finding:
    above = next(parent for parent in root.parents if parent.exists())
    if not above.is_dir() or not _writable(above):
        return fail("data folder", f"{root} does not exist and cannot be created in {above}", "Name another folder with --data.")
    return ok("data folder", f"{root} does not exist yet; `lakeward up` creates it")


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)
