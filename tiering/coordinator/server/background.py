"""The coordinator's background loops. `Background.loops` is the table of them.

Requests come first: loops that read the cluster use only a share of the time, and long passes are divided into short pieces (`throttle`).
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import structlog

from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import Fenced, LakewardError
from tiering.library_guards.panics import contained
from tiering.throttle import Throttle, Throttling, pause_after

_log = structlog.get_logger(__name__)

PRUNE_INTERVAL_MS = 600_000
"""Interval of pruning. It is short compared with the hour for which a dropped table's record is kept; each pass deletes little."""

BACKGROUND_SHARE = 0.1
"""Largest share of the time for reading the cluster. One pass over very many tables is seconds of work, and requests come first."""

SWEEP_SHARE = 0.05
"""Largest share of the time for sweeps of lake tables."""

HEALTH_SHARE = 0.05
"""Largest share of the time for observing the health of lake tables. It is only displayed, and each table has many manifests."""

PUBLISH_SHARE = 0.5
"""Largest share of the time for publishing in the second catalog. Most of it is waiting for the answers of two catalogs."""

FIRST_SHARE = 0.5
"""Share of the time while all logs are observed for the first time. Until then no lag is known."""

MANY_TABLES = 10_000
"""From this number of tables on, full collections are rare. One takes nearly a second at 100,000 tables."""

_NEVER = 2**31 - 1


@dataclass(frozen=True)
class Loop:
    """One background loop. `work` runs at once, or first after one interval, and then an interval after its end.

    The loop rests longer than the interval if `work` would take more than `share` of the time. Paced work rests by itself.
    """

    name: str
    interval_ms: int
    purpose: str
    work: Callable[[], object]
    share: float = 1.0
    runs_at_once: bool = True


class Background:
    """The loops. They run in an event loop until `stop`. `fenced` is called once another coordinator took the store over."""

    def __init__(self, coordinator: Coordinator, fenced: Callable[[], None]) -> None:
        self._coordinator = coordinator
        self._fenced = fenced
        self._stopping = threading.Event()
        self._observed = False
        self._garbage = RareCollections()
        loops = list(self.loops())
        self._threads = ThreadPoolExecutor(len(loops), thread_name_prefix="background")  # one per loop: no loop waits for another
        self._tasks = [asyncio.create_task(self._run(loop), name=loop.name) for loop in loops]
        coordinator.idle_checks.start()

    def loops(self) -> Iterator[Loop]:
        """Yields each loop with its name, interval and purpose."""
        parts, options = self._coordinator, self._coordinator.options
        tick, discovery, observe = options.tick_interval_ms, options.discovery_interval_ms, options.observe_interval_ms
        yield Loop("deadlines", tick, "End overdue rounds, back-offs and pauses, and queue due tables.", parts.advance)
        yield Loop("discovery", discovery, "Find created and dropped tables.", parts.discovery.run_quietly, BACKGROUND_SHARE)
        yield Loop(
            "passed heads", discovery, "Read passed lake heads before recording them.", parts.commits.look_at_heads, BACKGROUND_SHARE
        )
        yield Loop("lags", observe, "Observe all logs.", self._observe)
        yield Loop(
            "failed tables",
            options.way_out_interval_ms,
            "Inspect failed tables for a repair.",
            self._throttled(parts.repair_inspector.inspect_all),
        )
        yield Loop("lake sizes", observe, "Measure changed lake tables.", self._throttled(parts.observer.measure_lakes))
        measure_failing = partial(parts.observer.measure_lakes, failing=True)
        yield Loop("failing lake sizes", observe, "Measure lake tables that could not be read.", self._throttled(measure_failing))
        yield Loop("lake health", observe, "Observe the health of lake tables.", self._throttled(parts.lake_health.observe, HEALTH_SHARE))
        if parts.publisher.is_on:
            publish = self._throttled(parts.publisher.publish, PUBLISH_SHARE)
            yield Loop("second catalog", discovery, "Publish lake tables in the second catalog.", publish)
        yield Loop("upkeep", options.upkeep_look_interval_ms, "Find tables that need upkeep.", self._throttled(parts.upkeep.refresh))
        yield Loop("idle checks", tick, "Finish rounds of tables without new records.", self._check_idle)
        yield Loop("pruning", PRUNE_INTERVAL_MS, "Delete old history and records of dropped tables.", self._prune)
        # A start has more urgent work, and a first sweep finds no dead file.
        sweep = self._throttled(parts.sweeps.run, SWEEP_SHARE)
        yield Loop("sweeps", options.sweep_interval_ms, "Delete files of dead rounds.", sweep, runs_at_once=False)
        if parts.relay is not None:
            yield Loop("relay", options.relay_interval_ms, "Get tables from the cluster that assigns them.", parts.relay.run_quietly)
            read_statuses = self._throttled(parts.other_services.observe)
            yield Loop("other services", observe, "Read what other tiering services have tiered.", read_statuses)

    async def stop(self) -> None:
        """Starts no more work. Work in a thread ends by itself. A repeat has no effect."""
        self._stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._garbage.end()

    def _throttled(self, work: Callable[[Throttling], object], share: float = BACKGROUND_SHARE) -> Callable[[], object]:
        """Returns `work` with rests between its pieces, so that it takes at most `share` of the time, and ends early at a stop."""
        return lambda: work(Throttle.until(self._stopping, share).pause)

    def _observe(self) -> None:
        """Observes all tables, the first time with a larger share of the time."""
        self._throttled(self._coordinator.observer.observe_all, BACKGROUND_SHARE if self._observed else FIRST_SHARE)()
        many = len(self._coordinator.table_records.all()) >= MANY_TABLES
        if many and not self._observed and not self._stopping.is_set():
            self._garbage.begin()
        self._observed = True

    def _check_idle(self) -> None:
        if self._coordinator.idle_checks.are_due:
            self._throttled(self._coordinator.idle_checks.run)()

    def _prune(self) -> None:
        """Prunes with pauses between the writes, so that the writes of heartbeats need not wait."""
        self._throttled(self._coordinator.table_records.prune)()
        self._garbage.collect()

    async def _run(self, loop: Loop) -> None:
        if not loop.runs_at_once:
            await asyncio.sleep(loop.interval_ms / 1_000)
        clock = asyncio.get_running_loop()
        while True:
            started = clock.time()
            try:
                await clock.run_in_executor(self._threads, contained(loop.work))
            except Fenced:
                self._fenced()
                return
            except LakewardError as error:
                _log.warning("background work failed; it is retried", work=loop.purpose, error_class=error.error_class, error=error.message)
            except Exception:
                _log.exception("background work failed unexpectedly; it is retried", work=loop.purpose)
            spent = clock.time() - started
            await asyncio.sleep(max(loop.interval_ms / 1_000, pause_after(spent, loop.share)))


class RareCollections:
    """Limits Python's garbage collector in a coordinator with very many tables, because it stops all threads while it walks over records.

    From `begin` to `end`, full collections run only when the caller asks; small ones continue. Any thread may call it. A replaced record is
    freed by its reference count, so the walks find little: a few hundred small objects, in 100 to 160 ms of standstill every 20 seconds at
    10,000 tables and 20 rounds a second.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._former: tuple[int, int, int] | None = None
        self._has_ended = False

    def begin(self) -> None:
        """Freezes all living objects, so that the collector skips them. A repeat has no effect, nor has a call after `end`."""
        with self._lock:
            if self._former is None and not self._has_ended:
                self._former = gc.get_threshold()
                gc.set_threshold(*self._former[:2], _NEVER)
        self.collect()

    def collect(self) -> None:
        """Runs one full collection of the objects since the last one, if begun, and freezes the survivors."""
        with self._lock:
            if self._former is not None:
                gc.collect()
                gc.freeze()

    def end(self) -> None:
        """Restores the collector's state from before `begin`."""
        with self._lock:
            self._has_ended = True
            if self._former is not None:
                gc.set_threshold(*self._former)
                gc.unfreeze()
                self._former = None
