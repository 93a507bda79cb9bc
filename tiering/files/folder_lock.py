"""Makes sure that one coordinator uses a data folder: it locks a file in it. The system releases the lock when the process ends."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import structlog

from tiering.errors import SetupError
from tiering.files.durable_files import make_folder

LOCK_FILE = "coordinator.lock"

WAIT_SECONDS = 0.2
"""Time between two tries to lock in an event loop, in seconds. The system does not notify the loop when a lock is free."""

_log = structlog.get_logger(__name__)


def take_lock(descriptor: int, *, wait: bool) -> bool:
    """Locks an open file or folder (flock(2)) until all processes that have it open have closed it or ended.

    Returns False only without `wait`. Child processes that inherit the descriptor keep the lock. Lakeward's descriptors are closed in child
    processes, unless a caller changes that.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class FolderLock:
    """A lock that is held from `acquire` or `acquire_async` until `release`.

    The file contains the owner's process id, for users and `lakeward down`.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        self._file: int | None = None

    def acquire(self, *, wait: bool = True) -> bool:
        """Takes the lock. While another coordinator has it, waits and logs that it waits. Returns False only without `wait`.

        Raises SetupError if the folder cannot be written.
        """
        file = self._open()
        try:
            if not take_lock(file, wait=False):
                if not wait:
                    os.close(file)
                    return False
                self._log_that_it_waits()
                take_lock(file, wait=True)
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}\n".encode())
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return True

    async def acquire_async(self) -> None:
        """Takes the lock in an event loop. The wait can be cancelled, unlike that of a blocked thread."""
        if self.acquire(wait=False):
            return
        self._log_that_it_waits()
        while not self.acquire(wait=False):
            await asyncio.sleep(WAIT_SECONDS)

    def owner(self) -> str:
        """Returns the id of the process that has, or last had, the lock; an empty text if no process ever had it."""
        return self._path.read_text().strip() if self._path.exists() else ""

    def is_held(self) -> bool:
        """Returns whether any process has the lock now. Raises OSError if the lock file cannot be read."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def is_open_in(self, process_id: int) -> bool:
        """Returns whether a process of this machine and user has the lock file open. On a shared disk the owner may be on another
        machine.
        """
        with suppress(OSError):
            return any(
                os.path.samefile(descriptor, self._path) for descriptor in Path(f"/proc/{process_id}/fd").iterdir() if descriptor.exists()
            )
        return False

    def release(self) -> None:
        """Releases the lock; may be repeated."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> FolderLock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def _open(self) -> int:
        try:
            make_folder(self._path.parent)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SetupError(
                f"the data folder {self._path.parent} cannot be written: {error.strerror}", hint="Choose another folder with --data."
            ) from error

    def _log_that_it_waits(self) -> None:
        folder = self._path.parent
        _log.warning(
            f"waiting for another coordinator: process {self.owner()} has the data folder; `lakeward down --data {folder}` stops it"
        )
