"""How a coordinator's process stands, as its health pages tell: what alive and ready mean."""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as FutureTimeoutError

from tiering.cli.processes.monitoring import MonitoringSettings
from tiering.coordinator.server.coordinator import Coordinator
from tiering.telemetry.coordinator_metrics import CoordinatorCollector
from tiering.telemetry.http_server import new_registry

ANSWER_SECONDS = 5.0
"""An event loop that comes to nothing else for so long hangs."""


class CoordinatorHealth:
    """How a coordinator's process stands. Made in its event loop, asked from other threads."""

    def __init__(self, settings: MonitoringSettings) -> None:
        self.registry = new_registry()
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._coordinator: Coordinator | None = None
        self._stopping = False

    def serving(self, coordinator: Coordinator) -> None:
        """It owns its store, and its server answers: from now on its tables are in the metrics."""
        self._coordinator = coordinator
        self.registry.register(CoordinatorCollector(coordinator, self._settings.tables))

    def stopping(self) -> None:
        """It is not ready any more."""
        self._stopping = True

    def not_ready(self) -> str | None:
        """Why it does not answer calls now."""
        if self._stopping:
            return "this coordinator is stopping"
        if self._coordinator is None:
            return "this coordinator stands by, waits for its data folder, which another one has, or is starting"
        fenced = self._coordinator.table_records.fenced
        return None if fenced is None else fenced.message

    def not_alive(self) -> str | None:
        """Why the process should be started again."""
        answer = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            answer.result(ANSWER_SECONDS)
        except FutureTimeoutError:
            return f"the event loop has not answered for {ANSWER_SECONDS:g} s"
        return None
