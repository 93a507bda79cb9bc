"""Who may read what we write: the data folder is its owner's alone; a lake elsewhere is as open as the folder that it lies in."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from tiering.errors import SetupError
from tiering.files.durable_files import make_folder, set_mode

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""Every right of the group and of all others."""

log = structlog.get_logger(__name__)


def keep_files_private() -> None:
    """From here on this process, and those that it starts, make files that only their owner may read."""
    os.umask(OTHERS)


def make_private(folders: Sequence[Path]) -> None:
    """Takes the rights of others from folders that exist, and from all that is in one that was open to them.

    Raises SetupError for a folder of another owner, OSError.
    """
    for folder in folders:
        status = folder.stat()
        if status.st_uid != os.geteuid():
            raise SetupError(
                f"the data folder {folder} belongs to {_user(status.st_uid)}, and this process runs as {_user(os.geteuid())}",
                hint="Run it as the folder's owner, or name a folder of your own with --data.",
            )
    for folder in folders:
        if folder.stat().st_mode & OTHERS:
            log.warning("other users could read the data folder; taking their rights away", folder=str(folder))
            for path in _tree(folder):
                _tighten(path)
            _tighten(folder.resolve())  # last: a start that is cut off here begins again


def check_replaceable(file: Path, command: str) -> None:
    """Raises SetupError for a file of another user, and for root in another user's folder: what this process wrote, that user could
    not read any more.
    """
    folder = next(above for above in file.absolute().parents if above.is_dir())
    for path in (file, folder) if os.geteuid() == 0 else (file,):
        owner = path.stat().st_uid if path.exists() else os.geteuid()
        if owner != os.geteuid():
            raise SetupError(
                f"{path} belongs to {_user(owner)}, and this process runs as {_user(os.geteuid())}",
                hint=f"Run it as its owner: sudo -u {_sudo_name(owner)} {command}",
            )


def _sudo_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"'#{uid}'"


def _tree(folder: Path) -> Iterator[Path]:
    """All files and folders below; links are not followed."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(parent) / name


def _tighten(path: Path) -> None:
    with suppress(FileNotFoundError):  # it was removed meanwhile
        mode = path.lstat().st_mode
        if mode & OTHERS and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~OTHERS)


def _user(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with the id {uid}"


def make_folders_like_their_parent(folder: Path) -> None:
    """Makes a folder and those above it that are missing, durably, each with the rights of the one that it lies in. Raises OSError."""
    make_folder(folder, like_parent=True)


def open_like_folder(file: Path, *, overwrite: bool) -> int:
    """A descriptor for writing a file that has the rights of its folder, but that to run it. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if overwrite else os.O_EXCL)
    descriptor = os.open(file, flags, 0o600)
    set_mode(descriptor, stat.S_IMODE(file.parent.stat().st_mode) & 0o666)
    return descriptor
