"""The service of the demo: `lakeward up` as a child process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tiering.child_process import module_command
from tiering.cli.processes.data_folder import DataFolder
from tiering.errors import SetupError

STOP_SECONDS = 20
_READY = re.compile(r"lakeward is ready: (\S+)")


@dataclass(frozen=True)
class DemoService:
    """A running `lakeward up`."""

    process: subprocess.Popen[str]
    uri: str
    folder: Path

    @property
    def lake_properties(self) -> dict[str, str]:
        return DataFolder(self.folder).lake_properties

    def stop(self) -> None:
        """Ends the process with SIGTERM, and with SIGKILL if it does not end in time."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()


def start_service(folder: Path, port: int, options: Sequence[str] = ()) -> DemoService:
    """Starts the service with more `options` of the command, and waits until it is ready. Raises SetupError with its log if it ends."""
    folder = folder.expanduser().resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder.with_name(f"{folder.name}.log")
    command = module_command("tiering.cli.main", "up", "--data", str(folder), "--port", str(port), *options)
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if match := _READY.search(line):
                return DemoService(process, match[1], folder)
    except BaseException:  # Ctrl-C
        DemoService(process, "", folder).stop()
        raise
    raise SetupError(f"the service did not start: {log.read_text()[-2_000:]}", hint=f"The complete log is {log}.")
