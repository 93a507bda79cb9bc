"""The coordinator's background loops: deadlines, discovery of tables, passed heads, lags, lake sizes and health, failed tables, pruning,
upkeep, and sweeps of lake tables.

Requests come first: loops that read the cluster use only a share of the time, and long passes are divided into short pieces (`pace`).
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
"""Interval of pruning. It is short compared with the hour for which a dropped table's record is kept; each pass deletes little."""

BACKGROUND_SHARE = 0.1
"""Largest share of the time for reading the cluster. One pass over very many tables is seconds of work, and requests come first."""

SWEEP_SHARE = 0.05
"""Largest share of the time for sweeps of lake tables."""

HEALTH_SHARE = 0.05
"""Largest share of the time for observing the health of lake tables. It is only displayed, and each table has many manifests."""

FIRST_SHARE = 0.5
"""Share of the time while all logs are observed for the first time. Until then no lag is known."""


class Background:
    """The loops. They run in an event loop until `stop`. `fenced` is called once another coordinator took the store over."""

    def __init__(self, coordinator: Coordinator, fenced: Callable[[], None]) -> None:
        self._coordinator = coordinator
        self._fenced = fenced
        self._stopping = threading.Event()
        self._observed = False
        self._garbage = RareCollections()
        self._threads = ThreadPoolExecutor(14, thread_name_prefix="background")  # one per loop: no loop waits for another
        options = coordinator.options
        self._tasks = [
            asyncio.create_task(self._every(options.tick_interval_ms, coordinator.advance)),
            asyncio.create_task(self._every(options.discovery_interval_ms, coordinator.discovery.run_quietly, BACKGROUND_SHARE)),
            asyncio.create_task(self._every(options.discovery_interval_ms, coordinator.commits.look_at_heads, BACKGROUND_SHARE)),
            asyncio.create_task(self._every(options.observe_interval_ms, self._observe)),
            asyncio.create_task(self._every(options.way_out_interval_ms, self._inspect_failed_tables)),
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
        """Starts no more work. Work in a thread ends by itself. A repeat has no effect."""
        self._stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._garbage.end()

    def _observe(self) -> None:
        """Observes all tables, with pauses that keep the loop within its share of the time."""
        share = BACKGROUND_SHARE if self._observed else FIRST_SHARE
        self._coordinator.observer.observe_all(Pace.until(self._stopping, share).rest)
        many = len(self._coordinator.table_records.all()) >= MANY_TABLES
        if many and not self._observed and not self._stopping.is_set():
            self._garbage.begin()
        self._observed = True

    def _inspect_failed_tables(self) -> None:
        self._coordinator.repair_inspector.look(Pace.until(self._stopping, BACKGROUND_SHARE).rest)

    def _check_idle(self) -> None:
        if self._coordinator.idle_checks.are_due:
            self._coordinator.idle_checks.run(Pace.until(self._stopping, BACKGROUND_SHARE).rest)

    def _prune(self) -> None:
        """Prunes with pauses between the writes, so that the writes of heartbeats need not wait."""
        self._coordinator.table_records.prune(Pace.until(self._stopping, BACKGROUND_SHARE).rest)
        self._garbage.collect()

    async def _sweep_later(self, interval_ms: int) -> None:
        """Waits one interval before the first pass, because a start has more urgent work, and a first sweep finds nothing dead."""
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
        """Starts the work once per interval, or less often if it would take more than `share` of the time."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                await loop.run_in_executor(self._threads, contained(work))
            except Fenced:
                self._fenced()
                return
            except LakewardError as error:
                _log.warning("background work failed; it is retried", error_class=error.error_class, error=error.message)
            except Exception:
                _log.exception("background work failed unexpectedly; it is retried")
            spent = loop.time() - started
            await asyncio.sleep(max(interval_ms / 1000, rest_after(spent, share)))
