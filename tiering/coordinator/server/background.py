"""The coordinator's background loops: deadlines, the comparison with the cluster's tables, heads, lags, sizes in the lake, failed
tables, pruning, upkeep, and sweeps of lake tables.

Answers come first: looks at the cluster take a share of the time, and the long ones are cut into short pieces (`pace`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from tiering.coordinator.server.coordinator import Coordinator
from tiering.coordinator.server.garbage_collection import MANY_TABLES, RareCollections
from tiering.errors import Fenced, LakewardError
from tiering.library_guards.panics import contained
from tiering.pace import Pace, rest_after

_log = structlog.get_logger(__name__)

PRUNE_INTERVAL_MS = 600_000
"""Short against the hour for which the record of a dropped table is kept; the deletions find little each time."""

BACKGROUND_SHARE = 0.1
"""Reading the cluster takes at most this share of the time: of very many tables one pass is seconds of work, and answers come first."""

SWEEP_SHARE = 0.05
"""Sweeps of lake tables take at most this share of the time."""

HEALTH_SHARE = 0.05
"""Looks at the health of lake tables are only shown, and each reads many manifests."""

FIRST_SHARE = 0.5
"""The share while all logs are observed for the first time: until then no lag is known."""


class Background:
    """Runs in an event loop from its construction until `stop`. Calls `fenced` once another coordinator took the store over."""

    def __init__(self, coordinator: Coordinator, fenced: Callable[[], None]) -> None:
        self._coordinator = coordinator
        self._fenced = fenced
        self._stopping = threading.Event()
        self._observed = False
        self._garbage = RareCollections()
        self._threads = ThreadPoolExecutor(14, thread_name_prefix="background")  # a loop each: none waits for another
        options = coordinator.options
        self._tasks = [
            asyncio.create_task(self._every(options.tick_interval_ms, coordinator.advance)),
            asyncio.create_task(self._every(options.discovery_interval_ms, coordinator.discovery.run_quietly, BACKGROUND_SHARE)),
            asyncio.create_task(self._every(options.discovery_interval_ms, coordinator.commits.look_at_heads, BACKGROUND_SHARE)),
            asyncio.create_task(self._every(options.observe_interval_ms, self._observe)),
            asyncio.create_task(self._every(options.way_out_interval_ms, self._look_for_ways_out)),
            asyncio.create_task(self._every(options.observe_interval_ms, self._measure)),
            asyncio.create_task(self._every(options.observe_interval_ms, self._measure_failing)),
            asyncio.create_task(self._every(options.observe_interval_ms, self._observe_health)),
            asyncio.create_task(self._every(options.upkeep_look_interval_ms, self._look_for_upkeep)),
            asyncio.create_task(self._every(options.tick_interval_ms, self._check_idle)),
            asyncio.create_task(self._every(PRUNE_INTERVAL_MS, self._prune)),
            asyncio.create_task(self._sweep_later(options.sweep_interval_ms)),
        ]
        coordinator.idle_checks.start()
        if coordinator.relay is not None:
            self._tasks.append(asyncio.create_task(self._every(options.relay_interval_ms, coordinator.relay.run_quietly)))
            self._tasks.append(asyncio.create_task(self._every(options.observe_interval_ms, self._look_at_other_services)))

    async def stop(self) -> None:
        """Starts no more work; work that a thread still does ends by itself. Harmless to repeat."""
        self._stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._garbage.end()

    def _observe(self) -> None:
        """Observes all tables; rests between pieces of work, so that it keeps to its share of the time."""
        share = BACKGROUND_SHARE if self._observed else FIRST_SHARE
        self._coordinator.observer.observe_all(Pace.until(self._stopping, share).rest)
        many = len(self._coordinator.table_records.all()) >= MANY_TABLES
        if many and not self._observed and not self._stopping.is_set():
            self._garbage.begin()
        self._observed = True

    def _look_for_ways_out(self) -> None:
        self._coordinator.ways_out.look(Pace.until(self._stopping, BACKGROUND_SHARE).rest)

    def _check_idle(self) -> None:
        if self._coordinator.idle_checks.are_due:
            self._coordinator.idle_checks.run(Pace.until(self._stopping, BACKGROUND_SHARE).rest)

    def _prune(self) -> None:
        """Rests between its writes, so that those of heartbeats find the store free."""
        self._coordinator.table_records.prune(Pace.until(self._stopping, BACKGROUND_SHARE).rest)
        self._garbage.collect()

    async def _sweep_later(self, interval_ms: int) -> None:
        """The first pass waits for an interval: a start has more urgent work, and nothing is found dead at the first look."""
        await asyncio.sleep(interval_ms / 1_000)
        await self._every(interval_ms, self._sweep)

    def _sweep(self) -> None:
        self._coordinator.sweeps.run(Pace.until(self._stopping, SWEEP_SHARE).rest)

    def _measure(self) -> None:
        self._coordinator.observer.measure_lakes(Pace.until(self._stopping, BACKGROUND_SHARE).rest)

    def _measure_failing(self) -> None:
        self._coordinator.observer.measure_lakes(Pace.until(self._stopping, BACKGROUND_SHARE).rest, failing=True)

    def _observe_health(self) -> None:
        self._coordinator.lake_health.observe(Pace.until(self._stopping, HEALTH_SHARE).rest)

    def _look_for_upkeep(self) -> None:
        self._coordinator.upkeep.look(Pace.until(self._stopping, BACKGROUND_SHARE).rest)

    def _look_at_other_services(self) -> None:
        self._coordinator.other_services.look(Pace.until(self._stopping, BACKGROUND_SHARE).rest)

    async def _every(self, interval_ms: int, work: Callable[[], None], share: float = 1.0) -> None:
        """Starts the work once an interval, less often if it would take more than `share` of the time."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                await loop.run_in_executor(self._threads, contained(work))
            except Fenced:
                self._fenced()
                return
            except LakewardError as error:
                _log.warning("background work failed; it is tried again", error_class=error.error_class, error=error.message)
            except Exception:
                _log.exception("background work failed unexpectedly; it is tried again")
            spent = loop.time() - started
            await asyncio.sleep(max(interval_ms / 1000, rest_after(spent, share)))
