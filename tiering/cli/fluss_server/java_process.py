"""One Java process of a Fluss cluster. It can be started, killed and stopped, and keeps its log."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tiering.cli.spark.java import require_java
from tiering.errors import SetupError

STOP_SECONDS = 15
LOG_TAIL_CHARACTERS = 2_000
JVM_OPTIONS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",  # Arrow's buffers
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # starts in half the time
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


class JavaProcess:
    """A process of a main class with its arguments. It can be started again after it ended."""

    def __init__(
        self, class_path: str, main: str, arguments: tuple[str, ...], log: Path, heap: str, environment: Mapping[str, str]
    ) -> None:
        self.log = log
        self._command = [str(require_java()), *JVM_OPTIONS, f"-Xmx{heap}", "-cp", class_path, main, *arguments]
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._is_wanted = False

    @property
    def pid(self) -> int:
        """The pid of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def has_failed(self) -> bool:
        """Whether the process ended by itself."""
        return self._is_wanted and not self.is_running

    def start(self) -> None:
        """Starts the process in its own process group. Ctrl-C in a terminal then reaches only the parent, which stops the process."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self.log.parent,
                start_new_session=True,
            )
        self._is_wanted = True

    def check_running(self) -> None:
        """Raises SetupError with the end of the log if the process ended by itself."""
        if not self.is_running:
            raise SetupError(
                f"{self.log.stem} of the Fluss cluster ended: {self.log_tail()}",
                hint=f"The complete log is {self.log}.",
            )

    def log_tail(self) -> str:
        """Returns the last lines of the log."""
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if self.log.exists() else "(it wrote nothing)"

    def kill(self) -> None:
        """Kills the process with SIGKILL, like a power failure, and waits until it has ended."""
        self._end(signal.SIGKILL, None)

    def stop(self) -> None:
        """Stops the process with SIGTERM, or with SIGKILL after STOP_SECONDS, and waits until it has ended."""
        try:
            self._end(signal.SIGTERM, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def _end(self, number: signal.Signals, seconds: float | None) -> None:
        self._is_wanted = False
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(number)
            self._process.wait(seconds)
