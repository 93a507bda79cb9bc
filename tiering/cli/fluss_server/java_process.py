"""One Java process of a Fluss cluster: started, killed and stopped by its pid; its log stays."""

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
    """A main class with its arguments, which can be started again after it ended."""

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
        """Of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself."""
        return self._is_wanted and not self.is_running

    def start(self) -> None:
        """In a process group of its own: Ctrl-C in a terminal reaches whoever started it, who stops it."""
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
        """Raises SetupError with the end of its log if it ended by itself."""
        if not self.is_running:
            raise SetupError(
                f"{self.log.stem} of the Fluss cluster ended: {self.log_tail()}",
                hint=f"Its whole log is {self.log}.",
            )

    def log_tail(self) -> str:
        """The last lines that it wrote."""
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if self.log.exists() else "(it wrote nothing)"

    def kill(self) -> None:
        """SIGKILL, as a machine that loses power; returns when it is gone."""
        self._end(signal.SIGKILL, None)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that does not help; returns when it is gone."""
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
