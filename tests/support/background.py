"""The background work of a coordinator, done at once and in a known order: nothing runs by itself in a test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from support.simulated.chance import PanicException
from tiering.coordinator.observing.lake_probes import LakeProbe
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import LakewardError


class DeferredPool:
    """In place of a coordinator's threads: work waits until `run`, so that a seed tells everything."""

    def __init__(self) -> None:
        self._work: list[Callable[[], object]] = []

    def submit(self, work: Callable[..., object], *arguments: object) -> Future[Any]:
        self._work.append(lambda: work(*arguments))
        return Future()

    def shutdown(self, **_: object) -> None:
        self._work.clear()

    def run(self) -> None:
        """Does what waits."""
        work, self._work = self._work, []
        for step in work:
            with contextlib.suppress(LakewardError, PanicException):  # it is logged, and observed again later
                step()


class LooksAtOnce:
    """In place of the threads that look at failed tables."""

    def wait(self, patience_ms: int, look: LakeProbe) -> None:
        """Runs the probe immediately."""
        look.work(lambda side: None)

    def close(self) -> None:
        """There is nothing to end."""


def in_turns(coordinator: Coordinator) -> DeferredPool:
    """Defers the work of the coordinator's threads until the test runs the pool."""
    pool = DeferredPool()
    coordinator.observer._pool = coordinator.observer._lakes_pool = pool  # type: ignore[assignment]
    coordinator.repair_inspector._threads = LooksAtOnce()  # type: ignore[assignment]
    return pool


def tick(coordinator: Coordinator) -> None:
    """Runs each background loop once."""
    coordinator.discovery.run()
    coordinator.commits.look_at_heads()
    if coordinator.relay is not None:
        coordinator.relay.run_quietly()
    coordinator.advance()
    coordinator.table_records.prune()
