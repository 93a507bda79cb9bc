"""Real `lakeward` processes for tests: started on free ports, awaited by what they print, stopped by pid."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
READY = re.compile(r"lakeward is ready: (\S+)")
STANDS_BY = re.compile(r"lakeward stands by: (\S+)")
POLL_SECONDS = 0.05
KILLED_SECONDS = 60


def wait_for(subject: str, probe: Callable[[], T | None], seconds: float = 180) -> T:
    """The first result of `probe` that is true in Python's sense; fails the test after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = probe()
        if answer:
            return answer
        time.sleep(POLL_SECONDS)  # between two looks at another process
    raise AssertionError(f"waited {seconds} s in vain: {subject}")


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Processes started within are ended by SIGINT, as those that a person starts.

    A shell script's background job ignores it and hands that on; the command line keeps to it, tests of Ctrl-C cannot. Only the main
    thread can change that; what another one starts goes on ignoring it.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Process:
    """One running `lakeward` command. Its output goes to `log`; kill or stop it by pid."""

    def __init__(
        self,
        *arguments: str,
        log: Path,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "tiering.cli.main"),
        cwd: Path | None = None,
    ) -> None:
        self.log = log
        self._out = log.open("wb")
        with heeding_interrupts():
            self.popen = subprocess.Popen(
                [*program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
                start_new_session=True,
                cwd=cwd,
            )

    def output(self) -> str:
        """Output of the process so far."""
        return self.log.read_text(errors="replace")

    def wait_ready(self, seconds: float = 180) -> str:
        """The `HOST:PORT` of its ready line."""

        def probe() -> str | None:
            if self.popen.poll() is not None:
                raise AssertionError(f"ended with {self.popen.returncode}:\n{self.output()}")
            match = READY.search(self.output())
            return match[1] if match else None

        return wait_for(f"the ready line of {self.log.name}", probe, seconds)

    def wait_standing_by(self, seconds: float = 180) -> str:
        """The `HOST:PORT` where it passes calls on."""

        def probe() -> str | None:
            if self.popen.poll() is not None:
                raise AssertionError(f"ended with {self.popen.returncode}:\n{self.output()}")
            match = STANDS_BY.search(self.output())
            return match[1] if match else None

        return wait_for(f"{self.log.name} stands by", probe, seconds)

    def wait_ended(self, seconds: float = 180) -> int:
        """Returns the exit status; negative = the signal that ended the process."""
        return self.popen.wait(seconds)

    def send(self, number: signal.Signals) -> None:
        """A signal to the process alone."""
        os.kill(self.popen.pid, number)

    def kill(self) -> None:
        """Ends the process and everything it started at once; what it would still have told is lost."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(KILLED_SECONDS)
        self._out.close()

    def close(self) -> None:
        """Stops the process as a person does, and ends everything it started."""
        for number, patience in ((signal.SIGCONT, 0.0), (signal.SIGTERM, 12.0), (signal.SIGKILL, 5.0)):
            try:
                os.killpg(self.popen.pid, number)
                self.popen.wait(patience)
            except (ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
                continue
        self._out.close()
