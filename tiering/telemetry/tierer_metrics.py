"""The metrics of a tierer: results and durations of its rounds, and the time since the coordinator's last answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from tiering.clock import Clock
from tiering.model.rounds import Assignment, PhaseTimes, RoundState
from tiering.round.steps.actions import RoundOutcome
from tiering.round.watch import TiererWatch
from tiering.telemetry import metrics
from tiering.telemetry.metrics import VERSION, Metric

SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
"""Bounds of the histograms in seconds, from an inline round of a few rows to a round of a backlog."""

MetricT = TypeVar("MetricT", Counter, Gauge)

OF_STATS = {
    "records_read": metrics.RECORDS_READ,
    "bytes_read": metrics.BYTES_READ,
    "records_written": metrics.RECORDS_WRITTEN,
    "bytes_written": metrics.BYTES_WRITTEN,
    "files_written": metrics.FILES_WRITTEN,
}
"""Counters by the field of `RoundStats` that they add up."""
OF_UPKEEP = {
    "bytes_read": metrics.UPKEEP_BYTES_READ,
    "bytes_written": metrics.UPKEEP_BYTES_WRITTEN,
    "snapshots_expired": metrics.SNAPSHOTS_EXPIRED,
}
"""Counters by the field of `UpkeepStats` that they add up."""

PHASES = tuple(part.name.removesuffix("_ms") for part in fields(PhaseTimes))


class TiererMetrics(TiererWatch):
    """Counts the tierer's heartbeats and rounds. Thread-safe."""

    def __init__(self, registry: CollectorRegistry, clock: Clock, slots: int, ready_ms: int) -> None:
        """`ready_ms`: the tierer is ready while the coordinator's last answer is at most this old."""
        # By default each counter has a second, undeclared series with the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no types
        self._clock = clock
        self._ready_ms = ready_ms
        self._lock = threading.Lock()
        self._heard_ms: int | None = None
        self._rounds = _registered(Counter, metrics.ROUNDS, registry)
        self._upkeep_rounds = _registered(Counter, metrics.UPKEEP_ROUNDS, registry)
        for state in RoundState:
            if state.is_final:
                self._rounds.labels(state.value)
                self._upkeep_rounds.labels(state.value)
        self._round_seconds = Histogram(metrics.ROUND_SECONDS.name, metrics.ROUND_SECONDS.comment, registry=registry, buckets=SECONDS)
        self._phase_seconds = Histogram(
            metrics.PHASE_SECONDS.name, metrics.PHASE_SECONDS.comment, metrics.PHASE_SECONDS.labels, registry=registry, buckets=SECONDS
        )
        for phase in PHASES:
            self._phase_seconds.labels(phase)
        self._of_stats = {name: _registered(Counter, metric, registry) for name, metric in OF_STATS.items()}
        seconds = metrics.UPKEEP_SECONDS
        self._upkeep_seconds = Histogram(seconds.name, seconds.comment, registry=registry, buckets=SECONDS)
        self._of_upkeep = {name: _registered(Counter, metric, registry) for name, metric in OF_UPKEEP.items()}
        self._running = _registered(Gauge, metrics.ROUNDS_RUNNING, registry)
        self._failed_heartbeats = _registered(Counter, metrics.FAILED_HEARTBEATS, registry)
        _registered(Gauge, metrics.TIERER_SLOTS, registry).set(slots)
        _registered(Gauge, metrics.TIERER_BUILD, registry).labels(VERSION).set(1)
        _registered(Gauge, metrics.COORDINATOR_SILENCE, registry).set_function(self._silent_seconds)

    def heartbeat_answered(self) -> None:
        with self._lock:
            self._heard_ms = self._clock.monotonic_ms()

    def heartbeat_failed(self) -> None:
        self._failed_heartbeats.inc()

    def round_started(self, assignment: Assignment) -> None:
        self._running.inc()

    def round_ended(self, assignment: Assignment, outcome: RoundOutcome, duration_ms: int) -> None:
        self._running.dec()
        is_upkeep = assignment.upkeep is not None
        (self._upkeep_rounds if is_upkeep else self._rounds).labels(outcome.state.value).inc()
        (self._upkeep_seconds if is_upkeep else self._round_seconds).observe(duration_ms / 1_000)
        for phase in PHASES:
            spent_ms = getattr(outcome.stats.times, f"{phase}_ms")
            if spent_ms is not None:
                self._phase_seconds.labels(phase).observe(spent_ms / 1_000)
        for name, counter in self._of_stats.items():
            counter.inc(getattr(outcome.stats, name))
        if outcome.stats.upkeep is not None:
            for name, counter in self._of_upkeep.items():
                counter.inc(getattr(outcome.stats.upkeep, name))

    def not_ready(self) -> str | None:
        """Returns why the tierer can take no table now; None if it can."""
        silent = self._silent_seconds()
        if silent != silent:  # no answer yet
            return "the coordinator has not answered yet"
        return f"the coordinator has not answered for {silent:.0f} s" if silent * 1_000 > self._ready_ms else None

    def _silent_seconds(self) -> float:
        with self._lock:
            heard_ms = self._heard_ms
        return float("nan") if heard_ms is None else max(0, self._clock.monotonic_ms() - heard_ms) / 1_000


def _registered(kind: Callable[..., MetricT], metric: Metric, registry: CollectorRegistry) -> MetricT:
    return kind(metric.name, metric.comment, metric.labels, registry=registry)
