"""A command on a terminal of its own: what it draws, what is typed, how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType

from support.running.processes import heeding_interrupts, wait_for

BAR = "\N{BOX DRAWINGS HEAVY HORIZONTAL}"
"""The character of rich's progress bars."""
_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


class Terminal:
    """`lakeward` with a pseudo-terminal as input, output and error. A context manager: the process ends with the block."""

    def __init__(self, *arguments: str, columns: int = 120, lines: int = 30, env: Mapping[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")}
        with heeding_interrupts():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tiering.cli.main", *arguments],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env={**environment, "TERM": "xterm-256color", **(env or {})},
                start_new_session=True,
                # Ctrl-C reaches the processes with this controlling terminal.
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        os.close(theirs)
        self._said = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def raw(self) -> str:
        """All it wrote, with what steers the terminal."""
        return bytes(self._said).decode(errors="replace")

    @property
    def text(self) -> str:
        """All it wrote, without."""
        return _STEERING.sub("", self.raw)

    def wait_for(self, text: str, seconds: float = 180) -> None:
        """Until it wrote `text`."""
        wait_for(f"{text!r} on the terminal; it shows: {self.text[-2_000:]!r}", lambda: text in self.text, seconds)

    def type(self, text: str) -> None:
        """Types the text as on a keyboard; Ctrl-C is `\x03`, Ctrl-D `\x04`."""
        os.write(self._ours, text.encode())

    def end_input(self, seconds: float = 180) -> int:
        """Ctrl-D, again and again until the process ends; its exit status.

        The kernel marks the end of the input where a prompt is not yet there to take the key, and the prompt then sees none.
        """

        def has_ended() -> bool:
            if self._process.poll() is None:
                self.type("\x04")
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
            return self._process.returncode is not None

        wait_for("the process ends at the end of its input", has_ended, seconds)
        return self.wait_ended()

    def send(self, number: signal.Signals) -> None:
        """A signal to the process alone, from elsewhere."""
        os.kill(self._process.pid, number)

    def bar_is_gone(self) -> bool:
        """Whether a bar was drawn, its line was cleared behind the last drawing, and the cursor is back."""
        behind = self.raw[self.raw.rindex(BAR) :]
        return "\x1b[2K" in behind and self.raw.rindex("\x1b[?25h") > self.raw.rindex("\x1b[?25l")

    def wait_ended(self, seconds: float = 180) -> int:
        """Returns the exit status, after all output was read."""
        status = self._process.wait(seconds)
        self._reader.join(60)
        return status

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._ours, 65_536)
            except OSError:  # EIO: no process has the other side open any more
                return
            if not piece:
                return
            self._said += piece

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
        os.close(self._ours)
