"""Health of a coordinator process for its health pages, and the tables that a scrape of its metrics may see."""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as FutureTimeoutError

from tiering.access.authentication import Authenticator, Proof
from tiering.access.grants import EVERYTHING, Access
from tiering.access.identity import UNCHECKED
from tiering.access.policies.engine import CedarEngine
from tiering.coordinator.server.coordinator import Coordinator
from tiering.telemetry.coordinator_metrics import CoordinatorCollector
from tiering.telemetry.http_server import new_registry

ANSWER_SECONDS = 5.0
"""An event loop that does not answer for this long hangs."""


_NOTHING = Access(UNCHECKED, CedarEngine(""))
"""The access of a scrape without a token: no policy permits anything."""


class CoordinatorHealth:
    """The health of a coordinator process. It is created in the event loop of the process, and other threads call it."""

    def __init__(self, most_tables: int) -> None:
        self.registry = new_registry()
        self._most_tables = most_tables
        self._loop = asyncio.get_running_loop()
        self._coordinator: Coordinator | None = None
        self._authenticator: Authenticator | None = None
        self._stopping = False

    def serving(self, coordinator: Coordinator, authenticator: Authenticator | None) -> None:
        """Marks the coordinator as serving, and adds its tables to the metrics. `authenticator` identifies the callers of scrapes."""
        self._coordinator = coordinator
        self._authenticator = authenticator
        self.registry.register(CoordinatorCollector(coordinator, self._most_tables))

    def stopping(self) -> None:
        """Marks the coordinator as not ready any more."""
        self._stopping = True

    def access_of(self, bearer: str | None, peer: str) -> Access:
        """Returns the access of a scrape. If callers authenticate, a scrape without a token sees no table. Raises Unauthenticated."""
        if self._coordinator is None or self._authenticator is None:
            return EVERYTHING
        if bearer is None:
            return _NOTHING
        identifying = asyncio.run_coroutine_threadsafe(self._authenticator.identify(Proof(bearer, peer)), self._loop)
        return self._coordinator.grants.access_of(identifying.result(ANSWER_SECONDS))

    def not_ready(self) -> str | None:
        """Returns why the coordinator does not answer calls now, or None if it does."""
        if self._stopping:
            return "this coordinator is stopping"
        if self._coordinator is None:
            return "this coordinator is starting, is a standby, or waits for its data folder, which another coordinator has"
        fenced = self._coordinator.table_records.fenced
        return None if fenced is None else fenced.message

    def not_alive(self) -> str | None:
        """Returns why the process should be restarted, or None."""
        answer = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            answer.result(ANSWER_SECONDS)
        except FutureTimeoutError:
            return f"the event loop has not answered for {ANSWER_SECONDS:g} s"
        return None
