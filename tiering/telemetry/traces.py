"""Traces of rounds for OpenTelemetry: a span for the round, and below it its plan, lease, read, write, commit and ack.

The round's calls to the coordinator carry its trace as W3C's `traceparent`, so that a coordinator with an endpoint adds its part.
A part's span never begins before the round's span and never ends after it, although durations are whole milliseconds and a wall clock may
be set back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tiering.clock import Clock
from tiering.instants import to_microseconds
from tiering.model.rounds import Assignment
from tiering.round.steps.actions import RoundOutcome
from tiering.round.transport import CallMetadata
from tiering.round.watch import TiererWatch
from tiering.telemetry.metrics import VERSION
from tiering.telemetry.otlp import close_provider, open_provider

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span


@dataclass
class _Part:
    """One part of a round, in microseconds since the epoch. Its work can be done in several pieces."""

    start_us: int
    end_us: int
    spent_ms: int


@dataclass
class _RunningTrace:
    """A round's span and its parts so far, in microseconds since the epoch."""

    root: Span
    metadata: CallMetadata
    start_us: int
    latest_us: int
    parts: dict[str, _Part] = field(default_factory=dict)

    def advance(self, wall_us: int) -> int:
        """Returns the time of an event of this trace: the wall clock, or the latest event if the wall clock was set back since then."""
        self.latest_us = max(self.latest_us, wall_us)
        return self.latest_us

    def add(self, phase: str, spent_ms: int, elapsed_ms: int, wall_us: int) -> None:
        """Adds a piece of a part that ends now. `elapsed_ms` is rounded, so the begin is corrected to be within the round."""
        now_us = self.advance(wall_us)
        begin_us = max(self.start_us, now_us - elapsed_ms * 1_000)
        part = self.parts.setdefault(phase, _Part(begin_us, now_us, 0))
        part.end_us = now_us
        part.spent_ms += spent_ms


class RoundTraces(TiererWatch):
    """Makes the spans of a round's parts when it ends. Thread-safe, because all calls about a round come from one thread."""

    def __init__(self, provider: TracerProvider, clock: Clock) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("lakeward", VERSION)
        self._clock = clock
        self._running: dict[str, _RunningTrace] = {}

    def round_started(self, assignment: Assignment) -> None:
        from opentelemetry import trace as api
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        now_us = self._now_us()
        root = self._tracer.start_span("tiering round", Context(), attributes=_about(assignment), start_time=now_us * 1_000)
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, api.set_span_in_context(root, Context()))
        self._running[assignment.round_id] = _RunningTrace(root, tuple(carrier.items()), now_us, now_us)

    def metadata(self, round_id: str) -> CallMetadata:
        """Returns the headers of a call of this round; empty if the round is unknown."""
        trace = self._running.get(round_id)
        return () if trace is None else trace.metadata

    def phase_done(self, assignment: Assignment, phase: str, spent_ms: int, elapsed_ms: int) -> None:
        trace = self._running.get(assignment.round_id)
        if trace is not None:
            trace.add(phase, spent_ms, elapsed_ms, self._now_us())

    def round_ended(self, assignment: Assignment, outcome: RoundOutcome, duration_ms: int) -> None:
        from opentelemetry import trace as api
        from opentelemetry.context import Context

        trace = self._running.pop(assignment.round_id, None)
        if trace is None:
            return
        root = trace.root
        root.set_attribute("state", outcome.state.value)
        root.set_attribute("records_written", outcome.stats.records_written)
        root.set_attribute("splits", outcome.stats.splits)
        if outcome.stats.place is not None:
            root.set_attribute("ran_on", outcome.stats.place.ran_on.value)
        below = api.set_span_in_context(root, Context())
        for phase, part in trace.parts.items():
            attributes = {**_about(assignment), "busy_ms": part.spent_ms}
            span = self._tracer.start_span(phase, below, attributes=attributes, start_time=part.start_us * 1_000)
            span.end(part.end_us * 1_000)
        if outcome.error is not None:
            root.set_attribute("error_class", outcome.error.error_class)
            if not outcome.state.ended_well:
                root.set_status(api.Status(api.StatusCode.ERROR, outcome.error.message))
        root.end(trace.advance(self._now_us()) * 1_000)

    def close(self) -> None:
        """Sends the remaining spans, for at most `otlp.CLOSE_SECONDS`."""
        close_provider(self._provider)

    def _now_us(self) -> int:
        return to_microseconds(self._clock.now())


def open_traces(clock: Clock, tierer_id: str, environment: Mapping[str, str] | None = None) -> RoundTraces | None:
    """Returns the traces for the endpoint in the environment; None without an endpoint, with traces off, or without the packages."""
    provider = open_provider("lakeward-tierer", tierer_id, environment)
    return None if provider is None else RoundTraces(provider, clock)


def _about(assignment: Assignment) -> dict[str, Any]:
    return {"round_id": assignment.round_id, "table": str(assignment.path), "tiering_epoch": assignment.tiering_epoch}
