"""`lakeward up --detach` and `lakeward down`: what starts in the background, is ready on return, and is stopped by its folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.running.processes import wait_for
from tiering.cli.main import main
from tiering.cli.processes import detached
from tiering.cli.processes.data_folder import DataFolder, open_data_folder
from tiering.cli.processes.detached import check_folder_is_free, start_detached, stop_service
from tiering.errors import SetupError
from tiering.files.folder_lock import FolderLock

READY = 'echo $$ > pid; echo "lakeward is ready: 127.0.0.1:7707"; exec sleep 600'
SERVICE = """
import sys, signal
from pathlib import Path
from tiering.files.folder_lock import FolderLock
with FolderLock(Path(sys.argv[1])):
    if sys.argv[2] == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("runs", flush=True)
    signal.pause()
"""


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return open_data_folder(tmp_path / "data")


@contextmanager
def service(folder: DataFolder, mood: str = "gentle") -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the folder's lock, as a service has it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", SERVICE, str(folder.root), mood], stdout=subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_it_returns_the_ready_line_and_leaves_the_service_running(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    log.write_text("lakeward is ready: 127.0.0.1:1\n")  # of an earlier start

    ready = start_detached(["sh", "-c", f"cd {tmp_path}; {READY}"], log)

    process = int((tmp_path / "pid").read_text())
    try:
        assert ready == "lakeward is ready: 127.0.0.1:7707"
        assert os.getsid(process) != os.getsid(0)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def test_the_ready_line_is_found_after_the_log_was_rotated(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    log.write_text("an earlier line\n" * 100)

    assert start_detached(["sh", "-c", f": > {log}; echo lakeward is ready: 127.0.0.1:7707"], log) == "lakeward is ready: 127.0.0.1:7707"


def test_a_service_that_ends_at_once_is_told_in_its_own_words(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    log.write_text("an earlier line\n")

    with pytest.raises(SetupError, match="lakeward: port 7707 is taken") as caught:
        start_detached(["sh", "-c", "echo lakeward: port 7707 is taken; exit 1"], log)

    assert "status 1" in caught.value.message
    assert "earlier" not in caught.value.message
    assert str(log) in (caught.value.hint or "")


def test_a_second_service_on_a_folder_is_refused_with_the_way_to_stop_the_first(folder: DataFolder) -> None:
    check_folder_is_free(folder)
    with service(folder) as first, pytest.raises(SetupError, match=f"process {first.pid}") as caught:
        check_folder_is_free(folder)
    assert caught.value.hint == f"Stop it with: lakeward down --data {folder.root}"


def test_down_returns_when_the_service_has_ended(folder: DataFolder) -> None:
    with service(folder) as running:
        assert stop_service(folder) == running.pid
        assert running.wait(60) == -signal.SIGTERM
    assert stop_service(folder) is None


def test_down_says_how_to_end_a_service_that_does_not(folder: DataFolder) -> None:
    with service(folder, "stubborn") as running, pytest.raises(SetupError, match="did not end within") as caught:
        stop_service(folder, patience_seconds=0.01)
    assert caught.value.hint == f"Kill it with: kill -9 {running.pid}"


def test_down_returns_when_a_service_that_waited_has_the_folder(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    is_held, waiting = FolderLock.is_held, FolderLock(folder.root)

    def taken_over(lock: FolderLock) -> bool:
        """The waiting service takes the folder as soon as it is free."""
        return is_held(lock) or waiting.acquire(wait=False)

    with service(folder) as running:
        monkeypatch.setattr(FolderLock, "is_held", taken_over)
        try:
            assert stop_service(folder, patience_seconds=30) == running.pid
        finally:
            waiting.release()


def test_down_sends_no_signal_to_a_process_that_has_not_the_folder(folder: DataFolder) -> None:
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        with FolderLock(folder.root):  # as if by a machine that shares the disk, where the id is another process
            (folder.root / "coordinator.lock").write_text(f"{bystander.pid}\n")
            with pytest.raises(SetupError, match="not as a process of this user on this machine"):
                stop_service(folder)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_down_of_a_folder_without_a_service_changes_nothing(
    folder: DataFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["lakeward", "down", "--data", str(folder.root)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"no service runs on {folder.root}\n"


def test_ctrl_c_while_it_starts_stops_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(log: Path, begin: int) -> bytes:
        wait_for("the service runs", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        raise KeyboardInterrupt

    monkeypatch.setattr(detached, "_text_since", interrupt)
    with pytest.raises(KeyboardInterrupt):
        start_detached(["sh", "-c", f"cd {tmp_path}; echo $$ > pid; exec sleep 600"], tmp_path / "up.log")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
