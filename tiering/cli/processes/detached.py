"""Services in the background: `lakeward up --detach` starts one and returns when it is ready, and `lakeward down` stops it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tiering.cli.processes.data_folder import DataFolder
from tiering.errors import SetupError
from tiering.files.folder_lock import FolderLock

UP_LOG = "up.log"
STOP_SECONDS = 60
"""Longest wait of `down`. The tierer ends within 16 s, and the coordinator answers its held calls."""
POLL_SECONDS = 0.1
"""Time between two checks of another process, whose output and lock send no notification."""
SHOWN_BYTES = 4_096
"""Output that is shown of a service that did not start."""
_READY = re.compile(rb"^lakeward (?:is ready|stands by): \S+$", re.MULTILINE)
_CONSOLE = re.compile(rb"^lakeward console: \S+$", re.MULTILINE)


def check_folder_is_free(folder: DataFolder) -> None:
    """Raises SetupError while a service has the folder: a second service would wait silently for the end of the first."""
    lock = FolderLock(folder.root)
    if lock.is_held():
        raise SetupError(
            f"a service already runs on {folder.root} (process {lock.owner()})", hint=f"Stop it with: lakeward down --data {folder.root}"
        )


def start_detached(command: Sequence[str], log: Path) -> str:
    """Starts a service in its own session, appends its output to `log`, and returns its ready line, after that of its console.

    Raises SetupError with the end of the output if the service ends before it is ready. Ctrl-C stops the service.
    """
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as output:
        begin = log.stat().st_size
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=environment)
    try:
        while not (ready := _READY.search(_text_since(log, begin))):
            if process.poll() is not None:
                shown = _text_since(log, begin)[-SHOWN_BYTES:].decode(errors="replace").strip()
                raise SetupError(f"the service ended with status {process.returncode}:\n{shown}", hint=f"The complete log is {log}.")
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS)
        raise
    return b"\n".join([*_CONSOLE.findall(_text_since(log, begin)), ready[0]]).decode()


def stop_service(folder: DataFolder, patience_seconds: float = STOP_SECONDS) -> int | None:
    """Stops the process that has the folder with SIGTERM, and waits for its end. Returns its id, or None if no service runs.

    Raises SetupError if the service runs on another machine or as another user, or does not end within `patience_seconds`.
    """
    lock = FolderLock(folder.root)
    if not lock.is_held():
        return None
    owner = lock.owner()
    if not (owner.isdigit() and lock.is_open_in(int(owner))):
        raise SetupError(
            f"a service runs on {folder.root}, but not as a process of this user on this machine (its id is {owner or 'unknown'})",
            hint="Stop it on its machine, as the user who started it.",
        )
    with suppress(ProcessLookupError):  # the process ended meanwhile
        os.kill(int(owner), signal.SIGTERM)
    # A coordinator that waits for the folder gets it at once: the file then has another id.
    if not waited_for(lambda: not lock.is_held() or lock.owner() not in ("", owner), patience_seconds):
        raise SetupError(f"the service (process {owner}) did not end within {patience_seconds:g} s", hint=f"Kill it with: kill -9 {owner}")
    return int(owner)


def waited_for(is_reached: Callable[[], bool], patience_seconds: float) -> bool:
    """Returns whether the condition becomes true in time."""
    end = time.monotonic() + patience_seconds
    while not is_reached():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _text_since(log: Path, begin: int) -> bytes:
    """Returns the output from the position `begin` on, or all of it if the service rotated its log."""
    with log.open("rb") as file:
        file.seek(begin if begin <= os.fstat(file.fileno()).st_size else 0)
        return file.read()
