"""One coordinator a data folder, seen from two processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiering.errors import SetupError
from tiering.files.folder_lock import WAIT_SECONDS, FolderLock

HOLDER = """
import sys
from pathlib import Path
from tiering.files.folder_lock import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.read()
"""


def start(folder: Path) -> subprocess.Popen[str]:
    """Another process that takes the lock and keeps it until its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_second_process_waits_and_says_for_whom(tmp_path: Path) -> None:
    with FolderLock(tmp_path) as mine:
        second = start(tmp_path)
        try:
            waits = line(second)
            assert "waiting for another coordinator" in waits
            assert str(os.getpid()) in waits
            mine.release()
            assert line(second) == "mine"
        finally:
            second.communicate("", timeout=60)


def test_a_killed_process_lets_go(tmp_path: Path) -> None:
    first = start(tmp_path)
    assert line(first) == "mine"
    lock = FolderLock(tmp_path)
    assert not lock.acquire(wait=False)
    assert lock.owner() == str(first.pid)
    first.kill()
    first.communicate(timeout=60)
    assert lock.acquire()
    lock.release()
    lock.release()


def test_waiting_in_an_event_loop_can_be_given_up(tmp_path: Path) -> None:
    async def both() -> None:
        with FolderLock(tmp_path) as mine:
            waiting = asyncio.create_task(FolderLock(tmp_path).acquire_async())
            await asyncio.wait([waiting], timeout=WAIT_SECONDS)
            assert not waiting.done()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            mine.release()
            other = FolderLock(tmp_path)
            await other.acquire_async()
            other.release()

    asyncio.run(both())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="file"):
        FolderLock(tmp_path / "file").acquire()
