"""Sets who may read Lakeward's files. Only its owner may read the data folder. A lake elsewhere has the permissions of its parent
folder.
"""

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
"""All permissions of the group and of other users."""

log = structlog.get_logger(__name__)


def keep_files_private() -> None:
    """Makes this process, and processes that it starts from now on, create files that only their owner may read."""
    os.umask(OTHERS)


def make_private(folders: Sequence[Path]) -> None:
    """Removes the permissions of other users from existing folders, and from the content of each folder that was open to them.

    Raises SetupError for a folder of another owner, OSError.
    """
    for folder in folders:
        status = folder.stat()
        if status.st_uid != os.geteuid():
            raise SetupError(
                f"the data folder {folder} belongs to {_user(status.st_uid)}, but this process runs as {_user(os.geteuid())}",
                hint="Run it as the folder's owner, or name a folder of your own with --data.",
            )
    for folder in folders:
        if folder.stat().st_mode & OTHERS:
            log.warning("other users could read the data folder; taking their rights away", folder=str(folder))
            for path in _tree(folder):
                _tighten(path)
            _tighten(folder.resolve())  # last, so that a start that is cut off here does all of it again


def check_replaceable(file: Path, command: str) -> None:
    """Raises SetupError for a file of another user, and as root for a file in another user's folder.

    Otherwise that user could not read the file any more after this process has written it.
    """
    folder = next(above for above in file.absolute().parents if above.is_dir())
    for path in (file, folder) if os.geteuid() == 0 else (file,):
        owner = path.stat().st_uid if path.exists() else os.geteuid()
        if owner != os.geteuid():
            raise SetupError(
                f"{path} belongs to {_user(owner)}, but this process runs as {_user(os.geteuid())}",
                hint=f"Run it as its owner: sudo -u {_sudo_name(owner)} {command}",
            )


def _sudo_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"'#{uid}'"


def _tree(folder: Path) -> Iterator[Path]:
    """Yields all files and folders below a folder; does not follow links."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(parent) / name


def _tighten(path: Path) -> None:
    with suppress(FileNotFoundError):  # another process removed the file
        mode = path.lstat().st_mode
        if mode & OTHERS and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~OTHERS)


def _user(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with the id {uid}"


def make_folders_like_their_parent(folder: Path) -> None:
    """Creates a folder and all missing folders above it, durably, each with the permissions of its parent. Raises OSError."""
    make_folder(folder, like_parent=True)


def open_like_folder(file: Path, *, overwrite: bool) -> int:
    """Opens a file for writing, with the permissions of its folder except the one to execute. Returns the descriptor. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if overwrite else os.O_EXCL)
    descriptor = os.open(file, flags, 0o600)
    set_mode(descriptor, stat.S_IMODE(file.parent.stat().st_mode) & 0o666)
    return descriptor
