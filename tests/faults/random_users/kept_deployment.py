"""A coordinator and tierers as processes, each started again when it dies, as a service manager does it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.repository import ROOT
from support.running.cluster_of_processes import Deployment
from support.running.processes import Process, wait_for
from tiering import crash_points

COORDINATOR = "coordinator"
TIERERS = ("ann", "bob")
PARTS = (COORDINATOR, *TIERERS)
LOOK_SECONDS = 0.05
READY_SECONDS = 90
_INLINE_TIERER = (sys.executable, "-m", "faults.random_users.inline_tierer")
_NEVER_PRINTED = ("Traceback (most recent call last)", "Task exception was never retrieved", "Exception in thread")
"""Texts that no process may ever print."""


@dataclass
class KeptDeployment(Deployment):
    """See the module. `defects` has what no fault excuses: a process that ends by itself, or prints a traceback."""

    defects: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    """Faults of processes, in the user's story."""

    def __post_init__(self) -> None:
        self._parts: dict[str, Process] = {}
        self._armed: dict[str, str] = {}
        self._timers: list[threading.Timer] = []
        self._ending = threading.Event()
        self._lock = threading.RLock()
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        """Returns when the coordinator serves."""
        self._parts[COORDINATOR] = self.start_coordinator()
        for name in TIERERS:
            self._parts[name] = self._tierer(name, None)
        self._keeper.start()

    def _tierer(self, name: str, crash_point: str | None) -> Process:
        env = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
        env |= {} if crash_point is None else {crash_points.VARIABLE: crash_point}
        words = ("tierer", "--uri", self.uri, "--tierer-id", name)
        process = Process(*words, log=self.folder / f"{len(self.processes)}-{name}.log", env=env, program=_INLINE_TIERER)
        self.processes.append(process)
        return process

    # what befalls processes

    def kill(self, name: str, after_seconds: float = 0.0) -> None:
        """SIGKILL, now or in a moment."""
        self._later(after_seconds, lambda: self._send(name, signal.SIGKILL))

    def arm(self, name: str, point: str) -> None:
        """The process is killed, and its next one kills itself at `point`."""
        with self._lock:
            self._armed[name] = point
        self.kill(name)

    def doze(self, name: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long."""
        process = self._parts[name]
        self._signal(process, signal.SIGSTOP)
        self._later(seconds, lambda: self._signal(process, signal.SIGCONT))

    def _later(self, seconds: float, act: object) -> None:
        if seconds == 0.0:
            act()  # type: ignore[operator]
            return
        timer = threading.Timer(seconds, act)  # type: ignore[arg-type]
        self._timers.append(timer)
        timer.start()

    def _send(self, name: str, number: signal.Signals) -> None:
        with self._lock:
            self._signal(self._parts[name], number)

    def _signal(self, process: Process, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it just died
            process.send(number)

    # who starts them again

    def _keep(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            for name in PARTS:
                status = self._parts[name].popen.poll()
                if status is not None and not self._ending.is_set():
                    self._again(name, status)

    def _again(self, name: str, status: int) -> None:
        ended = self._parts[name]
        if status != -signal.SIGKILL:
            self.defects.append(f"{name} ended with {status}: {ended.output()[-2_000:]}")
        with self._lock:
            point = self._armed.pop(name, None)
        self.story.append(f"    {name} starts again{'' if point is None else f', to die at {point}'}")
        try:
            process = self._new_coordinator(point) if name == COORDINATOR else self._tierer(name, point)
        except AssertionError as failure:
            self.defects.append(f"{name} does not start: {failure}")
            process = self.processes[-1]
            self._ending.set()
        with self._lock:
            self._parts[name] = process

    def _new_coordinator(self, point: str | None) -> Process:
        return self.start_coordinator(port=self.port, crash_point=point)

    def is_serving(self) -> bool:
        """Whether the coordinator that runs has said that it is ready."""
        process = self._parts[COORDINATOR]
        return process.popen.poll() is None and "lakeward is ready" in process.output()

    def wait_serving(self) -> None:
        """Until the coordinator serves again; fails when it does not."""
        wait_for("the coordinator serves", lambda: self.is_serving() or self._ending.is_set(), READY_SECONDS)
        if self._ending.is_set():
            raise AssertionError(f"the coordinator is gone: {self.defects}")

    def settle(self) -> None:
        """Ends all faults: timers have gone off, no process sleeps, and none is about to die."""
        for timer in self._timers:
            timer.join()
        for name in PARTS:
            if self._is_armed(name):
                self.kill(name)
        self.wait_serving()

    def _is_armed(self, name: str) -> bool:
        """Whether it might still die at a crash point."""
        try:
            environment = Path(f"/proc/{self._parts[name].popen.pid}/environ").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):  # it just died
            return False
        return crash_points.VARIABLE in environment

    def close(self) -> None:
        self._ending.set()
        for timer in self._timers:
            timer.cancel()
        if self._keeper.is_alive():
            self._keeper.join(READY_SECONDS)
        super().close()

    def failures_in_logs(self) -> list[str]:
        """Returns forbidden output of processes."""
        texts = ((process.log.name, process.output()) for process in self.processes)
        return [f"{name}: {text[text.index(mark) :][:3_000]}" for name, text in texts for mark in _NEVER_PRINTED if mark in text]
