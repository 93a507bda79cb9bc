"""How a coordinator's process stands, as its health pages tell: what alive and ready mean; and who may see which tables in its metrics."""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as FutureTimeoutError

from tiering.access.authentication import Authenticator, Proof
from tiering.access.grants import EVERYTHING, Access
from tiering.access.identity import UNCHECKED
from tiering.access.policies.engine import CedarEngine
from tiering.cli.processes.monitoring import MonitoringSettings
from tiering.coordinator.server.coordinator import Coordinator
from tiering.telemetry.coordinator_metrics import CoordinatorCollector
from tiering.telemetry.http_server import new_registry

ANSWER_SECONDS = 5.0
"""An event loop that comes to nothing else for so long hangs."""


_NOTHING = Access(UNCHECKED, CedarEngine(""))
"""Of a scrape that does not say who makes it: no policy permits it anything."""


class CoordinatorHealth:
    """How a coordinator's process stands. Made in its event loop, asked from other threads."""

    def __init__(self, settings: MonitoringSettings) -> None:
        self.registry = new_registry()
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._coordinator: Coordinator | None = None
        self._authenticator: Authenticator | None = None
        self._stopping = False

    def serving(self, coordinator: Coordinator, authenticator: Authenticator | None) -> None:
        """It owns its store, and its server answers: from now on its tables are in the metrics. `authenticator` says who scrapes them."""
        self._coordinator = coordinator
        self._authenticator = authenticator
        self.registry.register(CoordinatorCollector(coordinator, self._settings.tables))

    def stopping(self) -> None:
        """It is not ready any more."""
        self._stopping = True

    def access_of(self, bearer: str | None, peer: str) -> Access:
        """What a scrape may see: where callers are asked who they are, no table without a token. Raises Unauthenticated."""
        if self._coordinator is None or self._authenticator is None:
            return EVERYTHING
        if bearer is None:
            return _NOTHING
        identifying = asyncio.run_coroutine_threadsafe(self._authenticator.identify(Proof(bearer, peer)), self._loop)
        return self._coordinator.grants.access_of(identifying.result(ANSWER_SECONDS))

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
